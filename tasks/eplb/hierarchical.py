"""Place the experts of each layer as DeepSeek's load balancer does: groups to nodes, replicas within nodes, then GPUs.

1. Groups of experts go to nodes, the heaviest first, each to the node that carries least and has room.
2. Each spare slot of a node goes to the expert of the node whose replicas carry most.
3. Replicas go to the node's GPUs in the same way as groups to nodes.
"""

import numpy as np

# EVOLVE-BLOCK-START


def place(instance):
    """For each layer its slots' experts, GPU after GPU, for instance {"load": [layers][experts], "gpus": ..., ...}."""
    load = np.array(instance["load"], dtype=float)
    nodes, gpus = instance["nodes"], instance["gpus"] // instance["nodes"]
    slots = instance["slots"] // nodes
    layers, experts = load.shape
    members = np.arange(experts).reshape(instance["groups"], -1)
    packed = packing(load.reshape(layers, instance["groups"], -1).sum(axis=2), nodes)
    names = members[packed].reshape(layers * nodes, -1)
    rows = np.take_along_axis(np.repeat(load, nodes, axis=0), names, axis=1)
    items, each = replicas(rows, slots)
    chosen = packing(each, gpus).reshape(len(rows), -1)
    local = np.take_along_axis(items, chosen, axis=1)
    return np.take_along_axis(names, local, axis=1).reshape(layers, -1)


def packing(weights, packs):
    """(rows, packs, items) items of each pack in the order of their coming: equal numbers, the heaviest first, each to
    the pack that carries least and has room."""
    rows, count = weights.shape
    room = count // packs
    if room == 1:
        return np.tile(np.arange(count), (rows, 1)).reshape(rows, packs, room)
    packed = np.empty((rows, packs, room), dtype=int)
    ranked = np.argsort(-weights, axis=1, kind="stable").tolist()
    for row, sizes in enumerate(weights.tolist()):
        carried, held = [0.0] * packs, [0] * packs
        for item in ranked[row]:
            pack = min((number for number in range(packs) if held[number] < room), key=carried.__getitem__)
            packed[row, pack, held[pack]] = item
            carried[pack] += sizes[item]
            held[pack] += 1
    return packed


def replicas(rows, slots):
    """(rows, slots) experts of the slots, and what each slot carries: one slot an expert, then the spare ones in turn
    to the expert whose replicas carry most."""
    every, experts = np.arange(len(rows)), rows.shape[1]
    counts = np.ones(rows.shape)
    items = np.tile(np.arange(slots), (len(rows), 1))
    for slot in range(experts, slots):
        items[:, slot] = (rows / counts).argmax(axis=1)
        counts[every, items[:, slot]] += 1
    return items, np.take_along_axis(rows / counts, items, axis=1)


# EVOLVE-BLOCK-END
