"""A run whose evaluator was corrected: its programs are scored again, the scores come into force together, and the run
goes on."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pace_async.configure import dump
from pace_async.errors import GaveUp, Interrupted, RunLocked, SeedProgramFails, UsageError
from pace_async.events import Fact, FaultSeen, Steered
from pace_async.population.checking import check_population
from pace_async.population.lock import RunLock
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from pace_async.population.writing import writer
from pace_async.population.writing.outage import Outage, Say
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start import rescoring
from pace_async.runtime.start.rescoring import Show, refuse_unless_in_force, rescore
from pace_async.simulate.runs import header_of
from pace_async.task import load_task
from tests.support.evaluate_tasks import EVALUATOR, make_task
from tests.support.population_facts import advised, evaluated, opened, seed_program
from tests.support.simulated_runs import settings
from tests.support.small_disk import fill, small_disk

MENDED = EVALUATOR.replace("sum(outputs)", "1000 - sum(outputs)")


KILLED = """
import os, signal, sys
from pace_async.runtime.start.rescoring import rescore
rescore(sys.argv[1], None, lambda done, programs, seconds: os.kill(os.getpid(), signal.SIGKILL) if done == 2 else None)
"""


def times(factor: int) -> str:
    return f"# EVOLVE-BLOCK-START\ndef f(instance):\n    return {factor} * instance['x']\n# EVOLVE-BLOCK-END\n"


def complete(lease: int, score: float | None, program: str | None) -> tuple[Fact, ...]:
    """A rollout of island 1. Without a program nothing was made of the experiment."""
    outcome = "not_implemented" if program is None else "ok" if score is not None else "candidate_error"
    ended = replace(evaluated(lease, 1, score), program=program, program_hash=None, outcome=outcome)
    return opened(lease), advised(lease), ended


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run of three scored programs (3, 4 and 5 times), one that failed, one that was never made, and an open lease.
    The seed program has two times. The instances of seed 1 sum to 6."""
    task = make_task(tmp_path / "sums")
    config = settings(
        task=str(tmp_path / "sums"),
        evaluation__unsafe_no_sandbox=True,
        evaluation__warm=False,
        evaluation__slots=1,
        evaluation__seed=1,
        learner__objective="none",
    )
    paths = RunPaths(tmp_path / "run")
    paths.folder.mkdir()

    async def make() -> None:
        async with Store.open(paths.file) as store:
            await store.create_run(replace(header_of(config, task), task_digest=task.digest, direction="maximize"))
            await store.commit(replace(seed_program(12.0), program=times(2)))
            for lease, factor in ((1, 3), (2, 5), (3, 4)):
                await store.commit(*complete(lease, 6.0 * factor, times(factor)))
            await store.commit(*complete(4, None, times(0)), *complete(5, None, None), opened(6), advised(6))

    anyio.run(make)
    paths.config.write_text(dump(config))
    yield paths.folder


def mend(run: Path, evaluator: str = MENDED) -> None:
    (run.parent / "sums" / "evaluator.py").write_text(evaluator)


def ignored(done: int, programs: int, seconds: float) -> None:
    """Shows nothing."""


def scores(run: Path) -> list[tuple[int, float | None]]:
    with open_readonly(run / "population.db") as reader:
        rows = reader.query("select candidate, score from candidates order by candidate")
    return [(row["candidate"], row["score"]) for row in rows]


OLD = [(0, 12.0), (1, 18.0), (2, 30.0), (3, 24.0), (4, None), (5, None)]
NEW = [(0, 988.0), (1, 982.0), (2, 970.0), (3, 976.0), (4, 1000.0), (5, None)]


def test_every_program_is_scored_again_and_the_earlier_scores_stay(run: Path) -> None:
    mend(run)
    done = rescore(str(run), None, ignored)
    assert (done.epoch, done.programs, done.scored, done.known) == (1, 5, 5, False)
    assert scores(run) == NEW
    with open_readonly(run / "population.db") as reader:
        before = reader.query("select candidate, score from rescores where epoch = 0 order by candidate")
        assert [(row["candidate"], row["score"]) for row in before] == OLD
        assert reader.best()["candidate"] == 4
        assert [row["candidate"] for row in reader.query("select * from leaderboard order by rank")] == [4, 0, 1, 3, 2]
        status = reader.status()
    assert (status["best_score"], status["aborted"], status["open"]) == (1000.0, 1, 5)
    assert (run / "best.py").read_text() == times(0)
    assert rescore(str(run), None, ignored).known


