"""Place models on GPUs so that no GPU's key-value cache is under great pressure.

The settings in the evolve block steer the toolbox below. All draws come from `draw`, and nothing here reads a clock:
equal settings give equal placements.
"""

import math
import random

# EVOLVE-BLOCK-START
order = "given"
start = "turns"
improve = "none"
tries = 5
goal = "peak"
heat = 1.0
cooling = "none"
draw = 1


def place(instance):
    """The GPU of each model, as a list of whole numbers from 0."""
    models, gpus, memory = instance["models"], instance["gpus"], instance["memory"]
    rng = random.Random(draw)
    turn = sorted(range(len(models)), key=lambda number: ORDERS[order](*models[number]))
    placement = STARTS[start](turn, models, gpus)
    return walked(placement, models, gpus, memory, rng) if improve != "none" else placement


ORDERS = {
    "given": lambda size, rate, target: 0,
    "large": lambda size, rate, target: -size,
    "busy": lambda size, rate, target: -rate / target,
    "urgent": lambda size, rate, target: target,
}


def turns(turn, models, gpus):
    """GPU after GPU, again and again."""
    placement = [0] * len(turn)
    for place_in_turn, number in enumerate(turn):
        placement[number] = place_in_turn % gpus
    return placement


def snake(turn, models, gpus):
    """Forwards and backwards over the GPUs."""
    placement = [0] * len(turn)
    for place_in_turn, number in enumerate(turn):
        lap, step = divmod(place_in_turn, gpus)
        placement[number] = gpus - 1 - step if lap % 2 else step
    return placement


def halves(turn, models, gpus):
    """As many models in a row on each GPU."""
    placement = [0] * len(turn)
    for place_in_turn, number in enumerate(turn):
        placement[number] = place_in_turn * gpus // len(turn)
    return placement


STARTS = {"turns": turns, "snake": snake, "halves": halves}


def walked(placement, models, gpus, memory, rng):
    """The best placement of a walk of `tries` small changes, of which worse ones are taken now and then."""
    current = list(placement)
    worth = value(current, models, gpus, memory)
    best, least = list(current), value(current, models, gpus, memory, "peak")
    for k in range(tries):
        changed = CHANGES[improve](current, gpus, rng)
        other = value(changed, models, gpus, memory)
        allowed = heat * COOLINGS[cooling](k / tries) * worth * rng.random()
        if other <= worth + allowed:
            current, worth = changed, other
            peak = value(current, models, gpus, memory, "peak")
            if peak < least:
                best, least = list(current), peak
    return best


def value(placement, models, gpus, memory, by=None):
    """What a walk makes small: by `goal`, or by another."""
    room, demand = [memory] * gpus, [0.0] * gpus
    for gpu, (size, rate, target) in zip(placement, models, strict=True):
        room[gpu] -= size
        demand[gpu] += rate / target
    if min(room) <= 0:
        return math.inf
    return GOALS[by or goal]([asked / left for asked, left in zip(demand, room, strict=True)])


GOALS = {
    "peak": max,
    "squares": lambda pressures: sum(pressure**2 for pressure in pressures),
    "powers": lambda pressures: sum((20 * pressure) ** 8 for pressure in pressures),
    "range": lambda pressures: max(pressures) - min(pressures),
}

COOLINGS = {
    "none": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "square": lambda done: (1.0 - done) ** 2,
}


def moved(placement, gpus, rng):
    changed = list(placement)
    changed[rng.randrange(len(changed))] = rng.randrange(gpus)
    return changed


def swapped(placement, gpus, rng):
    changed = list(placement)
    a, b = rng.randrange(len(changed)), rng.randrange(len(changed))
    changed[a], changed[b] = changed[b], changed[a]
    return changed


def either(placement, gpus, rng):
    return (moved if rng.random() < 0.5 else swapped)(placement, gpus, rng)


CHANGES = {"move": moved, "swap": swapped, "both": either}
# EVOLVE-BLOCK-END
