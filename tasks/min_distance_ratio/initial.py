"""Place n points so that the largest distance between two of them is a small multiple of the smallest.

The settings in the evolve block steer the search below. It climbs a smooth stand-in for the logarithm of smallest over
largest distance, from one start or from several at once. Nothing here reads a clock: equal settings give equal points.
"""

import math

import numpy as np

# EVOLVE-BLOCK-START
layout = "ring"
noise = 0.005
starts = 1
steps = 5
stride = 0.0001
cooling = "none"
sharpness = 5
polish = 0

TRIES = 60  # new places of a point that are tried at once
REACH = 10.0  # of these places, in strides
GROWTH = 20.0  # of the sharpness during a search


def place(instance):
    """Lists of coordinates for instance {"n": points, "dimensions": of space, "seed": a constant to draw from}."""
    n, dimensions = int(instance["n"]), int(instance["dimensions"])
    rng = np.random.default_rng(int(instance["seed"]))
    pairs = np.array(np.triu_indices(n, 1))
    points = climb(start(n, dimensions, rng), pairs)
    return relocated(points[np.argmin(ratio(points, pairs))], pairs, rng).tolist()


def start(n, dimensions, rng):
    """(starts, n, dimensions) points of the layout, each start with its own noise."""
    points = np.zeros((starts, n, dimensions))
    for k in range(starts):
        flat = LAYOUTS[layout](n, dimensions, rng)
        points[k, :, : flat.shape[1]] = flat
    return points + noise * rng.standard_normal(points.shape)


def ring(n, dimensions, rng):
    """On one circle."""
    angle = 2 * math.pi * np.arange(n) / n
    return 0.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def wave(n, dimensions, rng):
    """Along a wave of two periods."""
    along = np.linspace(-0.5, 0.5, n)
    return np.stack([along, 0.3 * np.sin(4 * math.pi * along)], axis=1)


def cross(n, dimensions, rng):
    """On two lines that cross."""
    along = np.linspace(-0.5, 0.5, (n + 1) // 2)
    first, second = np.stack([along, along], axis=1), np.stack([along, -along], axis=1)
    return np.concatenate([first, second + 0.03])[:n]


def scatter(n, dimensions, rng):
    """Uniformly random."""
    return rng.uniform(-0.5, 0.5, (n, dimensions))


LAYOUTS = {"ring": ring, "wave": wave, "cross": cross, "random": scatter}


COOLINGS = {
    "none": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
    "steep": lambda done: 0.01**done,
}


def squares(points, pairs):
    """(starts, pairs, dimensions) differences of points, and (starts, pairs) squared distances, not quite 0."""
    gap = points[:, pairs[0]] - points[:, pairs[1]]
    return gap, (gap * gap).sum(axis=-1) + 1e-15


def ratio(points, pairs):
    """(starts,) squares of largest over smallest distance."""
    _, square = squares(points, pairs)
    return square.max(axis=1) / square.min(axis=1)


def climb(points, pairs):
    """(starts, n, dimensions) after `steps` moves by Adam."""
    ends = np.eye(points.shape[1])[pairs[0]] - np.eye(points.shape[1])[pairs[1]]
    first, second = np.zeros_like(points), np.zeros_like(points)
    for k in range(steps):
        done = k / steps
        slope = gradient(points, pairs, ends, sharpness * GROWTH**done)
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope * slope
        move = first / (1 - 0.9 ** (k + 1)) / (np.sqrt(second / (1 - 0.99 ** (k + 1))) + 1e-12)
        points = points + stride * COOLINGS[cooling](done) * move
    return points


def gradient(points, pairs, ends, sharp):
    """(starts, n, dimensions) slope of a mean over short distances less a mean over long ones, of their logarithms. The
    square s of a distance weighs s**-sharp among the short ones and s**sharp among the long ones."""
    gap, square = squares(points, pairs)
    size = np.log(square)
    short = np.exp(-sharp * (size - size.min(axis=1, keepdims=True)))
    long = np.exp(sharp * (size - size.max(axis=1, keepdims=True)))
    weight = short / short.sum(axis=1, keepdims=True) - long / long.sum(axis=1, keepdims=True)
    return ends.T @ ((weight / square)[..., None] * gap)


def relocated(points, pairs, rng):
    """(n, dimensions) after `polish` rounds in which each point moves to the best of TRIES places around it, less far
    each round."""
    least = ratio(points[None], pairs).min()
    for done in range(polish):
        reach = REACH * stride * (1.0 - done / polish)
        for i in rng.permutation(len(points)):
            tried = np.repeat(points[None], TRIES, axis=0)
            tried[:, i] += reach * rng.standard_normal((TRIES, points.shape[1]))
            found = ratio(tried, pairs)
            if found.min() < least:
                points, least = tried[np.argmin(found)], found.min()
    return points


# EVOLVE-BLOCK-END
