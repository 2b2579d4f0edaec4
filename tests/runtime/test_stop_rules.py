"""Rules that end a run: one that teaches nothing and finds nothing, and one that has found nothing better for long."""

from pathlib import Path
from typing import Any

import pytest

from pace_async.config import StopConfig
from pace_async.observe import formatting
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from pace_async.state.stop_rules import STOP_RULES, StopValues, reason_to_stop
from tests.support.fitness import UP
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import Life, durations

ALL_BREAK_THE_FORMAT, ALL_FAIL = SimulatedFaults(unparsed_every=1), SimulatedFaults(unparsed_every=0, fails_every=1)


def life(folder: Path, faults: SimulatedFaults, **given: Any) -> Life:
    config = settings(**{"stop__candidates": 160, "stop__untrained": 4, **given})
    return Life(folder, config, World(seed=3, durations=durations(3, 0.0), reattaches=True), faults)


def ends(run: Life) -> tuple[str, int]:
    """The reason of the last state, and the groups."""
    [(reason,)] = run.rows("select reason from run_states order by rowid desc limit 1")
    return reason, run.rows("select count(*) from groups")[0][0]


@pytest.mark.fault("Learning", "answers that never parse: an end after so many groups")
def test_a_run_whose_answers_never_parse_ends_after_so_many_groups(tmp_path: Path) -> None:
    run = life(tmp_path, ALL_BREAK_THE_FORMAT).live()
    assert ends(run) == ("untrained", 4)
    assert run.state == "done"
    assert "because the last groups trained nothing" in formatting.reason("done", "untrained")
    again = run.live()
    assert ends(again) == ("untrained", 8), "a resume tries as many again"


def test_without_the_rule_it_goes_on_to_the_end(tmp_path: Path) -> None:
    assert ends(life(tmp_path, ALL_BREAK_THE_FORMAT, stop__untrained=None).live()) == ("candidates", 20)


@pytest.mark.long
def test_a_run_that_learns_or_finds_programs_is_never_ended(tmp_path: Path) -> None:
    learning = life(tmp_path, SimulatedFaults(), stop__untrained=1).live()
    assert ends(learning)[0] == "candidates"
    finding = life(tmp_path / "finding", SimulatedFaults(), stop__untrained=1, learner__collapsed="skip", learner__k=8)
    assert ends(finding.live())[0] == "candidates"


def test_a_run_without_a_new_best_ends_after_so_many_candidates(tmp_path: Path) -> None:
    run = life(tmp_path, SimulatedFaults(), stop__patience=6, stop__untrained=None).live()
    assert ends(run)[0] == "patience"
    by_end = run.rows("select score from candidates where lease is not null order by at")
    scores = [-float("inf") if score is None else score for (score,) in by_end]
    best_at = scores.index(max(scores)) + 1
    assert 6 <= len(scores) - best_at <= 6 + 8, "those in flight may finish"
    assert len(scores) < 160


def test_a_run_without_a_new_best_ends_after_so_many_minutes(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"stop__patience_minutes": 2.0, "stop__candidates": 1000, "stop__untrained": None}
    run = life(tmp_path, SimulatedFaults(), **limits).live()
    assert ends(run)[0] == "patience_minutes"
    [(best_at,)] = run.rows("select at from candidates where score is not null order by merit desc, at limit 1")
    opened = [at - best_at for (at,) in run.rows("select opened_at from leases")]
    assert 60 < max(opened) <= 2 * 60 + 1
    [(begun,)] = run.rows("select max(at) from run_states")
    run.live()
    assert ends(run)[0] == "patience_minutes"
    assert run.rows("select max(opened_at) from leases")[0][0] > begun + 60, "a resume waits as long again"


def test_minutes_of_patience_are_written_as_minutes() -> None:
    with pytest.raises(ValueError, match="such as 90 for 90m"):
        StopConfig.model_validate({"patience_minutes": "90m"})
    assert "for so long" in formatting.reason("done", "patience_minutes")


def test_a_resume_with_more_patience_goes_on(tmp_path: Path) -> None:
    run = life(tmp_path, SimulatedFaults(), stop__patience=6, stop__untrained=None).live()
    candidates = run.rows("select count(*) from candidates")[0][0]
    run.config = settings(stop__candidates=160, stop__patience=30, stop__untrained=None)
    run.live()
    assert run.rows("select count(*) from candidates")[0][0] >= candidates + 8


def test_every_rule_is_a_setting_and_every_limit_a_rule() -> None:
    limits = set(StopConfig.model_fields) - {"drain_s"}  # how long the end may take
    assert set(STOP_RULES) == limits


def test_the_rule_comes_last() -> None:
    values = StopValues(8, 4, 0.0, 0.0, None, untrained=4)
    config = settings(stop__candidates=8, stop__untrained=4).stop
    assert reason_to_stop(config, values, UP) == "candidates"
