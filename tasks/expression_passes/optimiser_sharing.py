"""Passes that find what a graph computes more than once."""

from collections import Counter
from itertools import combinations

from expression_graphs import ARITY, Builder, Graph, operands
from optimiser_rewriting import PRODUCTS, SUMS, Walk, chained, summed

ROUNDS = 12
"""Pairs that one pass finds at most."""
Parts = list[tuple[int, int]]
Pair = tuple[tuple[int, int], tuple[int, int]]


def share(graph: Graph) -> Graph:
    """Computes once what is written alike. The order of operands counts."""
    new = Builder()
    known: dict[tuple[object, ...], int] = {}
    place: list[int] = []
    for node in graph.nodes:
        amount = ARITY[node[0]]
        moved = (node[0], *(place[operand] for operand in operands(node)), *node[1 + amount :])
        if moved not in known:
            known[moved] = new.put(*moved)
        place.append(known[moved])
    return new.graph([place[output] for output in graph.outputs])


def shared_terms(graph: Graph) -> Graph:
    """Computes once the sum of two terms that many sums have, whatever its sign."""
    return _with_pairs(graph, SUMS)


def shared_factors(graph: Graph) -> Graph:
    """Computes once the product of two factors that many products have."""
    return _with_pairs(graph, PRODUCTS)


def _with_pairs(graph: Graph, ops: frozenset[str]) -> Graph:
    """Takes the trees of `ops` apart, in one walk for each level of trees within trees, and finds pairs in them all."""
    found: dict[int, Parts] = {}

    def rule(walk: Walk, number: int) -> int | None:
        if walk.old[number][0] not in ops:
            return None
        parts = walk.terms(number) if ops is SUMS else [(1, factor) for factor in walk.factors(number)]
        hole = walk.new.put("in", -1 - number)
        found[hole] = [(sign, part) for sign, part in parts]
        return hole

    walk = Walk(graph, rule)
    outline = walk.result()
    return _filled(walk.new, outline, found, ops)


def _filled(draft: Builder, outline: Graph, found: dict[int, Parts], ops: frozenset[str]) -> Graph:
    """The graph whose holes are sums or products of the parts `found` for each."""
    numbered = {hole: [(sign, draft.value_number(part)) for sign, part in parts] for hole, parts in found.items()}
    pairs: dict[int, Pair] = {}
    for made in range(ROUNDS):
        pair = _most_frequent(numbered)
        if pair is None:
            break
        name = -1 - made
        pairs[name] = pair
        numbered = {hole: _replaced(parts, pair, name) for hole, parts in numbered.items()}
    first = {draft.value_number(number): number for number in range(len(draft.nodes) - 1, -1, -1)}
    new = Builder()
    placed: dict[int, int] = {}
    computed: dict[int, int] = {}

    def part_at(key: int) -> int:
        if key >= 0:
            return at(first[key])
        if key not in computed:
            computed[key] = joined(list(pairs[key]))
        return computed[key]

    def joined(parts: Parts) -> int:
        if ops is SUMS:
            return summed(new, [(sign, part_at(key)) for sign, key in parts])
        return chained(new, "mul", [part_at(key) for _, key in parts])

    def at(number: int) -> int:
        if number not in placed:
            node = outline.nodes[number]
            amount = ARITY[node[0]]
            placed[number] = (
                joined(numbered[number])
                if number in numbered
                else new.put(node[0], *map(at, operands(node)), *node[1 + amount :])
            )
        return placed[number]

    return new.graph([at(output) for output in outline.outputs])


def _most_frequent(numbered: dict[int, Parts]) -> Pair | None:
    """The pair of parts that most have, with the sign of its first part positive. None if none is there twice."""
    count: Counter[Pair] = Counter()
    for parts in numbered.values():
        count.update({_normal(a, b) for a, b in combinations(parts, 2)})
    pair, often = max(count.items(), key=lambda item: (item[1], item[0]), default=(None, 0))
    return pair if often > 1 else None


def _normal(a: tuple[int, int], b: tuple[int, int]) -> Pair:
    a, b = sorted((a, b), key=lambda part: part[1])
    return (1, a[1]), (a[0] * b[0], b[1])


def _replaced(parts: Parts, pair: Pair, name: int) -> Parts:
    """The parts with each occurrence of the pair as one part."""
    left = list(parts)
    for i, j in combinations(range(len(left)), 2):
        if _normal(left[i], left[j]) == pair:
            sign = left[i][0] if left[i][1] == pair[0][1] else left[j][0]
            rest = [part for place, part in enumerate(left) if place not in (i, j)]
            return _replaced([*rest, (sign, name)], pair, name)
    return left