def test_a_resume_sees_the_new_scores_and_takes_the_new_digest(run: Path) -> None:
    mend(run)
    task = load_task(str(run.parent / "sums"))

    async def loaded() -> tuple[list[tuple[int, float]], dict[int, float | None], int]:
        async with Store.open(run / "population.db") as store:
            refuse_unless_in_force(await store.standing(None), task, run)
            record = await store.load(None)
        state = record.run_state
        assert state.seed_program is not None
        assert state.seed_program.score == 988.0
        assert state.best is not None
        assert not state.running
        waiting = {lease: rollout.member and rollout.member.score for lease, rollout in state.complete.items()}
        return [(each.candidate, each.score) for each in state.islands[1].members], waiting, state.best.candidate

    with pytest.raises(UsageError, match="pace rescore"):
        anyio.run(loaded)
    rescore(str(run), None, ignored)
    members, waiting, best = anyio.run(loaded)
    assert members == [(4, 1000.0), (0, 988.0), (1, 982.0), (3, 976.0), (2, 970.0)]
    assert waiting == {1: 982.0, 2: 970.0, 3: 976.0, 4: 1000.0, 5: None}
    assert best == 4


@pytest.mark.long
def test_a_banned_candidate_has_no_rank_under_the_new_scores_either_until_that_is_taken_back(run: Path) -> None:
    mend(run)

    async def said(*words: Steered) -> tuple[list[int], dict[int, bool]]:
        """The members of the only island, and which complete rollouts have a program, after these words."""
        async with Store.open(run / "population.db") as store:
            await store.load(None)
            await store.commit(*words)
            state = (await store.load(None)).run_state
        waiting = {lease: rollout.member is not None for lease, rollout in state.complete.items()}
        return [each.candidate for each in state.islands[1].members], waiting

    assert anyio.run(said, Steered(1, "candidate", 2, "ban", 6, 9.0)) == (
        [3, 1, 0],
        {1: True, 2: False, 3: True, 4: False, 5: False},
    )
    rescore(str(run), None, ignored)
    assert anyio.run(said)[0] == [4, 0, 1, 3]
    with open_readonly(run / "population.db") as reader:
        assert [row["candidate"] for row in reader.query("select * from leaderboard order by rank")] == [4, 0, 1, 3]
        assert reader.show(2)["outcome"] == "banned" and reader.show(2)["score"] == 970.0
    assert anyio.run(said, Steered(2, "candidate", 2, "", 6, 9e9)) == (
        [4, 0, 1, 3, 2],
        {1: True, 2: True, 3: True, 4: True, 5: False},
    )
    with open_readonly(run / "population.db") as reader:
        assert [row["candidate"] for row in reader.query("select * from leaderboard order by rank")] == [4, 0, 1, 3, 2]
        assert not [line for check in check_population(reader) for line in check.wrong]


def test_an_interrupted_rescore_changes_no_score_and_continues_where_it_stopped(run: Path) -> None:
    mend(run)

    def interrupts(done: int, programs: int, seconds: float) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises((Interrupted, BaseExceptionGroup)):
        rescore(str(run), None, interrupts)
    assert scores(run) == OLD
    shown: list[int] = []
    plan = rescore(str(run), None, ignored, dry=True)
    assert (plan.epoch, plan.programs, plan.scored) == (1, 5, 2)

    def show(done: int, programs: int, seconds: float) -> None:
        shown.append(done)

    rescore(str(run), None, show)
    assert shown == [3, 4, 5]
    assert scores(run) == NEW


@pytest.mark.long
@pytest.mark.fault(
    "Mended and imported", "a rescore killed in the middle: no score changes, and it goes on where it was"
)
def test_a_rescore_killed_in_the_middle_changes_no_score_and_continues_where_it_stopped(run: Path) -> None:
    mend(run)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(run)], timeout=100, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert scores(run) == OLD
    plan = rescore(str(run), None, ignored, dry=True)
    assert (plan.epoch, plan.programs, plan.scored) == (1, 5, 2)
    rescore(str(run), None, ignored)
    assert scores(run) == NEW


@pytest.mark.long
@pytest.mark.fault(
    "Mended and imported",
    "an evaluator that fails in the middle of a rescore: no score changes, and it goes on with the rest",
)
def test_an_evaluator_that_fails_in_the_middle_changes_no_score_and_the_rest_is_scored_later(run: Path) -> None:
    """The evaluator's process ends at one program, as long as a file is there. The file is no part of the task."""
    broken = run.parent / "broken"
    broken.touch()
    dies = f"    import os\n    if sum(outputs) == 24 and os.path.exists({str(broken)!r}): os._exit(1)\n"
    mend(run, MENDED.replace('    return {"score"', f'{dies}    return {{"score"'))
    with pytest.raises(GaveUp, match="no score has changed, and `pace rescore` goes on with those"):
        rescore(str(run), None, ignored)
    assert scores(run) == OLD
    plan = rescore(str(run), None, ignored, dry=True)
    assert (plan.epoch, plan.programs, plan.scored) == (1, 5, 4)
    broken.unlink()
    rescore(str(run), None, ignored)
    assert scores(run) == NEW


