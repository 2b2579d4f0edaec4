"""The seed program. Only what stands in the evolve block may change; a model's edits may put anything there."""

import math
import random

# EVOLVE-BLOCK-START
start = "given"
improve = "none"
tries = 200
heat = 0.0
draw = 1


def tour(instance):
    """Indices of the points in the order in which they are visited."""
    points = instance["points"]
    order = begin(points)
    if improve == "none":
        return order
    luck = random.Random(draw)
    best, best_length = list(order), length(points, order)
    now = best_length
    for step in range(tries):
        other = changed(order, luck)
        found = length(points, other)
        if found < now + heat * (1 - step / tries) * luck.random():
            order, now = other, found
            if now < best_length:
                best, best_length = list(order), now
    return best


def begin(points):
    left = list(range(len(points)))
    if start == "sweep":
        return sorted(left, key=lambda i: math.atan2(points[i][1] - 0.5, points[i][0] - 0.5))
    if start == "nearest":
        order = [left.pop(0)]
        while left:
            near = min(left, key=lambda i: math.dist(points[i], points[order[-1]]))
            left.remove(near)
            order.append(near)
        return order
    return left


def changed(order, luck):
    a, b = sorted(luck.sample(range(len(order)), 2))
    if improve == "swap" or (improve == "both" and luck.random() < 0.5):
        other = list(order)
        other[a], other[b] = other[b], other[a]
        return other
    return order[:a] + order[a : b + 1][::-1] + order[b + 1 :]


def length(points, order):
    return sum(math.dist(points[a], points[b]) for a, b in zip(order, order[1:] + order[:1], strict=True))


# EVOLVE-BLOCK-END
