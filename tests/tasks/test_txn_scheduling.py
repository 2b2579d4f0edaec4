"""Transaction scheduling: locks as they are said to be, what is no order scores nothing, and edits that all run."""

import json
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import load_task, split_block
from tests.support.modules import load

TASK = load_task("txn_scheduling")
sys.path.insert(0, str(TASK.folder))
EVALUATOR = load(TASK.folder / TASK.spec.evaluator, "txn_scheduling_evaluator")
sys.path.remove(str(TASK.folder))
SETTINGS = dict(TASK.spec.settings)
SMALL = {"transactions": 10}
GOOD = {
    **{"order": "rising", "domains": 1, "start": "nearest", "weight": 5},
    **{"improve": "both", "tries": 4000, "heat": 0.0},
}


def schedules_of(edits: dict[str, Any], settings: dict[str, Any] = SETTINGS) -> list[Any]:
    """What the seed program with these settings answers."""
    before, block, after = split_block(TASK.program)
    for name, value in edits.items():
        block = apply_edit(block, MechanismEdit(name, value))
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(before + block + after, namespace)
    instances = json.loads(json.dumps(EVALUATOR.instances(0, settings)))
    return [namespace["schedule"](instance) for instance in instances]


def score(schedules: list[Any], settings: dict[str, Any] = SETTINGS) -> dict[str, float]:
    return EVALUATOR.score(EVALUATOR.instances(0, settings), schedules, 0, settings)


def test_the_seed_program_is_far_below_a_combination_of_settings() -> None:
    assert TASK.spec.bounds.lower < score(schedules_of({}))["score"] < TASK.spec.bounds.lower + 5
    assert 1790 < score(schedules_of(GOOD))["score"] < TASK.spec.bounds.upper
    assert score(schedules_of({"start": "nearest", "domains": 1}))["score"] < 1690


def test_a_change_counts_only_if_it_changes_the_schedule() -> None:
    plain = schedules_of({})
    for edits in ({"tries": 4000}, {"heat": 0.0}, {"cooling": "linear"}, {"partner": "every"}, {"weight": 5}):
        assert schedules_of(edits) == plain
    assert schedules_of({"tries": 500, "improve": "swap"}) != plain


def test_the_score_is_a_million_by_the_steps_of_all_workloads() -> None:
    found = score([list(range(60))] * 5)
    spans = [found[name] for name in ("bank", "wholesale", "store", "reviews", "market")]
    assert found["makespan"] == sum(spans)
    assert found["score"] == pytest.approx(1e6 / (1 + sum(spans)))


@pytest.mark.parametrize(
    ("batch", "span"),
    [
        ([["r1", "r2"], ["r1", "r2"]], 2),  # readers share
        ([["w1", "r2"], ["r2", "r3"]], 2),
        ([["w1", "r2"], ["w1", "r3"]], 4),  # a lock is held to the end
        ([["r2", "w1"], ["r3", "w1"]], 3),  # the second may begin before the first has ended
        ([["r1", "r2", "w1"], ["r1"]], 4),  # who will write locks for writing from the first touch
        ([["r1", "r2"], ["w1"]], 3),
        ([["w1"], ["w2"], ["w1", "w2"]], 3),
    ],
)
def test_locks_make_transactions_wait_as_documented(batch: list[list[str]], span: int) -> None:
    transactions = [[(text[0], int(text[1:])) for text in one] for one in batch]
    assert EVALUATOR.makespan(transactions, range(len(batch))) == span


OPERATIONS = st.lists(st.tuples(st.sampled_from("rw"), st.integers(0, 5)), min_size=1, max_size=6)


@given(st.lists(OPERATIONS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_no_two_conflicting_locks_overlap_and_every_start_is_the_earliest(
    batch: list[list[tuple[str, int]]], rng: random.Random
) -> None:
    order = list(range(len(batch)))
    rng.shuffle(order)
    held: list[list[tuple[int, int, int, bool]]] = []  # of each so far: (key, from, to, written)

    def locks(number: int, begin: int) -> list[tuple[int, int, int, bool]]:
        one = batch[number]
        keys = {key for _, key in one}
        first = {key: next(at for at, (_, other) in enumerate(one) if other == key) for key in keys}
        return [(key, begin + first[key], begin + len(one), ("w", key) in one) for key in keys]

    def fits(number: int, begin: int) -> bool:
        return not any(
            key == other and (written or wrote) and since < until
            for key, since, _, written in locks(number, begin)
            for before in held
            for other, _, until, wrote in before
        )

    ends: list[int] = []
    for number in order:
        begin = next(step for step in range(100) if fits(number, step))
        held.append(locks(number, begin))
        ends.append(begin + len(batch[number]))
    assert EVALUATOR.makespan(batch, order) == max(ends)


def test_a_workload_is_its_seeds_and_few_keys_are_wanted_by_many() -> None:
    first, again, other = (EVALUATOR.instances(seed, SETTINGS) for seed in (3, 3, 4))
    assert first == again != other
    for instance in first:
        batch = instance["transactions"]
        assert len(batch) == 60
        wanted = [sum(any(key == mine for _, mine in one) for one in batch) for key in range(5)]
        assert max(wanted) > 5


BREAK: dict[str, Callable[[list[Any]], object]] = {
    "one left out": lambda found: found[0].pop(),
    "one twice": lambda found: found[0].__setitem__(0, found[0][1]),
    "one that there is not": lambda found: found[0].__setitem__(0, 10),
    "negative": lambda found: found[0].__setitem__(found[0].index(9), -1),
    "a float": lambda found: found[0].__setitem__(0, float(found[0][0])),
    "a truth value": lambda found: found[0].__setitem__(found[0].index(1), True),
    "text": lambda found: found[0].__setitem__(0, str(found[0][0])),
    "a claim of its makespan": lambda found: found.__setitem__(0, [3, found[0]]),
    "a mapping": lambda found: found.__setitem__(0, dict.fromkeys(found[0], 0)),
    "null": lambda found: found.__setitem__(0, None),
    "a workload too few": lambda found: found.pop(),
}


@pytest.mark.parametrize("how", BREAK)
def test_a_schedule_that_is_not_allowed_scores_nothing(how: str) -> None:
    found: list[Any] = [list(range(10)) for _ in range(5)]
    BREAK[how](found)
    with pytest.raises(ValueError, match=r"schedules? "):
        score(found, SMALL)


@pytest.mark.long
def test_every_mechanism_is_assigned_once_in_the_block_and_every_option_gives_a_schedule() -> None:
    assert TASK.catalogue_path is not None
    catalogue = load_catalogue(TASK.catalogue_path)
    assert len(catalogue.mechanisms) >= 8
    block = split_block(TASK.program)[1]
    for mechanism in catalogue.mechanisms:
        assert any(apply_edit(block, MechanismEdit(mechanism.name, option)) == block for option in mechanism.options)
        for option in mechanism.options:
            for base in ({}, {**GOOD, "tries": 200, "heat": 0.3}):
                assert score(schedules_of({**base, mechanism.name: option}, SMALL), SMALL)["score"] > 0
