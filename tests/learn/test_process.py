"""The learner as a child process: it may be killed at any time, and nothing is trained twice or lost."""

import contextlib
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from pace_async.errors import GaveUp, InfrastructureFault, PaceBug
from pace_async.learn.client import ChildLimits, ProcessLearner
from pace_async.learn.lineage import Lineage
from pace_async.learn.process import serve
from pace_async.learn.settings import TrainerConfig
from pace_async.replay.groupfile import read_digested
from pace_async.weights import checkpoint_digests, is_complete
from tests.support.engine_models import plain_logprobs
from tests.support.learn_toys import written_groups
from tests.support.small_disk import fill, small_disk

SETTINGS = TrainerConfig(learning_rate=1e-3, checkpoint_every=2)
METRICS = {"loss", "grad_norm", "entropy", "clip_fraction", "mean_ratio", "ess", "k3", "tokens"}

pytestmark = pytest.mark.timeout(300)  # each start imports torch and TRL


@pytest.fixture(scope="session")
def groups(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written_groups(tmp_path_factory.mktemp("groups"), 4)


@pytest.fixture(scope="session")
def uninterrupted(toy: Path, groups: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Digests of versions 1, 2, … as a learner without any failure makes them."""
    lineage = Lineage(toy, tmp_path_factory.mktemp("straight"), SETTINGS)
    lineage.start([])
    return [checkpoint_digests(Path(str(lineage.train(group).weights))) for group in groups]


def child_of(learner: ProcessLearner) -> psutil.Process:
    """The one child of this test that runs the learner."""
    (found,) = [
        process for process in psutil.Process().children() if "pace_async.learn.process" in " ".join(process.cmdline())
    ]
    return found


@pytest.mark.long
@pytest.mark.nightly
async def test_an_answer_is_scored_under_the_requested_version_or_not_at_all(
    toy: Path, groups: list[Path], tmp_path: Path
) -> None:
    prompt, answer = (2, 3, 4), (5, 6, 7, 8)
    async with ProcessLearner(toy, tmp_path, SETTINGS) as learner:
        first = await learner.logprobs(0, prompt, answer)
        assert first == pytest.approx(plain_logprobs(toy, prompt, answer, 1.0), abs=1e-4)
        assert await learner.logprobs(1, prompt, answer) is None
        step = await learner.train(groups[0])
        assert step.weights is not None
        assert await learner.logprobs(0, prompt, answer) == first, "known already"
        assert await learner.logprobs(0, prompt, answer[:2]) is None
        second = await learner.logprobs(1, prompt, answer)
        assert second == pytest.approx(plain_logprobs(step.weights, prompt, answer, 1.0), abs=1e-4)
        assert second != first


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.fault("Replay and learner", "killed in the middle of a step")
@pytest.mark.fault("Crash and resume", "killed around the writing of weights")
async def test_a_learner_killed_in_any_moment_comes_back_with_the_same_weights_and_trains_nothing_twice(
    toy: Path, groups: list[Path], uninterrupted: list[dict[str, str]], tmp_path: Path
) -> None:
    async def train(learner: ProcessLearner, group: Path) -> None:
        with contextlib.suppress(InfrastructureFault):
            await learner.train(group)

    async with ProcessLearner(toy, tmp_path, SETTINGS) as learner:
        assert await learner.ready() == toy
        first = await learner.train(groups[0])
        assert (first.update, first.version, first.digest) == (0, 1, read_digested(groups[0])[1])
        assert first.weights is not None
        assert checkpoint_digests(first.weights) == uninterrupted[0]
        assert set(first.metrics) >= METRICS
        assert child_of(learner).memory_info().rss < 1.2e9
        assert await learner.train(groups[0]) == first
        with pytest.raises(PaceBug, match=r"refused 000004\.safetensors: group 4 trains version 3"):
            await learner.train(groups[3])
        async with anyio.create_task_group() as tasks:
            victim = child_of(learner)
            tasks.start_soon(train, learner, groups[1])
            while not is_complete(tmp_path / "versions" / "000002"):
                await anyio.lowlevel.checkpoint()
            victim.kill()  # the version stands; its checkpoint and its answer may or may not
        await train(learner, groups[1])  # finds it dead, where the answer had come before
        second = await learner.train(groups[1])
        assert second.weights is not None
        assert checkpoint_digests(second.weights) == uninterrupted[1]
        assert learner.version == 2
        child_of(learner).kill()
    written = (tmp_path / "versions" / "000002").stat().st_mtime_ns
    async with ProcessLearner(toy, tmp_path, SETTINGS, groups[:1]) as learner:  # the row of version 2 was not written
        assert await learner.train(groups[1]) == second
        assert (tmp_path / "versions" / "000002").stat().st_mtime_ns == written, "adopted, not trained again"
        third = await learner.train(groups[2])
        assert third.weights is not None
        assert checkpoint_digests(third.weights) == uninterrupted[2]
        assert await learner.train(groups[0]) == first


async def test_a_learner_that_is_late_or_whose_caller_is_cancelled_is_killed(
    toy: Path, groups: list[Path], tmp_path: Path
) -> None:
    async with ProcessLearner(toy, tmp_path, SETTINGS, limits=ChildLimits(start_s=0.2)) as learner:
        stopped = child_of(learner)
        stopped.suspend()
        with pytest.raises(InfrastructureFault, match=r"learner_timeout: no answer within 0\.2 s"):
            await learner.train(groups[0])
        assert not stopped.is_running()
        abandoned: list[psutil.Process] = []
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(learner.train, groups[0])
                await anyio.wait_all_tasks_blocked()
                abandoned.append(child_of(learner))
                scope.cancel()
        assert [child.is_running() for child in abandoned] == [False]


@pytest.mark.long
@pytest.mark.nightly
async def test_a_learner_without_a_model_or_with_a_damaged_history_reports_it(
    toy: Path, groups: list[Path], tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    async with ProcessLearner(empty, tmp_path / "out", SETTINGS) as learner:
        with pytest.raises(InfrastructureFault, match=r"learner_died: .*empty holds no model.*learner\.log"):
            await learner.ready()
    damaged = tmp_path / "000001.safetensors"
    damaged.write_bytes(groups[0].read_bytes()[:-50])
    async with ProcessLearner(toy, tmp_path / "out", SETTINGS, [damaged]) as learner:
        with pytest.raises(GaveUp, match=r"cannot rebuild version 1: .*000001\.safetensors is damaged"):
            await learner.ready()


@pytest.mark.fault("Disk, everywhere", "no space for a checkpoint: paused, told, and gone on by itself")
def test_without_room_for_a_checkpoint_the_learner_says_so_and_the_next_one_makes_the_same_version(
    toy: Path, groups: list[Path], uninterrupted: list[dict[str, str]], tmp_path: Path
) -> None:
    def asked(out: Path) -> dict[str, Any]:
        """The last answer to both requests of a separate learner."""
        lineage, replies = Lineage(toy, out, replace(SETTINGS, checkpoint_every=1)), StringIO()
        lines: list[dict[str, Any]] = [{"id": 1, "start": [], "after": 0}, {"id": 2, "train": str(groups[0])}]
        serve(lineage, StringIO("".join(json.dumps(line) + "\n" for line in lines)), replies, 60.0)
        return json.loads(replies.getvalue().splitlines()[-1])

    with small_disk(tmp_path / "out", kib=4096) as out:
        filler = fill(out)
        with filler.open("rb+") as stream:
            room = (
                sum(file.stat().st_size for file in toy.iterdir()) + 32_768
            )  # for the version, not for its checkpoint
            stream.truncate(filler.stat().st_size - room)
        said = asked(out)
        assert (said["failed"], "No space left" in said["detail"]) == ("disk_full", True)
        assert [entry.name for entry in out.glob("*/*")] == ["000001"]
        filler.unlink()
        made = asked(out)
        assert made["version"] == 1
        assert checkpoint_digests(Path(made["weights"])) == uninterrupted[0]