def on_a_small_disk(run: Path, disk: Path) -> Path:
    """A copy of the run on a disk that is nearly full, with a corrected evaluator."""
    mend(run)
    return Path(shutil.copytree(run, disk / "run"))


def fills(disk: Path) -> Show:
    """Fills the disk after the second score."""

    def show(done: int, programs: int, seconds: float) -> None:
        if done == 2:
            fill(disk)

    return show


@pytest.mark.long
@pytest.mark.fault("Mended and imported", "a full disk during a rescore: no score changes, and it goes on where it was")
def test_a_rescore_on_a_full_disk_ends_with_a_sentence_and_continues_where_it_stopped(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = Store.be_patient

    def impatient(store: Store, seconds: float, say: Say, then: str) -> None:
        patient(store, 0.0, say, then)

    monkeypatch.setattr(Store, "be_patient", impatient)
    with small_disk(tmp_path / "disk", kib=2048) as disk:
        kept = on_a_small_disk(run, disk)
        with pytest.raises(GaveUp, match=r"disk is full.*`pace rescore` continues") as told:
            rescore(str(kept), None, fills(disk))
        assert "pace resume" not in str(told.value)
        (disk / "filler").unlink()
        assert scores(kept) == OLD
        plan = rescore(str(kept), None, ignored, dry=True)
        assert (plan.epoch, plan.programs, plan.scored) == (1, 5, 2)
        rescore(str(kept), None, ignored)
        assert scores(kept) == NEW


@pytest.mark.fault("Mended and imported", "a full disk during a rescore: pauses and goes on by itself")
def test_a_rescore_waits_for_room_on_the_disk_and_goes_on(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []

    def frees(_: RunLock) -> Say:
        def say(news: Outage | FaultSeen) -> None:
            if isinstance(news, Outage):
                heard.append(news.reason)
                (tmp_path / "disk" / "filler").unlink()

        return say

    monkeypatch.setattr(writer, "RETRY_S", 0.02)
    with small_disk(tmp_path / "disk", kib=2048) as disk:
        monkeypatch.setattr(rescoring, "waiting", frees)
        kept = on_a_small_disk(run, disk)
        rescore(str(kept), None, fills(disk))
        assert scores(kept) == NEW
    assert heard == ["the disk is full"]


@pytest.mark.long
def test_only_the_best_are_scored_and_the_others_have_no_score_then(run: Path) -> None:
    mend(run)
    done = rescore(str(run), 2, ignored)
    assert done.programs == 3
    assert scores(run) == [(0, 988.0), (1, None), (2, 970.0), (3, 976.0), (4, None), (5, None)]
    again = rescore(str(run), None, ignored)
    assert (again.epoch, again.programs) == (2, 5)
    assert scores(run) == NEW


@pytest.mark.long
def test_an_evaluator_corrected_twice_keeps_three_scores_of_each_program(run: Path) -> None:
    mend(run)
    rescore(str(run), None, ignored)
    mend(run, EVALUATOR.replace("sum(outputs)", "2 * sum(outputs)"))
    assert rescore(str(run), None, ignored).epoch == 2
    with open_readonly(run / "population.db") as reader:
        rows = reader.query("select epoch, score from rescores where candidate = 2 order by epoch")
        record = reader.record()
    assert [(row["epoch"], row["score"]) for row in rows] == [(0, 30.0), (1, 970.0), (2, 60.0)]
    assert [each.candidate for each in record.run_state.islands[1].members] == [2, 3, 1, 0, 4]


def test_a_plan_says_how_many_and_writes_nothing(run: Path) -> None:
    mend(run)
    before = (run / "population.db").read_bytes()
    plan = rescore(str(run), None, ignored, dry=True)
    assert (plan.programs, plan.scored, plan.known) == (5, 0, False)
    assert plan.expected_s > 0
    assert scores(run) == OLD
    assert (run / "population.db").read_bytes() == before


def test_what_cannot_be_scored_again_is_refused_in_one_sentence(run: Path) -> None:
    mend(run, EVALUATOR.replace("sum(outputs)", "float('nan')"))
    with pytest.raises(SeedProgramFails, match="no score has changed"):
        rescore(str(run), None, ignored)
    assert scores(run) == OLD
    with RunLock(run), pytest.raises(RunLocked):
        rescore(str(run), None, ignored)
    with pytest.raises(UsageError, match="no run"):
        rescore(str(run.parent / "nothing"), None, ignored)
    shutil.rmtree(run.parent / "sums")
    with pytest.raises(UsageError, match="no task"):
        rescore(str(run), None, ignored)
