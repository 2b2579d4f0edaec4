"""Pack n circles in the unit square so that the sum of their radii is large.

The settings in the evolve block steer the toolbox below. Every search takes the same number of gradient steps, and
nothing here reads a clock: equal settings give equal packings.
"""

import functools
import math

import numpy as np

# EVOLVE-BLOCK-START
layout = "rings"
turn = 0
jitter = 0.0
draw = 1
optimizer = "none"
step = 0.0
weight = 1
ramp = 1
cooling = "none"
force = "none"
snap = 0
radii = "scale"

STEPS = 700  # of every search, whatever its settings
IDLE = ("none", 0.0, 1, 1, "none", "none")  # a search of which nothing is asked leaves the centres as they are
PRICE = 4.0  # of a unit of squared overlap, times weight and ramp
NOISE = 0.01  # added to every start, so that no two centres coincide
SIZES = (0.04, 0.12)  # between which the first radii are drawn


def pack(instance):
    """[[x, y, r], ...] for instance {"n": circles, "seed": a constant to draw from}."""
    n = int(instance["n"])
    rng = np.random.default_rng([int(instance["seed"]), int(draw)])
    state = np.column_stack([start(n, rng), np.ones(n)])
    if (optimizer, step, weight, ramp, cooling, force) != IDLE:
        state = search(state, rng)
    centres = np.clip(np.round(state[:, :2] * snap) / snap if snap else state[:, :2], 0.01, 0.99)
    return feasible(centres, RADII[radii](centres, state[:, 2]))


def start(n, rng):
    """(n, 2) centres of the chosen layout, turned by `turn` degrees, with noise of size `jitter`."""
    angle = math.radians(turn)
    rotation = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    points = 0.5 + (LAYOUTS[layout](n, rng) - 0.5) @ rotation
    return np.clip(points + jitter * rng.standard_normal((n, 2)), 0.01, 0.99)


def rings(n, rng):
    """One circle in the middle, a ring of 8, a ring of 16 beyond the walls; the rest in a corner."""
    points = np.zeros((n, 2))
    points[0] = 0.5
    for first, count, radius in ((1, 8, 0.3), (9, 16, 0.7)):
        for i in range(min(count, n - first)):
            angle = 2 * math.pi * i / count
            points[first + i] = 0.5 + radius * np.array([math.cos(angle), math.sin(angle)])
    return np.clip(points, 0.01, 0.99)


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


def scatter(n, rng):
    """Uniformly random."""
    return rng.uniform(0.05, 0.95, (n, 2))


LAYOUTS = {"rings": rings, "hex": hexagonal, "spiral": spiral, "random": scatter}


def search(state, rng):
    """(n, 3) after STEPS steps from small, unequal radii up the sum of radii less squared overlaps."""
    n = len(state)
    state = np.column_stack([state[:, :2] + NOISE * rng.standard_normal((n, 2)), rng.uniform(*SIZES, n)])
    first, second = np.zeros_like(state), np.zeros_like(state)
    for k in range(STEPS):
        done = k / STEPS
        gradient = slope(state, PRICE * weight * ramp**done)
        move, first, second = OPTIMIZERS[optimizer](gradient, first, second, k)
        state = np.clip(state + pace() * COOLINGS[cooling](done) * move, 0.0, 1.0)
    return state


def pace():
    """The size of a move: `step`, or where that is 0 the optimizer's own, which is careful."""
    return step or {"none": 0.0003, "momentum": 0.0004, "rms": 0.0003, "adam": 0.0002}[optimizer]


def slope(state, stiffness):
    """Gradient (n, 3) of sum of radii − stiffness / 2 · squared overlaps with circles and walls."""
    centre, radius = state[:, :2], state[:, 2:]
    x, y = state[:, 0], state[:, 1]
    dx, dy = x[:, None] - x, y[:, None] - y
    distance = np.sqrt(dx * dx + dy * dy) + apart(len(x))
    overlap = np.maximum(radius + state[:, 2] - distance, 0.0)
    pull = overlap / distance
    low, high = np.maximum(radius - centre, 0.0), np.maximum(radius + centre - 1.0, 0.0)
    gradient = np.empty_like(state)
    gradient[:, 0] = (pull * dx).sum(axis=1)
    gradient[:, 1] = (pull * dy).sum(axis=1)
    gradient[:, :2] = stiffness * (gradient[:, :2] + low - high) + FORCES[force](centre)
    gradient[:, 2] = 1.0 - stiffness * (overlap.sum(axis=1) + (low + high).sum(axis=1))
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
    "swirl": lambda centre: 0.5 * (centre[..., ::-1] - 0.5) * np.array([-1.0, 1.0]),
}

COOLINGS = {
    "none": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
}


def plain(gradient, first, second, k):
    return gradient, first, second


def momentum(gradient, first, second, k):
    first = 0.9 * first + 0.1 * gradient
    return first, first, second


def rms(gradient, first, second, k):
    second = 0.95 * second + 0.05 * gradient * gradient
    return gradient / (np.sqrt(second) + 1e-8), first, second


def adam(gradient, first, second, k):
    first = 0.9 * first + 0.1 * gradient
    second = 0.99 * second + 0.01 * gradient * gradient
    move = first / (1 - 0.9 ** (k + 1)) / (np.sqrt(second / (1 - 0.99 ** (k + 1))) + 1e-8)
    return move, first, second


OPTIMIZERS = {"none": plain, "momentum": momentum, "rms": rms, "adam": adam}


def distances(centres):
    """(..., n, n) distances between centres, and (..., n) distances to the nearest wall."""
    gap = centres[..., :, None, :] - centres[..., None, :, :]
    wall = np.minimum(centres, 1.0 - centres).min(axis=-1)
    return np.sqrt((gap * gap).sum(axis=-1)) + 9.0 * np.eye(centres.shape[-2]), wall


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


RADII = {"scale": scale, "fill": fill, "exact": exact}


def feasible(centres, radius):
    """The packing as a list, each overlapping pair shrunk until it fits, with room for rounding."""
    centres = np.clip(np.asarray(centres, dtype=float), 0.0, 1.0)
    radius = shrunk(centres, np.maximum(radius, 0.0))
    radius = np.maximum(radius * (1 - 1e-12) - 1e-15, 0.0)
    return np.column_stack([centres, radius]).tolist()


# EVOLVE-BLOCK-END
