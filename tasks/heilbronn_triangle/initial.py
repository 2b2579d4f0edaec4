"""Place n points in an equilateral triangle so that the smallest triangle among them is large.

The settings in the evolve block steer the search below. It climbs a smooth stand-in for the least area, from one start
or from several at once. Nothing here reads a clock: equal settings give equal points.

The search uses coordinates u, v >= 0 with u + v <= 1. In them the area of a triangle, as a share of the whole, is the
absolute value of a determinant.
"""

import math
from itertools import combinations

import numpy as np

# EVOLVE-BLOCK-START
layout = "spiral"
noise = 0.02
starts = 1
steps = 5
stride = 0.0001
cooling = "none"
sharpness = 5
polish = 0

TRIES = 60  # new places of a point that are tried at once
REACH = 20.0  # of these places, in strides
GROWTH = 10.0  # of the sharpness during a search
SCALE = 0.03  # a typical least area, the unit of the sharpness
INSIDE = 1e-9  # every point stays this far from the walls, in parts of the whole


def place(instance):
    """[[x, y], ...] for instance {"n": points, "seed": a constant to draw from}, in the triangle with the corners
    (0, 0), (1, 0) and (1/2, √3/2)."""
    n = int(instance["n"])
    rng = np.random.default_rng(int(instance["seed"]))
    triples = np.array(list(combinations(range(n), 3)))
    points = climb(start(n, rng), triples)
    best = relocated(points[np.argmax(np.abs(doubled(points, triples)).min(axis=1))], triples, rng)
    u, v = (best * (1 - 3 * INSIDE) + INSIDE).T
    return np.column_stack([u + v / 2, v * math.sqrt(3) / 2]).tolist()


def start(n, rng):
    """(starts, n, 2) points of the layout, each start with its own noise."""
    points = np.stack([LAYOUTS[layout](n, rng) for _ in range(starts)])
    return clipped(points + noise * rng.standard_normal(points.shape))


def spiral(n, rng):
    """Around the middle, each point turned by the golden angle."""
    index = np.arange(n)
    radius, angle = 0.28 * np.sqrt((index + 0.5) / n), index * math.pi * (3 - math.sqrt(5))
    return 1 / 3 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def ring(n, rng):
    """On one circle."""
    angle = 2 * math.pi * (np.arange(n) + 0.5) / n
    return 1 / 3 + 0.28 * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def edges(n, rng):
    """Around the border of the triangle, and bent inwards."""
    along = 3 * (np.arange(n) + 0.5) / n
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    side, part = along.astype(int), (along % 1)[:, None]
    outer = corners[side] * (1 - part) + corners[side + 1] * part
    return 1 / 3 + (outer - 1 / 3) * (0.9 - 0.5 * part * (1 - part))


def scatter(n, rng):
    """Uniformly random."""
    points = rng.uniform(0.02, 0.98, (n, 2))
    return np.where(points.sum(axis=1, keepdims=True) > 1, 1 - points, points)


LAYOUTS = {"spiral": spiral, "ring": ring, "edges": edges, "random": scatter}


def clipped(points):
    """Points outside moved to the nearest wall, one wall after the other."""
    points = np.maximum(points, 0.0)
    beyond = np.maximum(points.sum(axis=-1, keepdims=True) - 1.0, 0.0)
    return np.clip(points - beyond / 2, 0.0, 1.0)


def doubled(points, triples):
    """(starts, triples) twice the signed area of each triangle."""
    a, b, c = (points[:, triples[:, k]] for k in range(3))
    return (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])


COOLINGS = {
    "none": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
    "steep": lambda done: 0.01**done,
}


def climb(points, triples):
    """(starts, n, 2) after `steps` moves by Adam up the smooth least area."""
    corner = [np.eye(points.shape[1])[triples[:, k]] for k in range(3)]
    first, second = np.zeros_like(points), np.zeros_like(points)
    for k in range(steps):
        done = k / steps
        slope = gradient(points, triples, corner, sharpness * GROWTH**done / SCALE)
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope * slope
        move = first / (1 - 0.9 ** (k + 1)) / (np.sqrt(second / (1 - 0.99 ** (k + 1))) + 1e-12)
        points = clipped(points + stride * COOLINGS[cooling](done) * move)
    return points


def gradient(points, triples, corner, sharp):
    """(starts, n, 2) slope of a mean of the areas in which an area a weighs exp(-sharp * a)."""
    a, b, c = (points[:, triples[:, k]] for k in range(3))
    area = doubled(points, triples)
    size = np.abs(area)
    weight = np.exp(-sharp * (size - size.min(axis=1, keepdims=True)))
    weight = (weight / weight.sum(axis=1, keepdims=True) * np.sign(area))[..., None]
    turned = np.array([[0.0, -1.0], [1.0, 0.0]])
    slope = np.zeros_like(points)
    for here, span in zip(corner, (b - c, c - a, a - b), strict=True):
        slope += here.T @ (weight * (span @ turned))
    return slope


def relocated(points, triples, rng):
    """(n, 2) after `polish` rounds in which each point moves to the best of TRIES places around it, less far each
    round."""
    least = np.abs(doubled(points[None], triples)).min()
    for done in range(polish):
        reach = REACH * stride * (1.0 - done / polish)
        for i in rng.permutation(len(points)):
            tried = np.repeat(points[None], TRIES, axis=0)
            tried[:, i] = clipped(points[i] + reach * rng.standard_normal((TRIES, 2)))
            found = np.abs(doubled(tried, triples)).min(axis=1)
            if found.max() > least:
                points, least = tried[np.argmax(found)], found.max()
    return points


# EVOLVE-BLOCK-END
