"""The circuit breaker of a stage, over every order of successes and failures."""

import math

from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import FaultsConfig
from pace_async.runtime.run.patience import HEALTHY, HELD_TRIES, PAUSES_AFTER, after_failure

ENDS = st.lists(st.booleans(), max_size=60)
SECONDS = st.floats(0.001, 1000.0)


@given(ENDS)
def test_a_stage_is_paused_from_three_failures_in_a_row_until_one_success(ends: list[bool]) -> None:
    breaker, in_a_row = HEALTHY, 0
    for now, succeeded in enumerate(ends):
        breaker = HEALTHY if succeeded else breaker.failed(float(now), now + 0.5)
        in_a_row = 0 if succeeded else in_a_row + 1
        assert breaker.paused == (in_a_row >= PAUSES_AFTER)
        assert breaker.waits == max(1, in_a_row - PAUSES_AFTER + 1)


@given(st.integers(PAUSES_AFTER, 200), SECONDS)
def test_concurrent_failures_make_no_wait_longer(side_by_side: int, took: float) -> None:
    breaker = HEALTHY
    for number in range(side_by_side):
        breaker = breaker.failed(0.0, took + number)
    assert breaker.paused
    assert breaker.waits == 1


@given(backoff_s=st.floats(0.01, 30.0), patience_s=st.floats(1.0, 5000.0), took=st.floats(0.0, 100.0))
def test_a_stage_that_never_works_is_given_up_after_its_patience_and_few_tries(
    backoff_s: float, patience_s: float, took: float
) -> None:
    """However fast a try fails: the waits double up to 30 s, so the tries are few."""
    faults = FaultsConfig(backoff_s=backoff_s, patience_s=patience_s)
    breaker, now, tries, step = HEALTHY, 0.0, 0, "again"
    while step != "give_up":
        began, now = now, now + took
        breaker = breaker.failed(began, now)
        tries += 1
        step = after_failure(breaker, 1, retries=3, now=now, patience_s=patience_s)
        now += faults.backoff(breaker.waits if breaker.paused else tries)
    paused = breaker.paused_since
    assert paused is not None
    assert now - paused > patience_s
    assert tries <= PAUSES_AFTER + 2 + math.log2(max(2.0, 30.0 / backoff_s)) + 1 + patience_s / 30.0


@given(tries=st.integers(1, 100), retries=st.integers(0, 20), failures=st.integers(1, 10))
def test_a_lease_is_aborted_after_its_retries_and_held_longer_where_the_stage_fails_for_all(
    tries: int, retries: int, failures: int
) -> None:
    breaker = HEALTHY
    for number in range(failures):
        breaker = breaker.failed(float(number), float(number))
    step = after_failure(breaker, tries, retries=retries, now=10.0, patience_s=600.0)
    allowed = (HELD_TRIES if failures >= PAUSES_AFTER else 1) * (retries + 1)
    assert step == ("abort" if tries >= allowed else "again")
