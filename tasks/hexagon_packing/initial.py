"""Pack n regular hexagons of side 1 in a regular hexagon with a short side.

The settings in the evolve block steer the search below. It presses the hexagons into a hexagon that is too small for
them, from one start or from several at once, and then moves them apart until none overlaps. Nothing here reads a clock:
equal settings give equal packings.
"""

import math

import numpy as np

# EVOLVE-BLOCK-START
layout = "rows"
noise = 0.0
starts = 1
turns = "none"
steps = 5
stride = 0.001
squeeze = 6.0
polish = 0

APOTHEM = math.sqrt(3) / 2
TRIES = 40  # new places of a hexagon that are tried at once
REACH = 10.0  # of these places, in strides
ROOM = 1e-9  # between hexagons, so that rounding makes none overlap


def pack(instance):
    """[[x, y, t], ...] for instance {"n": hexagons, "seed": a constant to draw from}: centres, and tangents of half the
    angles of turning."""
    n = int(instance["n"])
    rng = np.random.default_rng(int(instance["seed"]))
    pairs = np.array(np.triu_indices(n, 1))
    states = press(start(n, rng), pairs)
    best = relocated(states[np.argmin(side(states, pairs)[0])], pairs, rng)
    factor = side(best[None], pairs)[1][0] * (1 + ROOM)
    angle = (best[:, 2] + math.pi / 6) % (math.pi / 3) - math.pi / 6
    return np.column_stack([best[:, :2] * factor, np.tan(angle / 2)]).tolist()


def start(n, rng):
    """(starts, n, 3) centres and angles of the layout, each start with its own noise."""
    states = np.zeros((starts, n, 3))
    for k in range(starts):
        states[k, :, :2] = LAYOUTS[layout](n, rng)
        if turns == "random":
            states[k, :, 2] = rng.uniform(0, math.pi / 3, n)
    states[:, :, :2] += noise * rng.standard_normal((starts, n, 2))
    return states


def rows(n, rng):
    """Two rows."""
    index = np.arange(n)
    return np.stack([2.0 * (index // 2 - (n - 1) / 4 + 0.25), 2.0 * (index % 2) - 1.0], axis=1)


def cross(n, rng):
    """On two lines that cross."""
    index = np.arange(n)
    along = 2.1 * ((index + 1) // 2) * np.where(index % 4 < 2, 1.0, -1.0) / 2
    return np.where(index[:, None] % 2 == 0, [1.0, 0.2], [0.2, 1.0]) * along[:, None]


def wave(n, rng):
    """Along a wave of one period."""
    along = np.arange(n) - (n - 1) / 2
    return np.stack([1.2 * along, 2.5 * np.sin(2 * math.pi * along / n)], axis=1)


def scatter(n, rng):
    """Uniformly random."""
    return rng.uniform(-3, 3, (n, 2))


LAYOUTS = {"rows": rows, "cross": cross, "wave": wave, "random": scatter}


def gauge(x, y):
    """How far (x, y) reaches along the normals of an unturned hexagon's sides, and the slope of that."""
    flat, steep = np.abs(y), APOTHEM * np.abs(x) + 0.5 * np.abs(y)
    is_flat = flat >= steep
    slope_x = np.where(is_flat, 0.0, APOTHEM * np.sign(x))
    slope_y = np.where(is_flat, 1.0, 0.5) * np.sign(y)
    return np.maximum(flat, steep), slope_x, slope_y


def between(states, pairs):
    """What decides whether pairs overlap: distance along the best normal, distance needed, and the slopes of the first
    by difference of centres and by both angles, of the second by difference of angles."""
    a, b = states[:, pairs[0]], states[:, pairs[1]]
    x, y = b[..., 0] - a[..., 0], b[..., 1] - a[..., 1]
    seen = []
    for one in (a, b):
        cosine, sine = np.cos(one[..., 2]), np.sin(one[..., 2])
        along, across = cosine * x + sine * y, cosine * y - sine * x
        far, u, v = gauge(along, across)
        seen.append((far, cosine * u - sine * v, sine * u + cosine * v, u * across - v * along))
    first = seen[0][0] >= seen[1][0]
    far, slope_x, slope_y, slope_turn = (np.where(first, p, q) for p, q in zip(*seen, strict=True))
    turn = b[..., 2] - a[..., 2]
    reach, u, v = gauge(np.cos(turn), np.sin(turn))
    slope_reach = v * np.cos(turn) - u * np.sin(turn)
    return far, APOTHEM + reach, slope_x, slope_y, slope_turn * first, slope_turn * ~first, slope_reach


def side(states, pairs):
    """(starts,) side of the hexagon around all once the centres are moved apart, and the factor by which."""
    far, needed = between(states, pairs)[:2]
    factor = (needed / np.maximum(far, 1e-9)).max(axis=1)
    reach = gauge(np.cos(states[..., 2]), np.sin(states[..., 2]))[0]
    outer = factor[:, None] * gauge(states[..., 0], states[..., 1])[0] + reach
    return outer.max(axis=1) / APOTHEM, factor


def press(states, pairs):
    """(starts, n, 3) after `steps` moves by Adam down the squares of overlaps and of what is outside a hexagon of side
    `squeeze`."""
    first, second = np.zeros_like(states), np.zeros_like(states)
    free = np.array([1.0, 1.0, 0.0 if turns == "none" else 1.0])
    for k in range(steps):
        slope = gradient(states, pairs) * free
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope * slope
        move = first / (1 - 0.9 ** (k + 1)) / (np.sqrt(second / (1 - 0.99 ** (k + 1))) + 1e-9)
        states = states - stride * (1.0 - k / steps) * move
    return states


def gradient(states, pairs):
    """(starts, n, 3) slope of half the squares of overlaps and of what is outside."""
    far, needed, slope_x, slope_y, turn_a, turn_b, slope_reach = between(states, pairs)
    short = np.maximum(needed - far, 0.0)
    ends = [np.eye(states.shape[1])[pairs[k]] for k in (0, 1)]
    apart = ends[0] - ends[1]
    slope = np.empty_like(states)
    slope[..., 0], slope[..., 1] = (short * slope_x) @ apart, (short * slope_y) @ apart
    slope[..., 2] = -(short * (slope_reach + turn_a)) @ ends[0] + (short * (slope_reach - turn_b)) @ ends[1]
    out, out_x, out_y = gauge(states[..., 0], states[..., 1])
    cosine, sine = np.cos(states[..., 2]), np.sin(states[..., 2])
    reach, u, v = gauge(cosine, sine)
    beyond = np.maximum(out + reach - squeeze * APOTHEM, 0.0)
    return slope + np.stack([beyond * out_x, beyond * out_y, beyond * (v * cosine - u * sine)], axis=-1)


def relocated(state, pairs, rng):
    """(n, 3) after `polish` rounds in which each hexagon moves to the best of TRIES places around it, less far each
    round."""
    least = side(state[None], pairs)[0][0]
    free = np.array([1.0, 1.0, 0.0 if turns == "none" else 0.3])
    for done in range(polish):
        reach = REACH * stride * (1.0 - done / polish)
        for i in rng.permutation(len(state)):
            tried = np.repeat(state[None], TRIES, axis=0)
            tried[:, i] += reach * rng.standard_normal((TRIES, 3)) * free
            found = side(tried, pairs)[0]
            if found.min() < least:
                state, least = tried[np.argmin(found)], found.min()
    return state


# EVOLVE-BLOCK-END
