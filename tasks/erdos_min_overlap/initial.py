"""A step function on [0, 2] that overlaps little with its complement, however far that is shifted.

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

WHOLE = 10**9  # the height that stands for 1


def heights(instance):
    """Whole numbers, the heights of the steps from left to right. The instance says nothing: there is one problem."""
    h = fitted(STARTS[start]((np.arange(pieces) + 0.5) / pieces))
    for level in range(doublings + 1):
        h = search(np.repeat(h, 2) if level else h, rounds // (doublings + 1))
    return allowed(h)


def allowed(h):
    """As whole numbers, none more than twice their mean: the function drawn to its mean as far as rounding needs."""
    h = np.clip(h, 0.0, None) / h.mean() - 1.0
    h = 1.0 + h * (1.0 - 1e-8) / max(h.max(), 1.0)
    return np.rint(h * (WHOLE / 2)).astype(np.int64).tolist()


STARTS = {
    "flat": lambda x: np.full_like(x, 0.5),
    "slope": lambda x: 0.45 + 0.1 * x,
    "hill": lambda x: 0.4 + 0.15 * np.sin(math.pi * x),
    "valley": lambda x: 0.6 - 0.15 * np.sin(math.pi * x),
    "noise": lambda x: np.random.default_rng(1).uniform(0.4, 0.6, len(x)),
}


def search(h, rounds):
    """The best of `rounds` functions on the way down, each with values in [0, 1] and a mean of 1/2."""
    first, second = np.zeros_like(h), np.zeros_like(h)
    best, lowest = h, math.inf
    for k in range(rounds):
        complement = (1.0 - h)[::-1]
        overlaps = np.convolve(h, complement) * (2 / len(h))
        if overlaps.max() < lowest:
            best, lowest = h, overlaps.max()
        weights = PEAKS[peak](overlaps / overlaps.max(), sharpness)
        gradient = np.correlate(weights, complement, "valid") - np.correlate(weights, h, "valid")[::-1]
        gradient -= gradient.mean()
        move, first, second = OPTIMIZERS[optimizer](gradient, first, second, k)
        h = fitted(h - step * (1.0 - k / rounds) * move)
    return best


def fitted(h):
    """Cut to [0, 1], and shifted until the mean is nearly 1/2."""
    for _ in range(5):
        h = np.clip(h + 0.5 - h.mean(), 0.0, 1.0)
    return h


def highest(overlaps, sharpness):
    return (overlaps == 1.0) / np.count_nonzero(overlaps == 1.0)


def soft(overlaps, sharpness):
    return share(np.exp(sharpness * (overlaps - 1.0)))


def power(overlaps, sharpness):
    return share(overlaps**sharpness)


def above(overlaps, sharpness):
    return share(np.maximum(overlaps - 1.0 + 1.0 / sharpness, 0.0))


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
