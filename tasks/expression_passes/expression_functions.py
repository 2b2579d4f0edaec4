"""The functions that are to be optimised: six kinds, drawn from a seed, written as a careless author would.

Functions of one kind differ in size, constants and order of operands, and have the same faults.
"""

import random
from collections.abc import Callable, Sequence

from expression_graphs import Builder, Graph

MODULES = ("module1", "module2", "module3", "module4", "module5", "module6", "module7", "module8")
INPUTS = 6


def drawn(seed: int) -> dict[tuple[str, str], Graph]:
    """The function of each module and kind."""
    draw = random.Random(seed)
    return {(module, kind): write(draw) for module in MODULES for kind, write in KINDS.items()}


def _joined(new: Builder, op: str, parts: Sequence[int], draw: random.Random) -> int:
    """One value of many, in a random shape and order."""
    left = list(parts)
    while len(left) > 1:
        a = left.pop(draw.randrange(len(left)))
        b = left.pop(draw.randrange(len(left)))
        left.append(new.put(op, a, b))
    return left[0]


def _product(new: Builder, parts: Sequence[int], draw: random.Random) -> int:
    return _joined(new, "mul", parts, draw)


def _sum(new: Builder, parts: Sequence[int], draw: random.Random) -> int:
    return _joined(new, "add", parts, draw)


def polynomial(draw: random.Random) -> Graph:
    """Two polynomials in two or three variables, each term multiplied out."""
    new = Builder()
    variables = [new.put("in", k) for k in range(draw.choice((2, 2, 3)))]
    outputs: list[int] = []
    for _ in range(2):
        terms: list[int] = []
        for _ in range(draw.randint(5, 7)):
            factors = [variable for variable in variables for _ in range(draw.randint(0, 3))]
            coefficient = new.const(draw.randint(2, 40))
            terms.append(_product(new, [coefficient, *factors], draw))
        outputs.append(_sum(new, terms, draw))
    return new.graph(outputs)


def transform(draw: random.Random) -> Graph:
    """A matrix of small numbers times a vector. Rows repeat parts of each other, with another sign."""
    new = Builder()
    inputs = [new.put("in", k) for k in range(INPUTS)]
    blocks = [[draw.choice((1, -1, 2, 3, -3, 5, 7)) for _ in range(2)] for _ in range(4)]
    outputs: list[int] = []
    for _ in range(draw.randint(4, 6)):
        terms: list[int] = []
        for pair in range(INPUTS // 2):
            sign = draw.choice((1, -1, 1, 0))
            block = blocks[(pair + draw.randint(0, 1)) % 4]
            for weight, source in zip(block, inputs[2 * pair : 2 * pair + 2], strict=True):
                if sign * weight:
                    terms.append(_scaled(new, sign * weight, source, draw))
        outputs.append(_sum(new, terms or inputs[:2], draw))
    return new.graph(outputs)


def _scaled(new: Builder, weight: int, source: int, draw: random.Random) -> int:
    size = abs(weight)
    parts = [new.const(size), source]
    draw.shuffle(parts)
    value = source if size == 1 else new.put("mul", *parts)
    return value if weight > 0 else new.put("neg", value)


def mixing(draw: random.Random) -> Graph:
    """Rounds of a hash: a state times one constant and plus another, again and again."""
    new = Builder()
    outputs: list[int] = []
    for lane in range(draw.randint(3, 4)):
        state = new.put("in", lane)
        for _ in range(draw.randint(3, 5)):
            scaled = [new.const(draw.choice((3, 5, 9, 17, 31, 33, 63, 65))), state]
            draw.shuffle(scaled)
            summed = [new.put("mul", *scaled), new.const(draw.randint(1, 99))]
            draw.shuffle(summed)
            state = new.put("add", *summed)
        outputs.append(new.put("add", state, new.put("in", draw.randrange(4))))
    return new.graph(outputs)


def address(draw: random.Random) -> Graph:
    """Places of a cell's neighbours in a table, each computed from row and column anew."""
    new = Builder()
    row, column, base = (new.put("in", k) for k in range(3))
    width, size = new.const(draw.choice((64, 96, 100, 128, 320))), new.const(draw.choice((4, 8, 12)))
    outputs: list[int] = []
    for _ in range(draw.randint(5, 7)):
        up = new.put("add", row, new.const(draw.randint(-1, 1)))
        aside = new.put("add", column, new.const(draw.randint(-1, 1)))
        line = _product(new, [up, width], draw)
        cell = _product(new, [new.put("add", *draw.sample([line, aside], 2)), size], draw)
        outputs.append(_sum(new, [cell, base, new.const(draw.choice((0, 0, 1, 2)))], draw))
    return new.graph(outputs)


def distance(draw: random.Random) -> Graph:
    """Squared distances between points, and differences of squares."""
    new = Builder()
    places = [new.put("in", k) for k in range(INPUTS)]
    outputs: list[int] = []
    for _ in range(draw.randint(3, 4)):
        terms: list[int] = []
        for _ in range(draw.randint(2, 4)):
            a, b = sorted(draw.sample(places[:4], 2))
            terms.append(new.put("mul", new.put("sub", a, b), new.put("sub", a, b)))
        c, d = draw.sample(places, 2)
        terms.append(new.put("sub", new.put("mul", c, c), new.put("mul", d, d)))
        outputs.append(_sum(new, terms, draw))
    return new.graph(outputs)


def gradient(draw: random.Random) -> Graph:
    """Derivatives as a tool writes them: products with one and zero, signs twice, the same factors in each."""
    new = Builder()
    inputs = [new.put("in", k) for k in range(4)]
    outputs: list[int] = []
    for _ in range(draw.randint(3, 4)):
        terms: list[int] = []
        for _ in range(draw.randint(3, 5)):
            factors = draw.sample(inputs, 2)
            factors[0] = new.put("neg", factors[0]) if draw.random() < 0.5 else factors[0]
            factors.append(new.const(draw.choice((0, 1, 1, 1, 2))))
            term = _product(new, factors, draw)
            terms.append(new.put("neg", term) if draw.random() < 0.5 else term)
        outputs.append(_sum(new, terms, draw))
    return new.graph(outputs)


KINDS: dict[str, Callable[[random.Random], Graph]] = {
    "polynomial": polynomial,
    "transform": transform,
    "mixing": mixing,
    "address": address,
    "distance": distance,
    "gradient": gradient,
}
