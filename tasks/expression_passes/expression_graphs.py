"""Expression graphs over whole numbers: how they are written, what they compute, and what they cost.

A graph is a list of nodes in which operands come before their users, and the nodes that are its outputs. A node is a
tuple: ("in", k), ("const", c), ("add", a, b), ("sub", a, b), ("neg", a), ("mul", a, b), ("sqr", a), ("shl", a, bits)
and ("fma", a, b, c), which is a·b + c. Operands are numbers of nodes. Two nodes that compute the same value cost twice,
unless a pass makes one of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Node = tuple[Any, ...]

ARITY = {"in": 0, "const": 0, "neg": 1, "sqr": 1, "shl": 1, "add": 2, "sub": 2, "mul": 2, "fma": 3}
COST = {"in": 0, "const": 0, "neg": 1, "sqr": 4, "shl": 1, "add": 2, "sub": 2, "mul": 6, "fma": 6}
COMMUTATIVE = frozenset({"add", "mul"})
PRIME = (1 << 61) - 1


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, operands first, and the numbers of the nodes that are outputs."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]


class Builder:
    """Writes a graph node by node. Inputs and constants exist once each, everything else as often as it is written."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._leaves: dict[Node, int] = {}
        self._numbers: list[int] = []
        self._numbered: dict[Node, int] = {}

    def put(self, op: str, *rest: int) -> int:
        """The number of a new node."""
        node = (op, *rest)
        if ARITY[op] == 0 and node in self._leaves:
            return self._leaves[node]
        self.nodes.append(node)
        if ARITY[op] == 0:
            self._leaves[node] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def const(self, value: int) -> int:
        """The node of a constant."""
        return self.put("const", value)

    def constant(self, number: int) -> int | None:
        """The value of a node that is a constant."""
        node = self.nodes[number]
        return node[1] if node[0] == "const" else None

    def value_number(self, number: int) -> int:
        """Equal for nodes that are written alike but for the order of operands of sums and products."""
        while len(self._numbers) < len(self.nodes):
            node = self.nodes[len(self._numbers)]
            amount = ARITY[node[0]]
            operands = [self._numbers[operand] for operand in node[1 : 1 + amount]]
            if node[0] in COMMUTATIVE:
                operands.sort()
            key = (node[0], *operands, *node[1 + amount :])
            self._numbers.append(self._numbered.setdefault(key, len(self._numbered)))
        return self._numbers[number]

    def same(self, a: int, b: int) -> bool:
        """Whether two nodes are written alike."""
        return a == b or self.value_number(a) == self.value_number(b)

    def graph(self, outputs: Sequence[int]) -> Graph:
        """What was written."""
        return Graph(tuple(self.nodes), tuple(outputs))


def operands(node: Node) -> tuple[int, ...]:
    """The numbers of the nodes that a node reads."""
    return node[1 : 1 + ARITY[node[0]]]


def uses(graph: Graph) -> list[int]:
    """How often each node is read, or is an output. 0 for what no output needs."""
    count = [0] * len(graph.nodes)
    for output in graph.outputs:
        count[output] += 1
    for number in range(len(graph.nodes) - 1, -1, -1):
        if count[number]:
            for operand in operands(graph.nodes[number]):
                count[operand] += 1
    return count


def cost(graph: Graph) -> int:
    """The costs of all operations that an output needs, and of those on the longest path once more."""
    work, ready = 0, [0] * len(graph.nodes)
    for number, (node, used) in enumerate(zip(graph.nodes, uses(graph), strict=True)):
        if used:
            price = COST[node[0]]
            work += price
            ready[number] = price + max((ready[operand] for operand in operands(node)), default=0)
    return work + max(ready[output] for output in graph.outputs)


_COMPUTE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "sqr": lambda a: a * a,
    "shl": lambda a, bits: a << bits,
    "fma": lambda a, b, c: a * b + c,
}


def values(graph: Graph, inputs: Sequence[int]) -> list[int]:
    """The outputs for these inputs, modulo PRIME."""
    found: list[int] = []
    for node in graph.nodes:
        if node[0] == "in":
            found.append(inputs[node[1]])
        elif node[0] == "const":
            found.append(node[1] % PRIME)
        else:
            amount = ARITY[node[0]]
            read = [found[operand] for operand in node[1 : 1 + amount]]
            found.append(_COMPUTE[node[0]](*read, *node[1 + amount :]) % PRIME)
    return [found[output] for output in graph.outputs]
