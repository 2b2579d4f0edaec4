"""Put transactions in an order in which they hinder each other little: an order to begin with, then small changes.

The settings in the evolve block steer the toolbox below. Nothing here reads a clock: equal settings give equal
schedules.
"""

import math
import random

# EVOLVE-BLOCK-START
order = "numbered"
gather = "fixed"
domains = 8
start = "given"
weight = 1
ramp = 1
improve = "none"
tries = 200
heat = 0.3
cooling = "none"
partner = "random"
draw = 1

BATCHES = 5  # among which the tries are shared
PLAIN = 3  # the weight at which hot keys neither help nor harm
STEPS = 10  # by which a schedule may grow at heat 1


def schedule(instance):
    """Numbers of the transactions in the order in which they are let in."""
    batch = Batch(instance["transactions"])
    rng = random.Random(draw)
    line = GATHERS[gather](batch, ORDERS[order](batch, rng))
    size = math.ceil(len(line) / domains)
    found = []
    for begin in range(0, len(line), size):
        found += STARTS[start](batch, line[begin : begin + size], found)
    return improved(batch, found, rng) if improve != "none" else found


class Batch:
    """`locks[t]` are (key, operation that first touches it, whether it is written) and `length[t]` the operations of
    transaction t; `wanted[key]` the transactions that touch a key, `pressure[t]` how much those of t are wanted."""

    def __init__(self, transactions):
        self.length = [len(one) for one in transactions]
        self.locks, wanted = [], {}
        for one in transactions:
            first, written = {}, {key for kind, key in one if kind == "w"}
            for at, (_, key) in enumerate(one):
                first.setdefault(key, at)
            self.locks.append([(key, at, key in written) for key, at in first.items()])
            for key in first:
                wanted[key] = wanted.get(key, 0) + 1
        self.keys = max(wanted) + 1
        self.wanted = wanted
        self.pressure = [sum(wanted[key] - 1 for key, _, written in one if written) for one in self.locks]

    def run(self, line):
        """Steps until the last of `line` has ended."""
        read_free, write_free, last = [0] * self.keys, [0] * self.keys, 0
        for t in line:
            begin = 0
            for key, at, written in self.locks[t]:
                free = (write_free if written else read_free)[key] - at
                if free > begin:
                    begin = free
            end = begin + self.length[t]
            for key, _, written in self.locks[t]:
                if end > write_free[key]:
                    write_free[key] = end
                if written:
                    read_free[key] = end
            if end > last:
                last = end
        return last


def shuffled(batch, rng):
    line = list(range(len(batch.length)))
    rng.shuffle(line)
    return line


ORDERS = {
    "numbered": lambda batch, rng: list(range(len(batch.length))),
    "rising": lambda batch, rng: sorted(range(len(batch.length)), key=batch.length.__getitem__),
    "falling": lambda batch, rng: sorted(range(len(batch.length)), key=lambda t: -batch.length[t]),
    "shuffled": shuffled,
}


def grouped(batch, line):
    """Transactions in groups, each by the most wanted key that it writes, or else reads."""
    groups = {}
    for t in line:
        _, _, key = max((written, batch.wanted[key], key) for key, _, written in batch.locks[t])
        groups.setdefault(key, []).append(t)
    return sorted(groups.values(), key=len, reverse=True)


def dealt(batch, line):
    """One of each group in turn, the larger groups first."""
    groups, found = grouped(batch, line), []
    for turn in range(len(groups[0])):
        found += [group[turn] for group in groups if turn < len(group)]
    return found


GATHERS = {
    "fixed": lambda batch, line: line,
    "joined": lambda batch, line: [t for group in grouped(batch, line) for t in group],
    "dealt": dealt,
}


def chosen(batch, line, before, price):
    """`line` in an order in which each is the cheapest of those that are left, after `before`; `price(begin, end, last,
    t)` of one that would run from `begin` to `end` where all so far end by `last`."""
    read_free, write_free, last, left, found = [0] * batch.keys, [0] * batch.keys, 0, list(line), []
    for step in range(len(before) + len(line)):
        best = None
        for t in before[step : step + 1] or left:
            begin = max([0] + [(write_free if written else read_free)[key] - at for key, at, written in batch.locks[t]])
            cost = price(begin, begin + batch.length[t], last, t)
            if best is None or cost < best[0]:
                best = cost, t, begin + batch.length[t]
        _, t, end = best
        for key, _, written in batch.locks[t]:
            write_free[key] = max(write_free[key], end)
            if written:
                read_free[key] = end
        last = max(last, end)
        if step >= len(before):
            left.remove(t)
            found.append(t)
    return found


STARTS = {
    "given": lambda batch, line, before: line,
    "nearest": lambda batch, line, before: chosen(
        batch,
        line,
        before,
        lambda begin, end, last, t: begin + ramp * max(0, end - last) - (weight - PLAIN) * 0.1 * batch.pressure[t],
    ),
    "sweep": lambda batch, line, before: chosen(
        batch, line, before, lambda begin, end, last, t: end * ramp - (weight - PLAIN) * 0.1 * batch.pressure[t]
    ),
}


def improved(batch, line, rng):
    """The best of the orders seen in a walk of small changes, each taken if it is hardly longer than the one before."""
    here = best = batch.run(line)
    found, mine = line, tries // BATCHES
    for k in range(mine):
        changed = CHANGES[improve](line, *places(batch, line, k, rng), rng)
        span = batch.run(changed)
        room = STEPS * heat * COOLINGS[cooling](k / mine)
        if span <= here or (room > 0 and rng.random() < math.exp((here - span) / room)):
            line, here = changed, span
        if here < best:
            found, best = line, here
    return found


def places(batch, line, k, rng):
    """Two places in the line, the first before the second."""
    a = rng.randrange(len(line))
    if partner == "every":
        a = k % len(line)
    b = rng.randrange(len(line))
    if partner == "coldest":
        b = min(rng.sample(range(len(line)), 4), key=lambda at: batch.pressure[line[at]])
    return (min(a, b), max(a, b)) if a != b else (a - 1, a) if a else (0, 1)


def swap(line, a, b, rng):
    line = list(line)
    line[a], line[b] = line[b], line[a]
    return line


def reverse(line, a, b, rng):
    """The stretch between two places turned round, cut to eight."""
    b = min(b, a + 7)
    return line[:a] + line[a : b + 1][::-1] + line[b + 1 :]


def both(line, a, b, rng):
    """One of three: a swap, a turn, or one transaction moved."""
    kind = rng.randrange(3)
    if kind == 0:
        return swap(line, a, b, rng)
    if kind == 1:
        return reverse(line, a, b, rng)
    if rng.random() < 0.5:
        return [*line[:a], *line[a + 1 : b + 1], line[a], *line[b + 1 :]]
    return [*line[:a], line[b], *line[a:b], *line[b + 1 :]]


CHANGES = {"swap": swap, "reverse": reverse, "both": both}
COOLINGS = {
    "none": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
}
# EVOLVE-BLOCK-END
