"""Orders of passes: every pass keeps what a function computes, costs are counted, nothing but names is taken."""

import math
import secrets
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import load_task, split_block
from tests.support.modules import load

TASK = load_task("expression_passes")
sys.path.insert(0, str(TASK.folder))
EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "expression_passes_evaluator")
GRAPHS, FUNCTIONS = sys.modules["expression_graphs"], sys.modules["expression_functions"]
sys.path.remove(str(TASK.folder))
PASSES: dict[str, Callable[[Any], Any]] = EVALUATOR.PASSES
GOOD = {
    "polynomial": ["factor", "common_factors", "fuse"],
    "transform": ["chain", "signed_digits", "common_terms"],
    "mixing": ["signed_digits", "chain", "common_terms"],
    "address": ["digits", "share", "fold"],
    "distance": ["common_factors", "squares", "common_terms"],
    "gradient": ["collect", "digits", "common_factors"],
}
"""Orders that fit the kinds."""


def orders(of: Callable[[str], list[Any]]) -> dict[str, list[Any]]:
    """The order that `of` gives each kind, for each function."""
    return {name: of(name.partition("_")[2]) for name in EVALUATOR.FUNCTIONS}


def nothing() -> dict[str, list[Any]]:
    return orders(lambda kind: ["none"] * 3)


def score(output: object, seed: int = 0) -> float:
    return EVALUATOR.score(EVALUATOR.instances(seed), [output], seed)["score"]


def program_of(edits: Sequence[MechanismEdit]) -> str:
    before, block, after = split_block(TASK.program)
    for edit in edits:
        block = apply_edit(block, edit)
    return before + block + after


def output_of(*edits: MechanismEdit) -> Any:
    """What the seed program returns with these settings."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program_of(edits), namespace)
    return namespace["orders"](EVALUATOR.instances(0)[0])


def computed(graph: Any, inputs: Sequence[int]) -> list[int]:
    """The outputs in whole numbers of any size, by another way than the scorer's."""

    def at(number: int) -> int:
        op: str
        rest: list[int]
        op, *rest = graph.nodes[number]
        match op:
            case "in":
                return inputs[rest[0]]
            case "const":
                return rest[0]
            case "shl":
                return at(rest[0]) * 2 ** rest[1]
            case "neg":
                return 0 - at(rest[0])
            case "sqr":
                return at(rest[0]) ** 2
            case "fma":
                return at(rest[0]) * at(rest[1]) + at(rest[2])
            case _:
                left, right = map(at, rest)
                return {"add": left + right, "sub": left - right, "mul": left * right}[op]

    return [at(output) for output in graph.outputs]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**128),
    st.sampled_from(EVALUATOR.FUNCTIONS),
    st.lists(st.sampled_from(sorted(PASSES)), min_size=1, max_size=4),
    st.lists(st.integers(-50, 50), min_size=6, max_size=6),
)
def test_no_order_of_passes_changes_what_a_function_computes(
    seed: int, name: str, order: list[str], inputs: list[int]
) -> None:
    written = EVALUATOR._functions(seed)[name]
    graph = written
    for one in order:
        graph = PASSES[one](graph)
    assert computed(graph, inputs) == computed(written, inputs)
    expected = [value % GRAPHS.PRIME for value in computed(written, inputs)]
    assert GRAPHS.values(graph, inputs) == expected


def test_a_pass_that_changes_a_function_is_the_evaluators_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_one(graph: Any) -> Any:
        one = (("const", 1), ("add", graph.outputs[0], len(graph.nodes)))
        return GRAPHS.Graph((*graph.nodes, *one), (len(graph.nodes) + 1, *graph.outputs[1:]))

    monkeypatch.setitem(PASSES, "off_by_one", off_by_one)
    table = nothing()
    table["module1_mixing"][2] = "off_by_one"
    with pytest.raises(RuntimeError, match="none none off_by_one changed what module1_mixing computes"):
        score(table)


def written_by_hand(*nodes: tuple[Any, ...]) -> Any:
    return GRAPHS.Graph(nodes, (len(nodes) - 1,))


A, B, C = ("in", 0), ("in", 1), ("in", 2)


def test_costs_are_those_of_all_operations_and_of_the_longest_path() -> None:
    product = written_by_hand(A, B, ("mul", 0, 1), ("mul", 0, 1), ("add", 2, 3))
    assert GRAPHS.cost(product) == (6 + 6 + 2) + (6 + 2)
    assert GRAPHS.cost(PASSES["share"](product)) == (6 + 2) + (6 + 2)
    unused = written_by_hand(A, B, ("mul", 0, 1), ("neg", 0))
    assert GRAPHS.cost(unused) == 1 + 1


