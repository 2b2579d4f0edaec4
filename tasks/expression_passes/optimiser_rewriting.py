"""What passes share: a walk that builds a new graph, and sums and products taken apart.

A sum is a tree of add, sub and neg. Its parts are terms with a whole-numbered coefficient. A product is a tree of mul
and sqr. Its parts are factors. A tree ends at whatever is used more than once, because that would be computed again.
"""

from collections.abc import Callable, Sequence

from expression_graphs import ARITY, Builder, Graph, operands, uses

Terms = list[tuple[int, int]]
"""(coefficient, node of the new graph), for each part of a sum."""
SUMS, PRODUCTS = frozenset({"add", "sub", "neg"}), frozenset({"mul", "sqr"})


class Walk:
    """Builds a graph anew from its outputs. `rule(walk, number)` writes a node of the old graph, or returns None to
    have it copied."""

    def __init__(self, graph: Graph, rule: "Rule") -> None:
        self.old, self.rule, self.new = graph.nodes, rule, Builder()
        self.used = uses(graph)
        self.outputs = graph.outputs
        self._placed: dict[int, int] = {}

    def result(self) -> Graph:
        """The new graph."""
        return self.new.graph([self.at(output) for output in self.outputs])

    def at(self, number: int) -> int:
        """The node of the new graph for one of the old."""
        if number not in self._placed:
            found = self.rule(self, number)
            self._placed[number] = self.copied(number) if found is None else found
        return self._placed[number]

    def copied(self, number: int) -> int:
        """The same operation on what its operands have become."""
        node = self.old[number]
        return self.new.put(node[0], *map(self.at, operands(node)), *node[1 + ARITY[node[0]] :])

    def inner(self, number: int, ops: frozenset[str]) -> bool:
        """Whether a node belongs to the tree above it."""
        return self.old[number][0] in ops and self.used[number] == 1

    def terms(self, number: int, sign: int = 1) -> Terms:
        """The parts of the sum at `number`, each with 1 or -1."""
        op, *rest = self.old[number]
        signs = (sign, -sign) if op == "sub" else (-sign,) if op == "neg" else (sign, sign)
        found: Terms = []
        for operand, its in zip(rest, signs, strict=True):
            inner = self.inner(operand, SUMS)
            found += self.terms(operand, its) if inner else [(its, self.at(operand))]
        return found

    def scaled_terms(self, number: int) -> Terms:
        """The parts of the sum at `number`, with constants as coefficients. A constant is a part of the constant 1."""
        return [self.scaled(sign, part) for sign, part in self.terms(number)]

    def scaled(self, coefficient: int, part: int) -> tuple[int, int]:
        """A term of the new graph, with the constants in it as coefficient."""
        while True:
            op, *rest = self.new.nodes[part]
            if op == "const" and rest[0] != 1:
                return coefficient * rest[0], self.new.const(1)
            if op == "neg":
                coefficient, part = -coefficient, rest[0]
            elif op == "shl":
                coefficient, part = coefficient << rest[1], rest[0]
            elif op == "mul" and (split := self._constant_first(*rest)):
                coefficient, part = coefficient * split[0], split[1]
            else:
                return coefficient, part

    def _constant_first(self, a: int, b: int) -> tuple[int, int] | None:
        for one, other in ((a, b), (b, a)):
            value = self.new.constant(one)
            if value is not None:
                return value, other
        return None

    def factors(self, number: int) -> list[int]:
        """The parts of the product at `number`, as nodes of the new graph."""
        op, *rest = self.old[number]
        found: list[int] = []
        for operand in rest * 2 if op == "sqr" else rest:
            found += self.factors(operand) if self.inner(operand, PRODUCTS) else [self.at(operand)]
        return found


Rule = Callable[[Walk, int], int | None]


def walked(rule: Rule) -> Callable[[Graph], Graph]:
    """The pass that has one rule for each node."""
    return lambda graph: Walk(graph, rule).result()


def times(new: Builder, coefficient: int, part: int) -> int:
    """coefficient · part. The part may be the constant 1."""
    known = new.constant(part)
    if known is not None:
        return new.const(coefficient * known)
    if coefficient in (1, -1):
        return part if coefficient == 1 else new.put("neg", part)
    return new.put("mul", new.const(coefficient), part)


def summed(new: Builder, terms: Terms) -> int:
    """The chain that adds all terms, from the first, positive ones before the others."""
    left = sorted((term for term in terms if term[0]), key=lambda term: term[0] < 0)
    if not left:
        return new.const(0)
    total = times(new, *left[0])
    for coefficient, part in left[1:]:
        known = new.constant(part)
        if known is None and coefficient < 0:
            total = new.put("sub", total, times(new, -coefficient, part))
        else:
            total = new.put("add", total, times(new, coefficient, part))
    return total


def chained(new: Builder, op: str, parts: Sequence[int]) -> int:
    """((a op b) op c) and so on."""
    total = parts[0]
    for part in parts[1:]:
        total = new.put(op, total, part)
    return total


def merged(new: Builder, terms: Terms) -> Terms:
    """Terms with the same part added, in the order of first appearance."""
    found: dict[int, tuple[int, int]] = {}
    for coefficient, part in terms:
        key = new.value_number(part)
        before = found.get(key, (0, part))
        found[key] = (before[0] + coefficient, before[1])
    return [term for term in found.values() if term[0]]


def split_product(new: Builder, part: int) -> list[int]:
    """The factors of a node of the new graph."""
    op, *rest = new.nodes[part]
    if op == "mul":
        return split_product(new, rest[0]) + split_product(new, rest[1])
    return split_product(new, rest[0]) * 2 if op == "sqr" else [part]
