"""The levels of detail of the tree: the best with all their ancestors, what is left out counted, branches opened."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from pace_async.population.reading.reader import open_readonly
from pace_async.report.facts import Facts, gather
from pace_async.web.lineage import FIRST, MOST, Level, level_of, tree_of
from tests.support.finished_runs import make_run


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facts]:
    with open_readonly(make_run(tmp_path_factory.mktemp("levels") / "run") / "population.db") as reader:
        yield gather(reader)


def below(parents: Mapping[int, int | None], top: int) -> set[int]:
    """All candidates below one."""
    found = {top}
    for candidate, parent in sorted(parents.items()):
        if parent in found:
            found.add(candidate)
    return found - {top}


def columns(tree: Mapping[str, Any], name: str) -> dict[int, Any]:
    return dict(zip(tree["id"], tree[name], strict=True))


@pytest.mark.parametrize("most", [1, 12, 30])
def test_a_level_is_a_tree_of_the_best_and_counts_what_it_leaves_out(facts: Facts, most: int) -> None:
    parents = {row.candidate: row.parent for row in facts.account.candidates}
    tree = tree_of(facts, Level(most))
    shown, hidden = columns(tree, "parent"), columns(tree, "hidden")
    assert {row.candidate for row in facts.lineage} <= set(shown)
    assert len(shown) <= max(most, len(facts.lineage)) < len(parents)
    assert {candidate for candidate, parent in shown.items() if parent is None} == {0}
    assert all(parent == parents[candidate] for candidate, parent in shown.items())
    above: Counter[int | None] = Counter()
    for candidate in set(parents) - set(shown):
        at: int | None = candidate
        while at not in shown:
            at = parents[at or 0]
        above[at] += 1
    assert hidden == {candidate: above[candidate] for candidate in shown}


def test_an_opened_branch_is_whole_and_the_rest_stays_as_it_was(facts: Facts) -> None:
    parents = {row.candidate: row.parent for row in facts.account.candidates}
    closed = columns(tree_of(facts, Level(8)), "hidden")
    top = next(candidate for candidate, hidden in closed.items() if hidden and candidate)
    opened = columns(tree_of(facts, Level(8, (top, 999_999))), "hidden")
    assert set(opened) == set(closed) | below(parents, top)
    assert opened[top] == 0 and sum(opened.values()) == len(parents) - len(opened)


def test_a_small_run_is_whole_at_every_level_that_holds_it(facts: Facts) -> None:
    tree = tree_of(facts)
    assert len(tree["id"]) == tree["all"] == len(facts.account.candidates) <= FIRST
    assert sorted(tree["age"]) == list(range(tree["all"]))


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        ("", Level()),
        ("most=300&open=7&open=9", Level(300, (7, 9))),
        ("most=99999999", Level(MOST)),
        ("most=-1&open=x&open=²&open=12345678901", Level()),
        ("most=0", Level()),
    ],
)
def test_an_address_names_a_level_and_what_it_says_wrongly_is_the_default(asked: str, level: Level) -> None:
    assert level_of(QueryParams(asked)) == level
