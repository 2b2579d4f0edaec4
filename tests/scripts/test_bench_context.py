"""A context late in a run costs a few milliseconds, as docs/results/runtime.md says of 10,000 candidates."""

import random
from statistics import median

import pytest

from pace_async.task import load_task
from scripts.benchmarks.bench_context import begun, costs, follow


@pytest.mark.long
def test_a_context_costs_little_and_no_more_after_many_candidates() -> None:
    """The mark is 2 ms on a quiet machine. Four times that much would be another algorithm."""
    task, found = load_task("eplb"), dict[int, float]()
    for candidates in (400, 4000):
        state, draw = begun(task), random.Random(0)
        for lease in range(1, candidates + 1):
            follow(state, task, lease, draw)
        found[candidates] = median(costs(state, task, candidates, draw)[0])
    assert found[4000] < 8
    assert found[4000] < 4 * found[400]
