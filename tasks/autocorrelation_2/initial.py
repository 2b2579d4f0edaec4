"""A step function whose autoconvolution is flat.

The settings in the evolve block steer the search below. Nothing here reads a clock: equal settings give equal
functions.
"""

import math

import numpy as np

# EVOLVE-BLOCK-START
pieces = 8
start = "slope"
optimizer = "plain"
step = 0.0003
rounds = 50
peak = "highest"
sharpness = 10
doublings = 0

WHOLE = 10**9  # the greatest height of the answer


def heights(instance):
    """Whole numbers, the heights of the steps from left to right. The instance says nothing: there is one problem."""
    f = normal(STARTS[start]((np.arange(pieces) + 0.5) / pieces))
    for level in range(doublings + 1):
        f = search(np.repeat(f, 2) if level else f, rounds // (doublings + 1))
    return np.rint(f / f.max() * WHOLE).astype(np.int64).tolist()


STARTS = {
    "flat": np.ones_like,
    "slope": lambda x: 5.0 + x,
    "hill": lambda x: 1.0 + np.sin(math.pi * x),
    "valley": lambda x: 2.0 - np.sin(math.pi * x),
    "noise": lambda x: np.random.default_rng(1).uniform(0.5, 1.5, len(x)),
}


def search(f, rounds):
    """The best of `rounds` functions on the way up, each with a mean of 1."""
    first, second = np.zeros_like(f), np.zeros_like(f)
    best, highest_score = f, -math.inf
    for k in range(rounds):
        square = np.convolve(f, f) * (2 / len(f))
        padded = np.pad(square, 1)
        neighbours = 4 * square + padded[:-2] + padded[2:]
        score = square @ neighbours / square.max()
        if score > highest_score:
            best, highest_score = f, score
        weights = neighbours / (square @ neighbours) - PEAKS[peak](square / square.max(), sharpness) / (
            2 * square.max()
        )
        gradient = -2 * np.correlate(weights, f, "valid")
        gradient -= gradient.mean()
        move, first, second = OPTIMIZERS[optimizer](gradient, first, second, k)
        f = normal(np.maximum(f - step * (1.0 - k / rounds) * move, 0.0))
    return best


def normal(f):
    """Scaled to a mean of 1."""
    return f / f.mean()


def highest(square, sharpness):
    return (square == 1.0) / np.count_nonzero(square == 1.0)


def soft(square, sharpness):
    return share(np.exp(sharpness * (square - 1.0)))


def power(square, sharpness):
    return share(square**sharpness)


def above(square, sharpness):
    return share(np.maximum(square - 1.0 + 1.0 / sharpness, 0.0))


def share(weights):
    return weights / weights.sum()


PEAKS = {"highest": highest, "soft": soft, "power": power, "above": above}


def plain(gradient, first, second, k):
    return gradient, first, second


def momentum(gradient, first, second, k):
    first = 0.9 * first + gradient
    return first, first, second


def rms(gradient, first, second, k):
    second = 0.95 * second + 0.05 * gradient * gradient
    return gradient / (np.sqrt(second) + 1e-8), first, second


def adam(gradient, first, second, k):
    first = 0.9 * first + 0.1 * gradient
    second = 0.99 * second + 0.01 * gradient * gradient
    move = first / (1 - 0.9 ** (k + 1)) / (np.sqrt(second / (1 - 0.99 ** (k + 1))) + 1e-8)
    return move, first, second


OPTIMIZERS = {"plain": plain, "momentum": momentum, "rms": rms, "adam": adam}
# EVOLVE-BLOCK-END
