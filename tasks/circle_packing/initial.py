"""Pack n circles in the unit square so that the sum of their radii is large.

The settings in the evolve block steer the toolbox below. All of them share one budget of STEPS gradient steps, so
restarts and hops are paid for with shorter runs. Nothing here reads a clock: equal settings give equal packings.
"""

import functools
import math

import numpy as np

# EVOLVE-BLOCK-START
layout = "rings"
spread = 1.0
jitter = 0.0
draw = 1
optimizer = "none"
step = 0.0
weight = 1
ramp = 1
cooling = "none"
restarts = 0
hops = 0
force = "none"
radii = "scale"
# EVOLVE-BLOCK-END

STEPS = 700


def pack(instance):
    """[[x, y, r], ...] for instance {"n": circles, "seed": seed of every random draw}."""
    n = int(instance["n"])
    rng = np.random.default_rng([int(instance["seed"]), int(draw)])
    shape = max(1, int(restarts))
    centres = np.repeat(start(n, rng)[None], shape, axis=0)
    centres = np.clip(centres + jitter * rng.standard_normal(centres.shape), 0.01, 0.99)
    state = np.concatenate([centres, np.ones((shape, n, 1))], axis=2)
    asked = restarts > 0 or hops > 0 or step > 0 or optimizer != "none"
    best = search(state, rng) if asked else state[0]
    centres = np.clip(best[:, :2], 0.01, 0.99)
    return feasible(centres, RADII[radii](centres, best[:, 2]))


def start(n, rng):
    """(n, 2) centres of the chosen layout, drawn out from the middle by `spread`."""
    points = LAYOUTS[layout](n, rng)
    return np.clip(0.5 + spread * (points - 0.5), 0.01, 0.99)


def rings(n, rng):
    """One circle in the middle, a ring of 8, a ring of 16 beyond the walls; the rest in a corner."""
    points = np.zeros((n, 2))
    points[0] = 0.5
    for first, count, radius in ((1, 8, 0.3), (9, 16, 0.7)):
        for i in range(min(count, n - first)):
            angle = 2 * math.pi * i / count
            points[first + i] = 0.5 + radius * np.array([math.cos(angle), math.sin(angle)])
    return np.clip(points, 0.01, 0.99)


