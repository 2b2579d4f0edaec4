"""Find many whole-number vectors of which no two are nearer to each other than the longest is to the origin.

The settings in the evolve block steer the search below. Its candidates are all vectors of small whole numbers of one
length. It keeps families of them where they fit, one after the other, and then exchanges some for others. Nothing here
reads a clock: equal settings give equal vectors.
"""

import numpy as np

# EVOLVE-BLOCK-START
length = "two"
family = "single"
order = "random"
draw = 1
rounds = 0
removal = 1

LENGTHS = {"one": 1, "two": 2, "three": 3, "four": 4}
"""Squared lengths of the candidates."""


def arrange(instance):
    """A list of vectors for instance {"dimensions": of space, "seed": a constant to draw from}."""
    dimensions = int(instance["dimensions"])
    rng = np.random.default_rng([int(instance["seed"]), int(draw)])
    vectors = candidates(dimensions, LENGTHS[length])
    families = np.unique([FAMILIES[family](vector) for vector in vectors], return_inverse=True, axis=0)[1].ravel()
    clash, size = clashes(vectors, families)
    kept = exchanged(filled(np.zeros(len(size), dtype=bool), clash, size, rng), clash, size, rng)
    return vectors[kept[families]].tolist()


def candidates(dimensions, square):
    """(m, dimensions) whole-number vectors of this squared length, in lexicographic order."""
    found = [[]]
    for left in range(dimensions, 0, -1):
        found = [
            [*vector, value]
            for vector in found
            for value in range(-2, 3)
            if (rest := square - sum(x * x for x in vector) - value * value) >= 0 and (left > 1 or rest == 0)
        ]
    return np.array(found)


def alone(vector):
    """Every vector is a family."""
    return vector


def opposite(vector):
    """A vector and its opposite."""
    return max(vector.tolist(), (-vector).tolist())


def signed(vector):
    """Vectors that differ in signs."""
    return np.abs(vector)


def shifted(vector):
    """Vectors that differ by a cyclic shift."""
    return max(np.roll(vector, k).tolist() for k in range(len(vector)))


FAMILIES = {"single": alone, "opposites": opposite, "signs": signed, "shifts": shifted}
"""Each names the family of a vector by one of its members."""


def clashes(vectors, families):
    """(f, f) whether two families have vectors that are too near to each other, and (f,) sizes of families. A family
    that clashes with itself has the size 0."""
    by_family = np.argsort(families, kind="stable")
    begins = np.flatnonzero(np.diff(families[by_family], prepend=-1))
    ordered = vectors[by_family].astype(np.float32)
    products = ordered @ ordered.T
    np.fill_diagonal(products, 0.0)
    near = products > (ordered[0] @ ordered[0]) / 2
    clash = np.logical_or.reduceat(np.logical_or.reduceat(near, begins, axis=0), begins, axis=1)
    size = np.where(clash.diagonal(), 0, np.diff(begins, append=len(families)))
    return clash, size


def filled(kept, clash, size, rng):
    """(f,) the families kept, and of the others those that fit, one after the other in the chosen order."""
    kept = kept.copy()
    free = (size > 0) & ~kept & ~clash[kept].any(axis=0)
    for place in ORDERS[order](free, clash, rng):
        if free[place]:
            kept[place] = True
            free &= ~clash[place]
            free[place] = False
    return kept


def by_chance(free, clash, rng):
    return rng.permutation(np.flatnonzero(free))


def by_name(free, clash, rng):
    return np.flatnonzero(free)


def by_clashes(free, clash, rng):
    """Those that clash with few others first."""
    places = rng.permutation(np.flatnonzero(free))
    return places[np.argsort(clash[places][:, free].sum(axis=1), kind="stable")]


ORDERS = {"random": by_chance, "sorted": by_name, "gentle": by_clashes}


def exchanged(kept, clash, size, rng):
    """(f,) after `rounds` in which `removal` families leave and others fill the room, unless vectors are lost by it."""
    for _ in range(rounds):
        fewer = kept.copy()
        members = np.flatnonzero(kept)
        fewer[rng.choice(members, min(removal, len(members)), replace=False)] = False
        tried = filled(fewer, clash, size, rng)
        if size[tried].sum() >= size[kept].sum():
            kept = tried
    return kept


# EVOLVE-BLOCK-END
