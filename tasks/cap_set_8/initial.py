"""A large set of vectors over {0, 1, 2}, no three of which add up to zero modulo 3: greedy by a priority.

The settings in the evolve block steer the toolbox below. Vectors that symmetries carry into each other are taken all
together or not at all. All draws come from `draw`: equal settings give equal sets.
"""

import numpy as np

# EVOLVE-BLOCK-START
weight = "any"
negate = "none"
turn = 0
swap = "none"
form = "any"
ties = "numbered"
repair = 0
draw = 1

REMOVED = 0.3  # of the set in each repair


def cap_set(instance):
    """[[0, 1, 2, ...], ...] of so many coordinates as instance["dimension"] says."""
    space = Space(int(instance["dimension"]))
    rng = np.random.default_rng(draw)
    priority = rated(space, rng)
    orbits = orbits_of(space, symmetries(space))
    chosen = grown(space, orbits, priority, np.zeros(0, dtype=int))
    for _ in range(repair):
        kept = chosen[rng.random(len(chosen)) >= REMOVED]
        again = grown(space, np.arange(space.size)[:, None], priority + rng.random(space.size), kept)
        if len(again) >= len(chosen):
            chosen = again
    return space.vectors[chosen].tolist()


class Space:
    """All vectors over {0, 1, 2}, numbered as they are written."""

    def __init__(self, dimension):
        self.dimension, self.size = dimension, 3**dimension
        self.places = 3 ** np.arange(dimension - 1, -1, -1)
        self.vectors = np.arange(self.size)[:, None] // self.places % 3

    def third(self, one, others):
        """The numbers of the vectors that add up to zero with one and each of the others."""
        return (-(self.vectors[one] + self.vectors[others])) % 3 @ self.places


def rated(space, rng):
    """(size,) priority of each vector."""
    vectors = space.vectors
    support = np.count_nonzero(vectors, axis=1)
    priority = np.zeros(space.size)
    if weight != "any":
        priority -= 4.0 * abs(support - weight)
    if form != "any":
        priority += 2.0 * (FORMS[form](vectors) % 3 == 1)
    return priority + 0.5 * TIES[ties](vectors, rng)


FORMS = {
    "squares": lambda v: (v * v).sum(axis=1),
    "sum": lambda v: v.sum(axis=1),
    "neighbours": lambda v: (v * np.roll(v, 1, axis=1)).sum(axis=1),
    "halves": lambda v: (v[:, : v.shape[1] // 2] * v[:, v.shape[1] // 2 :]).sum(axis=1),
}

TIES = {
    "numbered": lambda v, rng: np.zeros(len(v)),
    "backwards": lambda v, rng: np.linspace(0.0, 1.0, len(v)),
    "ones": lambda v, rng: (v == 1).mean(axis=1),
    "random": lambda v, rng: rng.random(len(v)),
}


def symmetries(space):
    """Permutations of the numbers of all vectors: changes of sign, turns and swaps of coordinates."""
    n, vectors, found = space.dimension, space.vectors, []
    for group in NEGATED[negate](n):
        changed = vectors.copy()
        changed[:, group] = -changed[:, group] % 3
        found.append(changed @ space.places)
    if turn:
        found.append(np.roll(vectors, turn, axis=1) @ space.places)
    for pairs in SWAPPED[swap](n):
        order = np.arange(n)
        for a, b in pairs:
            order[[a, b]] = order[[b, a]]
        found.append(vectors[:, order] @ space.places)
    return found


NEGATED = {
    "none": lambda n: [],
    "all": lambda n: [range(n)],
    "halves": lambda n: [range(n // 2), range(n // 2, n)],
    "pairs": lambda n: [(k, k + 1) for k in range(0, n, 2)],
}

SWAPPED = {
    "none": lambda n: [],
    "together": lambda n: [[(k, k + 1) for k in range(0, n, 2)]],
    "single": lambda n: [[(k, k + 1)] for k in range(0, n, 2)],
    "mirror": lambda n: [[(k, n - 1 - k) for k in range(n // 2)]],
}


def orbits_of(space, permutations):
    """Lists of vectors that the permutations carry into each other."""
    seen, found = np.zeros(space.size, dtype=bool), []
    for first in range(space.size):
        if seen[first]:
            continue
        orbit, seen[first] = [first], True
        for number in orbit:
            for permutation in permutations:
                image = int(permutation[number])
                if not seen[image]:
                    seen[image] = True
                    orbit.append(image)
        found.append(orbit)
    return found


def grown(space, orbits, priority, chosen):
    """The numbers of a set that begins as chosen and takes every orbit that fits whole, the best rated first."""
    free = np.ones(space.size, dtype=bool)
    for k, number in enumerate(chosen):
        free[number] = False
        free[space.third(number, chosen[:k])] = False
    rating = np.array([priority[orbit].mean() for orbit in orbits])
    for k in np.argsort(-rating, kind="stable"):
        if free[orbits[k]].all():
            free, chosen = with_orbit(space, orbits[k], free, chosen)
    return chosen


def with_orbit(space, orbit, free, chosen):
    """What is free, and the set, with the orbit; or as they were if the orbit does not fit whole."""
    fewer, more = free.copy(), chosen
    for number in orbit:
        if not fewer[number]:
            return free, chosen
        fewer[number] = False
        fewer[space.third(number, more)] = False
        more = np.append(more, number)
    return fewer, more


# EVOLVE-BLOCK-END
