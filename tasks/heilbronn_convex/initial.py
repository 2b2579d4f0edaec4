"""Place n points so that the smallest triangle among them is a large part of their convex hull.

The settings in the evolve block steer the search below. It climbs a smooth stand-in for the least area while the points
stay in a frame, from one start or from several at once. Nothing here reads a clock: equal settings give equal points.
"""

import math
from itertools import combinations

import numpy as np

# EVOLVE-BLOCK-START
layout = "spiral"
noise = 0.02
starts = 1
steps = 5
stride = 0.02
frame = "disc"
sharpness = 5
polish = 0

TRIES = 30  # new places of a point that are tried at once
REACH = 15.0  # of these places, in strides
UNIT = 0.002  # of the stride, in sides of a frame
GROWTH = 10.0  # of the sharpness during a search
SCALE = 0.03  # a typical least area in a frame of about unit area, the unit of the sharpness


def place(instance):
    """[[x, y], ...] for instance {"n": points, "seed": a constant to draw from}."""
    n = int(instance["n"])
    rng = np.random.default_rng(int(instance["seed"]))
    triples = np.array(list(combinations(range(n), 3)))
    points = climb(start(n, rng), triples)
    return relocated(points[np.argmax(share(points))], rng).tolist()


def start(n, rng):
    """(starts, n, 2) points of the layout, each start with its own noise."""
    points = np.stack([LAYOUTS[layout](n, rng) for _ in range(starts)])
    return FRAMES[frame](points + noise * rng.standard_normal(points.shape))


def spiral(n, rng):
    """Around the middle, each point turned by the golden angle."""
    index = np.arange(n)
    radius, angle = 0.45 * np.sqrt((index + 0.5) / n), index * math.pi * (3 - math.sqrt(5))
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def wave(n, rng):
    """Along a wave of two periods."""
    along = np.linspace(-0.5, 0.5, n)
    return np.stack([along, 0.3 * np.sin(4 * math.pi * along)], axis=1)


def grid(n, rng):
    """In rows of four."""
    index = np.arange(n)
    return np.stack([index % 4 / 4 - 0.375, index // 4 / 4 - 0.375], axis=1)


def scatter(n, rng):
    """Uniformly random."""
    return rng.uniform(-0.5, 0.5, (n, 2))


LAYOUTS = {"spiral": spiral, "wave": wave, "grid": grid, "random": scatter}


def in_disc(points):
    """Points outside a disc of unit area moved to its border."""
    far = np.sqrt((points * points).sum(axis=-1, keepdims=True)) * math.sqrt(math.pi)
    return points / np.maximum(far, 1.0)


def in_square(points):
    """Points outside a square of unit area moved to its border."""
    return np.clip(points, -0.5, 0.5)


def in_triangle(points):
    """Points outside a triangle of unit area moved to the nearest wall, one wall after the other."""
    for angle in (0.5 * math.pi, 0.5 * math.pi + 2 * math.pi / 3, 0.5 * math.pi + 4 * math.pi / 3):
        normal = np.array([math.cos(angle), math.sin(angle)])
        points = points - np.maximum(points @ normal - 0.4387, 0.0)[..., None] * normal
    return points


def anywhere(points):
    """Points kept together by their root mean square alone."""
    points = points - points.mean(axis=-2, keepdims=True)
    spread = np.sqrt((points * points).sum(axis=-1, keepdims=True).mean(axis=-2, keepdims=True))
    return points * np.minimum(0.42 / spread, 1.0)


FRAMES = {"disc": in_disc, "square": in_square, "triangle": in_triangle, "none": anywhere}


def doubled(points, triples):
    """(starts, triples) twice the signed area of each triangle."""
    a, b, c = (points[:, triples[:, k]] for k in range(3))
    return (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])


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
        points = FRAMES[frame](points + UNIT * stride * (1.0 - done) * move)
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


def share(points):
    """(starts,) least area of a triangle over the area of the hull. An edge from i to j is on the hull if no point
    is on its right."""
    x, y = points[..., 0], points[..., 1]
    dx, dy = x[:, None, :] - x[:, :, None], y[:, None, :] - y[:, :, None]
    left = dx[:, :, :, None] * dy[:, :, None, :] - dy[:, :, :, None] * dx[:, :, None, :]
    apart = np.eye(points.shape[1], dtype=bool)
    same = apart[:, :, None] | apart[:, None, :] | apart[None, :, :]
    least = np.where(same, np.inf, np.abs(left)).min(axis=(1, 2, 3))
    hull = np.where(same, np.inf, left).min(axis=3) >= 0
    doubled_hull = (hull & ~apart) * (x[:, :, None] * y[:, None, :] - y[:, :, None] * x[:, None, :])
    return least / np.maximum(doubled_hull.sum(axis=(1, 2)), 1e-9)


def relocated(points, rng):
    """(n, 2) after `polish` rounds in which each point moves to the best of TRIES places around it, less far each
    round."""
    least = share(points[None])[0]
    for done in range(polish):
        reach = REACH * UNIT * stride * (1.0 - done / polish)
        for i in rng.permutation(len(points)):
            tried = np.repeat(points[None], TRIES, axis=0)
            tried[:, i] += reach * rng.standard_normal((TRIES, 2))
            found = share(tried)
            if found.max() > least:
                points, least = tried[np.argmax(found)], found.max()
    return points


# EVOLVE-BLOCK-END
