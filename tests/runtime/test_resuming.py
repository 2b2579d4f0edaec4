"""What a resume may change, what it records, and that a run which is finished stays as it is."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from pace_async.config import Config
from pace_async.config.removed import REMOVED
from pace_async.config.section import Section
from pace_async.configure import on_resume, that_may_change
from pace_async.errors import UsageError
from pace_async.learn.movement import MovementLimits
from pace_async.learn.settings import TrainerConfig
from pace_async.population.reading.record import RunRecord
from pace_async.population.store import Store
from pace_async.runtime.start.resuming import (
    UNSTATED,
    in_force,
    nothing_left,
    resumed_config,
    setting_changes,
)
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.stages import World
from tests.support.command_line import Shell
from tests.support.simulated_runs import settings, simulated

ENDS = {
    "candidates": {"stop__candidates": 8},
    "updates": {"stop__updates": 1},
    "target": {"stop__target": 0.5},
    "minutes": {"stop__minutes": 1e-9},
}
MORE: dict[str, dict[str, object]] = {
    "candidates": {"stop.candidates": 9},
    "updates": {"stop.updates": 2},
    "target": {"stop.target": 3.0},
}


def run_to_its_end(folder: Path, **given: Any) -> RunRecord:
    """Begin a run in `folder`, or resume it. Returns the record afterwards."""

    async def drive_it() -> RunRecord:
        async with simulated(folder, settings(**given), World(seed=3)) as run:
            with anyio.fail_after(60):
                assert await drive(run.core) == "done"
            return await run.store.load()

    folder.mkdir(exist_ok=True)
    return anyio.run(drive_it)


def leases(folder: Path) -> int:
    connection = sqlite3.connect(folder / "population.db")
    try:
        return connection.execute("select count(*) from leases").fetchone()[0]
    finally:
        connection.close()


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "a finished run has nothing to resume")
@pytest.mark.parametrize("rule", ["candidates", "updates", "target"])
def test_a_finished_run_opens_no_lease_when_it_is_resumed(shell: Shell, rule: str) -> None:
    folder = shell.folder / "run"
    record = run_to_its_end(folder, **ENDS[rule])
    before = leases(folder)
    said = shell.pace("resume", "run")
    assert (said.code, said.err) == (0, "")
    assert "nothing to do" in said.out
    assert f"`--{rule} " in said.out
    assert leases(folder) == before
    run_to_its_end(folder, **ENDS[rule])  # as after a crash between the last row and the word that it is done
    assert leases(folder) == before
    assert nothing_left(record, resumed_config(record, MORE[rule])) is None


def test_a_limit_below_what_is_evaluated_is_refused_and_nothing_is_written(shell: Shell) -> None:
    folder = shell.folder / "run"
    record = run_to_its_end(folder, stop__candidates=40, stop__updates=2)
    rows = (folder / "population.db").read_bytes()
    assert 2 < record.candidates < 40
    said = shell.pace("resume", "run", "--candidates", "2")
    assert (said.code, said.out) == (2, "")
    assert f"--candidates 2 is below the {record.candidates} candidates that are evaluated already" in said.err
    assert len(said.err.splitlines()) == 1
    assert (folder / "population.db").read_bytes() == rows
    assert resumed_config(record, {"stop.candidates": record.candidates}).stop.candidates == record.candidates
    assert resumed_config(record, {}).stop.candidates == 40


def test_a_limit_that_is_reached_holds_beside_one_that_is_raised(tmp_path: Path) -> None:
    record = run_to_its_end(tmp_path / "run", **ENDS["updates"])
    said = nothing_left(record, resumed_config(record, {"stop.candidates": 400}))
    assert said is not None
    assert "`--updates N` asks for more" in said


def test_a_resume_of_a_run_ended_by_minutes_has_as_many_again(tmp_path: Path) -> None:
    record = run_to_its_end(tmp_path / "run", **ENDS["minutes"])
    assert (record.state, record.reason) == ("done", "minutes")
    assert nothing_left(record, resumed_config(record, {})) is None


@pytest.mark.fault("Crash and resume", "settings that would change the past are refused")
def test_every_room_says_whether_its_settings_may_change_and_the_help_has_those_that_may(shell: Shell) -> None:
    assert not [key for key, said in on_resume().items() if said == Section.on_resume]
    whole, others = that_may_change()
    assert (whole, list(others)) == (
        ["stop", "implementer", "prompts", "faults"],
        ["search", "advisor", "evaluation", "learner"],
    )
    assert {"api_base", "engine"} <= set(others["advisor"])
    assert not {"model", "temperature"} & set(others["advisor"])
    told = " ".join(shell.pace("resume", "--help").out.split())
    for room, names in others.items():
        assert f"{room}: {', '.join(names)}." in told


def test_a_run_that_states_a_setting_that_is_gone_goes_on_where_it_did_nothing(tmp_path: Path) -> None:
    record = run_to_its_end(tmp_path / "run", **ENDS["updates"])

    def stated(**learner: object) -> RunRecord:
        config = {**record.header.config, "learner": {**cast("Any", record.header.config["learner"]), **learner}}
        return replace(record, header=replace(record.header, config=config))

    assert resumed_config(stated(**REMOVED["learner"]), {}) == resumed_config(record, {})
    with pytest.raises(UsageError, match=r"^learner: other_ideas 0\.5 is gone: it gained nothing that showed\.$"):
        resumed_config(stated(other_ideas=0.5), {})


def test_another_number_of_threads_is_refused_with_the_reason(shell: Shell, tmp_path: Path) -> None:
    record = run_to_its_end(tmp_path / "demo", **ENDS["updates"])
    threads = Config.model_validate(record.header.config).search.threads
    refused = shell.pace("resume", "demo", "--threads", str(threads + 1))
    assert refused.code == 2
    assert f"search.threads is {threads} in this run and cannot become {threads + 1}" in refused.err
    assert "each thread is an island" in refused.err
    assert resumed_config(record, {"search.threads": threads}).search.threads == threads


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "settings that would change the past are refused")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"learner.k": 3}, "learner.k is 4 in this run and cannot become 3 on resume: the learner rebuilds"),
        ({"learner": {"max_length": 900, "k": 2}}, "learner.k is 4"),
        ({"evaluation.seed": 7}, "scores would not compare"),
        ({"search.ideas_kept": 2}, "islands are rebuilt"),
        ({"search.threads": 9}, "each thread is an island"),
        ({"reward.scale": 1.0}, "rewards would not compare"),
        ({"advisor.temperature": 0.5}, "was sampled at it"),
        ({"staleness.policy": "soft"}, "admitted under it"),
        ({"learner.max_lenght": 9}, "did you mean 'learner.max_length'"),
    ],
)
def test_a_setting_that_would_change_recorded_groups_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, object], why: str
) -> None:
    record = run_to_its_end(tmp_path / "run", stop__candidates=8)
    with pytest.raises(UsageError, match=why):
        resumed_config(record, changes)


@pytest.mark.fault("Learning", "a run older than the limits trains its recorded groups without them")
def test_a_setting_that_an_older_run_does_not_state_stays_off(tmp_path: Path) -> None:
    record = run_to_its_end(tmp_path / "run", stop__candidates=8)
    stated = json.loads(json.dumps(record.header.config))
    for key in UNSTATED:
        section, _, name = key.partition(".")
        del stated[section][name]
    began = replace(record, header=replace(record.header, config=stated))
    config = resumed_config(began, {})
    assert {key: getattr(getattr(config, key.partition(".")[0]), key.partition(".")[2]) for key in UNSTATED} == UNSTATED
    assert (TrainerConfig.of(config).warmup, TrainerConfig.of(config).limits) == (0, MovementLimits())
    assert resumed_config(record, {}).learner == settings().learner
    assert setting_changes(began, config) == ()
    with pytest.raises(UsageError, match=r"learner\.warmup is 0 in this run and cannot become 5 on resume"):
        resumed_config(began, {"learner.warmup": 5})


@pytest.mark.fault("Crash and resume", "settings that may change are recorded")
def test_a_setting_that_changes_no_recorded_group_is_accepted_and_recorded(tmp_path: Path) -> None:
    record = run_to_its_end(tmp_path / "run", stop__candidates=8)
    changes = {"learner.max_length": 900, "faults.patience_s": 5.0, "evaluation.slots": 3, "search.trials_shown": 0}
    config = resumed_config(record, {**changes, "learner.k": 4})
    assert config.learner.max_length == 900
    assert {one.key: json.loads(one.after) for one in setting_changes(record, config)} == changes


def test_a_resumed_run_shows_the_settings_in_force(tmp_path: Path) -> None:
    record = run_to_its_end(tmp_path, stop__candidates=8)
    config = resumed_config(record, {"implementer.model": "openai/other", "staleness.max_staleness": 3})
    shown = in_force(record.header, config)
    assert (shown.implementer, shown.max_staleness, shown.name) == ("openai/other", 3, record.header.name)
    assert shown.config["implementer"]["model"] == "openai/other"  # pyright: ignore[reportIndexIssue]
    assert in_force(record.header, resumed_config(record, {})).max_staleness == record.header.max_staleness


def test_a_changed_implementer_is_recorded_whole_and_removed_options_stay_removed(tmp_path: Path) -> None:
    began = {"temperature": 0.7, "reasoning_effort": "high"}
    folder = tmp_path / "run"
    record = run_to_its_end(folder, stop__candidates=8, implementer__options=began)
    config = resumed_config(
        record, {"implementer.model": "openai/a=2,catalog", "implementer.options": {"temperature": 0.7}}
    )
    changes = setting_changes(record, config)
    assert {one.key: (json.loads(one.before), json.loads(one.after)) for one in changes} == {
        "implementer.model": ("catalog", "openai/a=2,catalog"),
        "implementer.options": (began, {"temperature": 0.7}),
    }

    async def commit() -> RunRecord:
        async with Store.open(folder / "population.db") as store:
            await store.load()
            await store.commit(*changes)
            return await store.load()

    later = anyio.run(commit)
    assert resumed_config(later, {}) == config
    assert setting_changes(later, resumed_config(later, {})) == ()
    warmer = resumed_config(later, {"implementer.options.temperature": 0.9})
    assert warmer.implementer.options == {"temperature": 0.9}
    assert [one.key for one in setting_changes(later, warmer)] == ["implementer.options"]