EXAMPLES = {
    "fold": ([A, ("const", 1), ("mul", 0, 1), ("const", 0), ("add", 2, 3)], 0),
    "signs": ([A, B, ("neg", 1), ("add", 0, 2)], 2 + 2),
    "share": ([A, B, ("add", 0, 1), ("add", 0, 1), ("mul", 2, 3)], 2 + 6 + 8),
    "balance": ([A, B, C, ("add", 0, 1), ("add", 3, 2), ("add", 4, 0)], 3 * 2 + 2 * 2),
    "collect": ([A, ("const", 3), ("mul", 0, 1), ("mul", 1, 0), ("add", 2, 3)], 6 + 6),
    "factor": ([A, B, C, ("mul", 0, 1), ("mul", 2, 0), ("add", 3, 4)], 2 + 6 + 8),
    "powers": ([A, ("mul", 0, 0), ("mul", 1, 0), ("mul", 2, 0)], 2 * 6 + 2 * 6),
    "squares": ([A, ("mul", 0, 0)], 4 + 4),
    "conjugate": ([A, B, ("mul", 0, 0), ("mul", 1, 1), ("sub", 2, 3)], 2 + 2 + 6 + 8),
    "shifts": ([A, ("const", 8), ("mul", 0, 1)], 1 + 1),
    "digits": ([A, ("const", 5), ("mul", 0, 1)], (1 + 2) + 3),
    "signed_digits": ([A, ("const", 63), ("mul", 0, 1)], (1 + 2) + 3),
    "fuse": ([A, B, C, ("mul", 0, 1), ("add", 2, 3)], 6 + 6),
}
"""Nodes, and what the graph costs after the pass."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_pass_does_what_its_name_says(name: str) -> None:
    nodes, expected = EXAMPLES[name]
    before = written_by_hand(*nodes)
    after = PASSES[name](before)
    assert GRAPHS.cost(after) == expected < GRAPHS.cost(before)
    assert computed(after, [3, 5, 7]) == computed(before, [3, 5, 7])


def test_common_parts_are_found_in_several_sums_and_products() -> None:
    for op, name in (("add", "common_terms"), ("mul", "common_factors")):
        nodes = (A, B, C, ("in", 3), (op, 0, 2), (op, 4, 1), (op, 1, 3), (op, 6, 0))
        graph = GRAPHS.Graph(nodes, (5, 7))
        price = GRAPHS.COST[op]
        assert (GRAPHS.cost(graph), GRAPHS.cost(PASSES[name](graph))) == (4 * price + 2 * price, 3 * price + 2 * price)


def test_the_seed_program_saves_nothing_and_orders_that_fit_the_kinds_much() -> None:
    assert output_of() == nothing()
    assert score(nothing()) == 0.0
    assert score(orders(GOOD.__getitem__)) > 55.0
    assert score(orders(GOOD.__getitem__), seed=2**128) > 55.0
    kinds = list(GOOD)
    swapped = {kind: GOOD[kinds[(place + 3) % 6]] for place, kind in enumerate(kinds)}
    assert score(orders(swapped.__getitem__)) < score(orders(GOOD.__getitem__)) - 15.0
    reversed_ones = orders(lambda kind: GOOD[kind][::-1])
    assert score(reversed_ones) < score(orders(GOOD.__getitem__)) - 7.0


def test_what_helps_a_function_helps_its_kind_in_every_module() -> None:
    for kind, name in (("polynomial", "factor"), ("transform", "common_terms"), ("gradient", "collect")):
        for module in FUNCTIONS.MODULES:
            table = nothing()
            table[f"{module}_{kind}"][0] = name
            assert score(table) > 0.0


def test_functions_depend_on_every_bit_of_the_seed_and_no_instance_reveals_it() -> None:
    seed = (1 << 128) + secrets.randbits(128)
    first = FUNCTIONS.drawn(seed)
    assert first == FUNCTIONS.drawn(seed)
    assert all(first != FUNCTIONS.drawn(seed ^ (1 << bit)) for bit in (0, 31, 32, 64, 96, 127))
    assert EVALUATOR.instances(seed) == EVALUATOR.instances(0)
    assert len(set(first.values())) == len(first)


BREAK: dict[str, Callable[[dict[str, list[Any]]], object]] = {
    "a missing function": lambda t: t.pop("module1_mixing"),
    "a function more": lambda t: t.__setitem__("module9_mixing", ["none"] * 3),
    "a step too few": lambda t: t["module1_mixing"].pop(),
    "a step too many": lambda t: t["module1_mixing"].append("none"),
    "an unknown pass": lambda t: t["module1_mixing"].__setitem__(0, "erase"),
    "a number": lambda t: t["module1_mixing"].__setitem__(0, 1),
    "not a number": lambda t: t["module1_mixing"].__setitem__(0, math.nan),
    "a truth value": lambda t: t["module1_mixing"].__setitem__(0, True),
    "a list": lambda t: t["module1_mixing"].__setitem__(0, ["fold"]),
    "nothing": lambda t: t["module1_mixing"].__setitem__(0, None),
}


@pytest.mark.parametrize("how", BREAK)
def test_what_is_no_order_of_passes_is_refused(how: str) -> None:
    table = nothing()
    BREAK[how](table)
    with pytest.raises(ValueError, match=r"functions|passes"):
        score(table)


@pytest.mark.parametrize("output", [None, [], "fold", True, [nothing()], {"orders": nothing()}])
def test_an_output_of_another_kind_is_refused(output: object) -> None:
    with pytest.raises(ValueError, match="functions"):
        score(output)


def test_the_catalogue_offers_every_pass_at_every_step_of_every_function() -> None:
    assert TASK.catalogue_path is not None
    catalogue = load_catalogue(TASK.catalogue_path)
    assert all(mechanism.options == tuple(PASSES) for mechanism in catalogue.mechanisms)
    assert {name for one in catalogue.mechanisms for name in one.assigned} == {
        f"{name}_{step}" for name in EVALUATOR.FUNCTIONS for step in ("first", "second", "third")
    }
    edits = [
        MechanismEdit(one.name, one.options[1 + place % 18], "module2")
        for place, one in enumerate(catalogue.mechanisms)
    ]
    output = output_of(*edits)
    changed = [step for name in EVALUATOR.FUNCTIONS for step in output[name] if step != "none"]
    assert changed == [edit.option for edit in edits]
    assert math.isfinite(score(output))


def test_most_single_edits_change_the_score() -> None:
    alone: list[float] = []
    for name in EVALUATOR.FUNCTIONS[:6]:
        for one in PASSES:
            table = nothing()
            table[name][0] = one
            alone.append(score(table))
    assert sum(found != 0.0 for found in alone) > 0.5 * len(alone)
    assert sum(found > 0.0 for found in alone) > 0.4 * len(alone)
