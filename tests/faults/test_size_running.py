"""What a candidate costs while a run goes on, however many threads it has: counted in calls of functions."""

import sys
from types import FrameType
from typing import Any

import pytest

from pace_async.simulate.durations import Durations
from pace_async.simulate.predict import Scenario, measure

MINUTES = Durations(
    seed=0, evaluation_mean=60, evaluation_cv=0.6, evaluation_cap=None, generation=3, learning=1.8, pause=0.18
)
FEW, MANY = 100, 300


def _calls_a_candidate(threads: int) -> float:
    """Calls of functions, ours and others', in a run with so many threads, without the start of the threads."""
    return (_calls(threads, MANY) - _calls(threads, FEW)) / (MANY - FEW)


def _calls(threads: int, candidates: int) -> int:
    made = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    scenario = Scenario(threads=threads, group_size=8, bound=2, durations=MINUTES, candidates=candidates)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        measure(scenario)
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.long
@pytest.mark.fault("Size", "a candidate costs the same among a thousand threads")
@pytest.mark.nightly
def test_a_candidate_takes_hardly_more_calls_with_a_thousand_threads() -> None:
    few, many = _calls_a_candidate(64), _calls_a_candidate(1000)
    assert many <= 1.5 * few, (few, many)
