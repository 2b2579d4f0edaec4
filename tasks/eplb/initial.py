"""Place the experts of each layer on GPUs: forecast, replicate, place, refine.

The settings in the evolve block steer the toolbox below. A layer is first cut into domains, each with its own experts
and GPUs; a domain of a layer is one row of every array here. `scan` is plain Python that looks at everything, `heap`
plain Python with a heap, `array` numpy over all rows at once.
"""

import heapq

import numpy as np

# EVOLVE-BLOCK-START
recent = 1.0
shrink = 0.0
domains = 2
gather = "fixed"
copies = "square"
counter = "scan"
order = "numbered"
spread = "greedy"
placer = "scan"
rounds = 16
partner = "coldest"
refiner = "scan"

RULES = {"root": 0.5, "share": 0.75, "hottest": 1.0, "square": 2.0}  # power of the load by which replicas are given
memory = {}  # the running average of the windows seen so far


def place(instance):
    """For each layer its slots' experts, GPU after GPU, for instance {"load": [layers][experts], "gpus": ..., ...}."""
    load = forecast(np.array(instance["load"], dtype=float))
    layers, experts = load.shape
    names = gathered(load, instance["groups"])
    rows = load[np.arange(layers)[:, None], names].reshape(layers * domains, -1)
    extra, gpus = (instance["slots"] - experts) // domains, instance["gpus"] // domains
    counts = replicas(rows, extra)
    items = np.repeat(np.tile(np.arange(rows.shape[1]), len(rows)), counts.ravel()).reshape(len(rows), -1)
    weights = np.take_along_axis(rows / counts, items, axis=1)
    placed = placement(weights, gpus)
    if rounds:
        placed = REFINERS[refiner](weights, placed.reshape(len(rows), gpus, -1)).reshape(len(rows), -1)
    local = np.take_along_axis(items, placed, axis=1)
    return np.take_along_axis(names.reshape(len(rows), -1), local, axis=1).reshape(layers, -1)


def forecast(load):
    """What the next window is expected to bring: a running average, drawn towards the layer's mean."""
    before = memory.get("load", load)
    memory["load"] = recent * load + (1 - recent) * before
    return (1 - shrink) * memory["load"] + shrink * memory["load"].mean(axis=1, keepdims=True) + 1e-9


def gathered(load, groups):
    """(layers, experts) experts in the order of their domains: groups as numbered, or joined by their load, or every
    expert dealt by its load."""
    layers, experts = load.shape
    if gather == "fixed" or domains == 1:
        return np.tile(np.arange(experts), (layers, 1))
    if gather == "dealt":
        deal = snake(experts, domains)
        return np.argsort(-load, axis=1)[:, deal]
    ranked = np.argsort(-load.reshape(layers, groups, -1).sum(axis=2), axis=1)[:, snake(groups, domains)]
    members = np.arange(experts).reshape(groups, -1)
    return members[ranked].reshape(layers, experts)


def snake(count, bins):
    """Positions 0 … count − 1 dealt to bins to and fro, listed bin after bin."""
    turn, place = np.divmod(np.arange(count), bins)
    return np.argsort(np.where(turn % 2, bins - 1 - place, place), kind="stable")


def replicas(rows, extra):
    """(rows, experts) replicas of each, `extra` in a row beyond one: to the first, or to the neediest in turn."""
    if copies == "first":
        counts = np.ones(rows.shape, dtype=int)
        counts[:, :extra] += 1
        return counts
    return COUNTERS[counter](rows ** RULES[copies], extra)


def count_scan(need, extra):
    counts = []
    for row in need.tolist():
        mine = [1] * len(row)
        for _ in range(extra):
            mine[max(range(len(row)), key=lambda expert: row[expert] / mine[expert])] += 1
        counts.append(mine)
    return np.array(counts)


def count_heap(need, extra):
    counts = []
    for row in need.tolist():
        mine = [1] * len(row)
        heap = [(-value, expert) for expert, value in enumerate(row)]
        heapq.heapify(heap)
        for _ in range(extra):
            expert = heap[0][1]
            mine[expert] += 1
            heapq.heapreplace(heap, (-row[expert] / mine[expert], expert))
        counts.append(mine)
    return np.array(counts)


def count_array(need, extra):
    counts, each, every = np.ones(need.shape, dtype=int), need.copy(), np.arange(len(need))
    for _ in range(extra):
        best = each.argmax(axis=1)
        counts[every, best] += 1
        each[every, best] = need[every, best] / counts[every, best]
    return counts


COUNTERS = {"scan": count_scan, "heap": count_heap, "array": count_array}


def placement(weights, gpus):
    """(rows, slots) slots in the order of the GPUs that they go to."""
    count = weights.shape[1]
    ranked = ORDERS[order](weights)
    if spread == "greedy":
        return PLACERS[placer](weights, ranked, gpus)
    deal = snake(count, gpus) if spread == "snake" else np.arange(count).reshape(-1, gpus).T.ravel()
    return ranked[:, deal]


def shuffled(weights):
    return np.random.default_rng(0).permuted(np.tile(np.arange(weights.shape[1]), (len(weights), 1)), axis=1)


