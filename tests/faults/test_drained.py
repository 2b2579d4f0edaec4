"""The drain after `--minutes` is bounded, under the virtual clock."""

from pathlib import Path

import pytest

from pace_async.simulate.durations import Durations
from pace_async.simulate.stages import World
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import Life

SLOW = Durations(4, 250.0, 0.1, None, 3.0, 2.0, 0.2)
"""Evaluations of about 250 s."""


@pytest.mark.fault("Being started and stopped", "the drain after the last minute is bounded")
@pytest.mark.parametrize("key", ["stop__drain_s", "faults__drain_s"])
def test_evaluations_longer_than_the_drain_are_left_for_a_resume(tmp_path: Path, key: str) -> None:
    config = settings(seed=4, stop__minutes=0.5, **{key: 20.0})
    run = Life(tmp_path, config, World(seed=4, durations=SLOW)).live()
    assert run.state == "done"
    assert run.time == pytest.approx(50.0, abs=1.0)
    assert run.rows("select state, reason from run_states order by number") == [
        ("running", ""),
        ("draining", "minutes, for at most 20 s"),
        ("done", "minutes"),
    ]
    [(left,)] = run.rows("select count(*) from leases where state = 'open'")
    assert left > 0
    run.config = settings(seed=4, stop__candidates=4)
    assert run.live().state == "done"
    [(complete,)] = run.rows("select count(*) from candidates where candidate > 0")
    assert complete >= 4
    assert run.rows("select count(*) from leases where state = 'aborted'") == [(0,)]