def grid(n, rng):
    """Square lattice, filled row by row, as many columns as the root of n rounded up."""
    side = math.ceil(math.sqrt(n))
    points = [((i % side + 0.5) / side, (i // side + 0.5) / side) for i in range(n)]
    return np.array(points)


def hexagonal(n, rng):
    """Rows in turn of 5 and 6 or as near as n allows, each row moved by half a gap."""
    rows = max(1, round(math.sqrt(n * 2 / math.sqrt(3)) * 0.93))
    sizes = [n // rows + (1 if k < n % rows else 0) for k in range(rows)]
    points = []
    for k, size in enumerate(sizes):
        shift = 0.25 if k % 2 else -0.25
        points += [((i + 0.5 + shift * 0.8) / size, (k + 0.5) / rows) for i in range(size)]
    return np.array(points)


def spiral(n, rng):
    """Sunflower spiral: each point turned by the golden angle."""
    index = np.arange(n)
    radius = 0.62 * np.sqrt((index + 0.5) / n)
    angle = index * math.pi * (3 - math.sqrt(5))
    return 0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def edges(n, rng):
    """All points along the four walls."""
    t = np.arange(n) * 4 / n
    side, along = t.astype(int), t % 1
    corners = np.array([[0.05, 0.05], [0.95, 0.05], [0.95, 0.95], [0.05, 0.95], [0.05, 0.05]])
    return corners[side] + along[:, None] * (corners[side + 1] - corners[side])


def scatter(n, rng):
    """Uniformly random."""
    return rng.uniform(0.05, 0.95, (n, 2))


LAYOUTS = {"rings": rings, "grid": grid, "hex": hexagonal, "spiral": spiral, "edges": edges, "random": scatter}


def pace():
    """The size of a move: `step`, or where that is 0 the optimizer's own."""
    return step or {"none": 0.003, "momentum": 0.003, "sign": 0.001, "rms": 0.003, "adam": 0.002}[optimizer]


def search(state, rng):
    """(n, 3): the best of all restarts (R, n, 3) after `hops` kicks of each, within STEPS steps in all."""
    rounds = 1 + int(hops)
    length = max(5, STEPS // (rounds * len(state)))
    best = descend(state, length, rng)
    value = rough(best[:, :, :2])
    for _ in range(1, rounds):
        trial = descend(kicked(best, rng), length, rng)
        worth = rough(trial[:, :, :2])
        best = np.where((worth > value)[:, None, None], trial, best)
        value = np.maximum(worth, value)
    return best[int(np.argmax(value))]


def kicked(state, rng):
    """Each packing (R, n, 3) with about one circle in four moved."""
    moved = rng.random(state.shape[:2]) < 0.25
    state = state + 0.1 * moved[:, :, None] * rng.standard_normal(state.shape)
    return np.clip(state, 0.01, 0.99)


def descend(state, length, rng):
    """(R, n, 3) after `length` steps from small, slightly unequal radii up the sum of radii less squared overlaps."""
    state = state.copy()
    state[:, :, 2] = 0.09 * (1 + 0.2 * rng.standard_normal(state.shape[:2]))
    first, second = np.zeros_like(state), np.zeros_like(state)
    for k in range(length):
        done = k / length
        gradient = slope(state, 4 * weight * ramp**done)
        move, first, second = OPTIMIZERS[optimizer](gradient, first, second, k)
        state += pace() * COOLINGS[cooling](done) * move
        np.clip(state, 0.0, 1.0, out=state)
    return state


def slope(state, stiffness):
    """Gradient (R, n, 3) of sum of radii − stiffness / 2 · squared overlaps with circles and walls."""
    centre, radius = state[:, :, :2], state[:, :, 2:]
    x, y = state[:, :, 0], state[:, :, 1]
    dx, dy = x[:, :, None] - x[:, None, :], y[:, :, None] - y[:, None, :]
    distance = np.sqrt(dx * dx + dy * dy) + apart(x.shape[1])
    overlap = np.maximum(radius + state[:, None, :, 2] - distance, 0.0)
    pull = overlap / distance
    low, high = np.maximum(radius - centre, 0.0), np.maximum(radius + centre - 1.0, 0.0)
    gradient = np.empty_like(state)
    gradient[:, :, 0] = (pull * dx).sum(axis=2)
    gradient[:, :, 1] = (pull * dy).sum(axis=2)
    gradient[:, :, :2] = stiffness * (gradient[:, :, :2] + low - high) + FORCES[force](centre)
    gradient[:, :, 2] = 1.0 - stiffness * (overlap.sum(axis=2) + (low + high).sum(axis=2))
    return gradient


@functools.cache
def apart(n):
    """(n, n): nothing between two circles, far away from itself."""
    return 9.0 * np.eye(n) + 1e-9


FORCES = {
    "none": lambda centre: 0.0,
    "inward": lambda centre: 0.5 * (0.5 - centre),
    "outward": lambda centre: 0.5 * (centre - 0.5),
    "down": lambda centre: np.array([0.0, -0.3]),
}

COOLINGS = {
    "none": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
    "power": lambda done: 1e-2**done,
    "early": lambda done: 1e-4**done,
}


def plain(gradient, first, second, k):
    return gradient, first, second


def momentum(gradient, first, second, k):
    first = 0.9 * first + 0.1 * gradient
    return first, first, second


def sign(gradient, first, second, k):
    return np.sign(gradient), first, second


def rms(gradient, first, second, k):
    second = 0.95 * second + 0.05 * gradient * gradient
    return gradient / (np.sqrt(second) + 1e-8), first, second


def adam(gradient, first, second, k):
    first = 0.9 * first + 0.1 * gradient
    second = 0.99 * second + 0.01 * gradient * gradient
    move = first / (1 - 0.9 ** (k + 1)) / (np.sqrt(second / (1 - 0.99 ** (k + 1))) + 1e-8)
    return move, first, second


OPTIMIZERS = {"none": plain, "momentum": momentum, "sign": sign, "rms": rms, "adam": adam}


def distances(centres):
    """(..., n, n) distances between centres, and (..., n) distances to the nearest wall."""
    gap = centres[..., :, None, :] - centres[..., None, :, :]
    wall = np.minimum(centres, 1.0 - centres).min(axis=-1)
    return np.sqrt((gap * gap).sum(axis=-1)) + 9.0 * np.eye(centres.shape[-2]), wall


def rough(centres):
    """(R,) sums of radii, roughly: each radius in turn as large as those before it and half its gaps allow."""
    distance, wall = distances(centres)
    n = centres.shape[-2]
    radius = np.minimum(wall, distance.min(axis=-1) / 2)
    for _ in range(2):
        for i in range(n):
            radius[..., i] = np.minimum(wall[..., i], (distance[..., i, :] - radius).min(axis=-1))
    return radius.sum(axis=-1)


def equal(centres, grown):
    """The one radius that fits everywhere."""
    distance, wall = distances(centres)
    n = len(centres)
    return np.full(n, min(wall.min(), distance.min() / 2))


def scale(centres, grown):
    """Those that the search ended with (walls, if there was none), each pair that overlaps shrunk in proportion."""
    return shrunk(centres, grown)


def shrunk(centres, radius):
    """(n,) radii no larger than those given, without overlaps: walls first, then pair by pair in proportion."""
    distance, wall = distances(centres)
    radius = np.minimum(radius, wall)
    for i, j in zip(*np.triu_indices(len(centres), 1), strict=True):
        both = radius[i] + radius[j]
        if both > distance[i, j]:
            radius[[i, j]] *= distance[i, j] / both
    return radius


def greedy(centres, grown):
    """Half the nearest gap, then each in turn grown until it touches."""
    distance, wall = distances(centres)
    return filled(centres, np.minimum(wall, distance.min(axis=1) / 2))


def fill(centres, grown):
    """As scale; then each in turn grown until it touches."""
    return filled(centres, shrunk(centres, grown))


def filled(centres, radius):
    """(n,) radii grown one after the other from those given, which must not overlap."""
    distance, wall = distances(centres)
    radius = radius.copy()
    for i in range(len(centres)):
        radius[i] = min(wall[i], (distance[i] - radius).min())
    return radius


def exact(centres, grown):
    """The largest sum for these centres: a linear programme, by a log barrier and Newton steps."""
    distance, wall = distances(centres)
    distance, wall, n = np.maximum(distance, 1e-6), np.maximum(wall, 1e-6), len(centres)
    radius = 0.5 * np.minimum(wall, distance.min(axis=1) / 2)
    between_circles, stiffness = 1.0 - np.eye(n), 1e-2
    for _ in range(40):
        between = between_circles / (distance - radius[:, None] - radius)
        inner, outer = 1.0 / radius, 1.0 / (wall - radius)
        gradient = 1.0 + stiffness * (inner - outer - between.sum(axis=1))
        curve = between * between
        hessian = curve + np.diag(curve.sum(axis=1) + inner**2 + outer**2)
        move = np.linalg.solve(stiffness * hessian, gradient)
        limit = 1.0
        grow = move[:, None] + move
        slack = distance - radius[:, None] - radius
        for need, room in ((grow, slack), (move, wall - radius), (-move, radius)):
            worst = np.max(need / room)
            if worst > 0:
                limit = min(limit, 0.95 / worst)
        radius = radius + limit * move
        stiffness = max(stiffness * 0.5, 1e-8)
    return radius


RADII = {"scale": scale, "equal": equal, "greedy": greedy, "fill": fill, "exact": exact}


def feasible(centres, radius):
    """The packing as a list, each overlapping pair shrunk until it fits, with room for rounding."""
    centres = np.clip(np.asarray(centres, dtype=float), 0.0, 1.0)
    radius = shrunk(centres, np.maximum(radius, 0.0))
    radius = np.maximum(radius * (1 - 1e-12) - 1e-15, 0.0)
    return np.column_stack([centres, radius]).tolist()
