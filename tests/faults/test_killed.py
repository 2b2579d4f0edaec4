"""Killed at a named failpoint, or at a random one, and resumed: over the real database, on simulated stages.

The files are on a file system in memory where there is one: what a killed process has written is there all the same.
"""

import random
import shutil
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pace_async.population.reading.reader import open_readonly
from pace_async.population.schema import schema_state
from pace_async.simulate.stages import WEIGHTS, weights_of
from tests.faults.invariants import assert_sound, candidates_of, versions_of
from tests.faults.lives import Lives, ProcessLife, lives
from tests.support.population_facts import downgrade
from tests.support.populations import damage_of

CANDIDATES = 32
SMALL: dict[str, Any] = {
    "stop__candidates": CANDIDATES,
    "search__threads": 6,
    "learner__group_size": 4,
    "learner__k": 2,
    "search__migration": 0.5,
}

BACK = """select v.version, v.restored, g.restores from versions v join groups g on g.group_number = v.group_number
          where g.restores is not null"""
VOID = """select count(*) as trained from leases l join versions v on v.restored is not null
          where l.state = 'trained' and l.trained_by >= v.version
          and l.oldest_version > v.restored and l.oldest_version < v.version"""


@pytest.fixture(scope="module")
def process() -> Generator[Lives]:
    with lives() as started:
        yield started


def killed_and_resumed(process: Lives, folder: Path, name: str, number: int) -> None:
    """Kill the run at the failpoint, go on with it to its end, and look at what holds."""
    database = folder / "population.db"
    life = ProcessLife(str(folder), SMALL, seed=number, discard_every=5)
    assert process.live(replace(life, name=name, number=number)), f"it never came to {name} {number}"
    assert_sound(database)
    kept, versions = candidates_of(database), versions_of(database)
    assert len(kept) < CANDIDATES + 1, "it was killed when all was done"
    assert not process.live(life)
    assert_sound(database, kept=kept, finished=True)
    assert len(candidates_of(database)) == CANDIDATES + 1
    assert versions.items() <= versions_of(database).items()


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "killed around the advisor's answer", only="advise")
@pytest.mark.fault("Crash and resume", "killed around the implementer's answer", only="implement")
@pytest.mark.fault("Crash and resume", "killed around an evaluation", only="evaluate")
@pytest.mark.fault("Crash and resume", "killed around a commit", only="commit")
@pytest.mark.fault("Crash and resume", "killed around the choice of a group", only="ship")
@pytest.mark.fault("Crash and resume", "killed around a learning step", only="learn")
@pytest.mark.fault("Crash and resume", "killed around the publishing of a version", only="publish")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stage", ["advise", "implement", "evaluate", "commit", "ship", "learn", "publish"])
def test_killed_before_or_after_a_stage_a_run_goes_on_and_nothing_is_lost_or_repeated(
    process: Lives, memory: Path, stage: str, when: str
) -> None:
    killed_and_resumed(process, memory / "run", f"{stage} {when}", 3)


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "killed around a commit")
@pytest.mark.parametrize("number", [1, 42, 43, 200])
def test_killed_inside_a_transaction_a_run_has_it_whole_or_not_at_all(
    process: Lives, memory: Path, number: int
) -> None:
    killed_and_resumed(process, memory / "run", "statement", number)


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "killed around the writing of weights")
@pytest.mark.parametrize("number", [1, 4])
def test_a_run_killed_with_weights_half_written_writes_them_again(process: Lives, memory: Path, number: int) -> None:
    killed_and_resumed(process, memory / "run", "weights half", number)


@pytest.mark.long
@pytest.mark.fault("Learning", "killed around going back, and resumed")
@pytest.mark.parametrize(
    "name", ["go back before", "go back after", "good weights half", "went back before", "went back after"]
)
def test_killed_around_going_back_an_advisor_goes_back_once_to_the_same_version(
    process: Lives, memory: Path, name: str
) -> None:
    """With the group chosen and not yet written down, shipped, its weights half written, whole, and in their row."""
    folder, candidates = memory / "run", 40
    database = folder / "population.db"
    life = ProcessLife(str(folder), {**SMALL, "stop__candidates": candidates}, seed=3, ruined_by=2)
    assert process.live(replace(life, name=name, number=1)), f"it never came to {name}"
    assert_sound(database)
    kept, versions = candidates_of(database), versions_of(database)
    assert not process.live(life)
    assert_sound(database, kept=kept, finished=True)
    assert len(candidates_of(database)) == candidates + 1
    assert versions.items() <= versions_of(database).items()
    with open_readonly(database) as reader:
        [back] = reader.query(BACK)
        [void] = reader.query(VOID)
    made, good = (folder / "versions" / f"{version:06d}" / WEIGHTS for version in (back["version"], back["restored"]))
    assert back["restores"] == back["restored"]
    assert made.read_text() == (good.read_text() if back["restored"] else str(weights_of(None, 3)))
    assert void["trained"] == 0, "a rollout of a version between was trained on"


@pytest.mark.long
@pytest.mark.fault("Crash and resume", "killed at a hundred random moments")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("moments", [25, pytest.param(100, marks=pytest.mark.nightly)])
def test_killed_at_random_moments_a_run_loses_and_repeats_nothing(process: Lives, memory: Path, moments: int) -> None:
    draw, kills, runs = random.Random(17), 0, 0
    while kills < moments:
        runs += 1
        folder = memory / f"run {runs}"
        shape = {**SMALL, "staleness__max_staleness": runs % 4, "seed": runs}
        life = ProcessLife(str(folder), shape, seed=runs, discard_every=3 + runs % 4)
        kept: dict[int, tuple[Any, ...]] = {}
        while True:
            dies = replace(life, name="any", number=draw.randint(1, 250))
            killed = process.live(dies)
            assert_sound(folder / "population.db", kept=kept)
            kept = dict(candidates_of(folder / "population.db"))
            if not killed:
                break
            kills += 1
        assert_sound(folder / "population.db", kept=kept, finished=True)
        assert len(kept) == CANDIDATES + 1
    assert runs > moments // 25


@pytest.mark.fault("Crash and resume", "killed in a migration")
@pytest.mark.long
@pytest.mark.nightly
def test_a_database_killed_in_a_migration_is_unchanged_and_can_be_upgraded(process: Lives, memory: Path) -> None:
    assert not process.live(ProcessLife(str(memory / "older"), SMALL))
    downgrade(memory / "older" / "population.db", "0001")
    number, kills = 1, 0
    while True:
        folder = memory / str(number)
        shutil.copytree(memory / "older", folder)
        database = folder / "population.db"
        before = candidates_of(database)
        killed = process.live(ProcessLife(str(folder), migrates=True, name="statement", number=number))
        if killed:
            kills += 1
            assert schema_state(database) == "older"
            assert candidates_of(database) == before
            assert not process.live(ProcessLife(str(folder), migrates=True))
        assert schema_state(database) == "current"
        assert candidates_of(database) == before
        with open_readonly(database) as reader:
            assert damage_of(reader) == ()
        if not killed:
            break
        number += 11
    assert kills > 4