ORDERS = {
    "numbered": lambda weights: np.tile(np.arange(weights.shape[1]), (len(weights), 1)),
    "rising": lambda weights: np.argsort(weights, axis=1),
    "falling": lambda weights: np.argsort(-weights, axis=1),
    "shuffled": shuffled,
}


def place_scan(weights, ranked, gpus):
    """Each slot in turn to the GPU that carries least and has room."""
    room, placed = weights.shape[1] // gpus, []
    for row, turn in zip(weights.tolist(), ranked.tolist(), strict=True):
        carried, held = [0.0] * gpus, [[] for _ in range(gpus)]
        for slot in turn:
            free = [gpu for gpu in range(gpus) if len(held[gpu]) < room]
            best = min(free, key=lambda gpu: carried[gpu])
            carried[best] += row[slot]
            held[best].append(slot)
        placed.append([slot for slots in held for slot in slots])
    return np.array(placed)


def place_heap(weights, ranked, gpus):
    room, placed = weights.shape[1] // gpus, []
    for row, turn in zip(weights.tolist(), ranked.tolist(), strict=True):
        heap, held = [(0.0, gpu) for gpu in range(gpus)], [[] for _ in range(gpus)]
        for slot in turn:
            carried, gpu = heap[0]
            held[gpu].append(slot)
            if len(held[gpu]) < room:
                heapq.heapreplace(heap, (carried + row[slot], gpu))
            else:
                heapq.heappop(heap)
        placed.append([slot for slots in held for slot in slots])
    return np.array(placed)


def place_array(weights, ranked, gpus):
    count, every = weights.shape[1], np.arange(len(weights))
    room = count // gpus
    carried, held = np.zeros((len(weights), gpus)), np.zeros((len(weights), gpus), dtype=int)
    placed = np.empty((len(weights), gpus, room), dtype=int)
    sizes = np.take_along_axis(weights, ranked, axis=1)
    for turn in range(count):
        gpu = carried.argmin(axis=1)
        taken = held[every, gpu]
        placed[every, gpu, taken] = ranked[:, turn]
        held[every, gpu] = taken + 1
        carried[every, gpu] += np.where(taken + 1 < room, sizes[:, turn], np.inf)
    return placed.reshape(len(weights), -1)


PLACERS = {"scan": place_scan, "heap": place_heap, "array": place_array}


def refine_scan(weights, placed):
    """`rounds` times in each row: the best swap between the GPU that carries most and its partner."""
    rng = np.random.default_rng(0)
    for row, held in zip(weights.tolist(), placed, strict=True):
        slots = held.tolist()
        carried = [sum(row[slot] for slot in mine) for mine in slots]
        gpus = range(len(slots))
        for _ in range(rounds):
            hot = max(gpus, key=carried.__getitem__)
            best, swap = carried[hot], None
            for cold in partners(gpus, carried, rng):
                for i, a in enumerate(slots[hot]):
                    for j, b in enumerate(slots[cold]):
                        moved = row[a] - row[b]
                        worst = max(carried[hot] - moved, carried[cold] + moved)
                        if worst < best:
                            best, swap = worst, (cold, i, j)
            if swap is not None:
                cold, i, j = swap
                moved = row[slots[hot][i]] - row[slots[cold][j]]
                slots[hot][i], slots[cold][j] = slots[cold][j], slots[hot][i]
                carried[hot] -= moved
                carried[cold] += moved
        held[:] = slots
    return placed


def partners(gpus, carried, rng):
    """GPUs with which the one that carries most may swap."""
    if partner == "every":
        return gpus
    return [int(rng.integers(len(gpus)))] if partner == "random" else [min(gpus, key=carried.__getitem__)]


def refine_array(weights, placed):
    rng, every = np.random.default_rng(0), np.arange(len(weights))
    sizes = np.take_along_axis(weights, placed.reshape(len(weights), -1), axis=1).reshape(placed.shape)
    carried = sizes.sum(axis=2)
    rows, gpus, _ = placed.shape
    for _ in range(rounds):
        hot = carried.argmax(axis=1)
        if partner == "every":
            cold = np.broadcast_to(np.arange(gpus), (rows, gpus))
        else:
            cold = rng.integers(gpus, size=(rows, 1)) if partner == "random" else carried.argmin(axis=1)[:, None]
        theirs = sizes[every[:, None], cold]
        moved = sizes[every, hot][:, None, :, None] - theirs[:, :, None, :]
        most, least = carried[every, hot], carried[every[:, None], cold]
        worst = np.maximum(most[:, None, None, None] - moved, least[:, :, None, None] + moved).reshape(rows, -1)
        best = worst.argmin(axis=1)
        which, i, j = np.unravel_index(best, moved.shape[1:])
        better = np.flatnonzero(worst[every, best] < most)
        mine, yours, i, j = hot[better], cold[better, which[better]], i[better], j[better]
        for array in (placed, sizes):
            array[better, mine, i], array[better, yours, j] = array[better, yours, j], array[better, mine, i].copy()
        shift = moved[better, which[better], i, j]
        carried[better, mine] -= shift
        carried[better, yours] += shift
    return placed


REFINERS = {"scan": refine_scan, "array": refine_array}
# EVOLVE-BLOCK-END
