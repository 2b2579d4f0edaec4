"""The runtime's deadline for each line of the learner, with a child that is a stream of lines. No test waits: each
reads the deadline in force."""

import json
import math
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from pace_async.errors import InfrastructureFault, PaceBug
from pace_async.learn.client import ChildLimits, ProcessLearner
from pace_async.learn.rank_processes import RankProcess
from pace_async.learn.settings import TrainerConfig

START_S, STEP_S = 300.0, 4000.0


class Child:
    """Standard input and output of a learner that prints these lines, then nothing more."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self.returncode = None
        self.pid = -1
        self.stdin = self
        self.lines = list(lines)
        self.given_s: list[float] = []

    async def send(self, _data: bytes) -> None:
        await anyio.lowlevel.checkpoint()

    async def wait(self) -> int:
        """Its exit status, once its output has ended."""
        await anyio.lowlevel.checkpoint()
        return 1

    async def receive_until(self, _delimiter: bytes, _most: int) -> bytes:
        self.given_s.append(round(anyio.current_effective_deadline() - anyio.current_time(), -1))
        await anyio.lowlevel.checkpoint()
        if not self.lines:
            raise anyio.EndOfStream
        return json.dumps({"id": 1, **self.lines.pop(0)}).encode()


def learner_of(
    child: Child, folder: Path, history: list[Path], monkeypatch: pytest.MonkeyPatch, *others: Child
) -> ProcessLearner:
    learner = ProcessLearner(
        folder, folder / "out", TrainerConfig(), history, limits=ChildLimits(STEP_S, START_S, math.inf)
    )
    running = tuple(
        RankProcess(cast("Any", rank), cast("Any", rank), folder / f"learner.rank{number}.log", 0)
        for number, rank in enumerate((child, *others))
    )
    monkeypatch.setattr(learner._ranks, "running", running)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr("pace_async.learn.rank_processes.kill_group", print)  # there is no process
    return learner


async def test_a_repeated_step_has_the_deadline_of_a_step_and_loading_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = [tmp_path / f"{number:06d}.safetensors" for number in (1, 2)]
    for path in history:
        path.touch()
    child = Child({"reached": 0}, {"reached": 1}, {"reached": 2}, {"version": 2, "weights": str(tmp_path)})
    assert await learner_of(child, tmp_path, history, monkeypatch).ready() == tmp_path
    assert child.given_s == [START_S, STEP_S, STEP_S, STEP_S]


async def test_a_learner_that_dies_in_a_step_taken_again_is_a_fault_of_the_infrastructure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "000001.safetensors").touch()
    child = Child({"reached": 0})
    with pytest.raises(InfrastructureFault, match="learner_died"):
        await learner_of(child, tmp_path, [tmp_path / "000001.safetensors"], monkeypatch).ready()
    assert child.given_s == [START_S, STEP_S]


@pytest.mark.fault("Disk, everywhere", "no space for a checkpoint: paused, told, and gone on by itself")
async def test_a_full_disk_of_the_learner_is_a_fault_of_that_name_and_the_learner_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child({"failed": "disk_full", "detail": "No space left on device"})
    learner = learner_of(child, tmp_path, [], monkeypatch)
    monkeypatch.setattr(learner, "_weights", tmp_path)
    with pytest.raises(InfrastructureFault, match="disk_full: the learner: No space left on device"):
        await learner.train(tmp_path / "000001.safetensors")
    assert not learner._ranks.running  # pyright: ignore[reportPrivateUsage]


async def test_an_unreadable_group_is_a_fault_and_not_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = Child({"refused": "000001.safetensors is damaged", "setting": False, "unreadable": True})
    learner = learner_of(child, tmp_path, [], monkeypatch)
    monkeypatch.setattr(learner, "_weights", tmp_path)
    with pytest.raises(InfrastructureFault, match=r"group_unreadable: 000001\.safetensors is damaged"):
        await learner.train(tmp_path / "000001.safetensors")


async def test_each_rank_has_to_answer_and_the_first_ones_answer_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"here": True}
    first, second = Child({"version": 0, "weights": str(tmp_path)}), Child({"beat": True}, here)
    learner = learner_of(first, tmp_path, [], monkeypatch, second)
    assert await learner.ready() == tmp_path
    assert second.lines == []
    first.lines, second.lines = [{"logprobs": [-1.0]}], [here]
    with pytest.raises(PaceBug, match="answered request 1 instead of 2"):
        await learner.logprobs(0, (1,), (2,))


async def test_a_rank_that_dies_while_the_first_works_ends_all_and_its_log_gives_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "learner.rank1.log").write_text("OutOfMemoryError: 3 GiB\n")
    first = Child(*[{"beat": True}] * 1000)
    learner = learner_of(first, tmp_path, [], monkeypatch, Child({"beat": True}))
    with pytest.raises(InfrastructureFault, match=r"learner_died: OutOfMemoryError: 3 GiB \(see .*rank1\.log\)"):
        await learner.ready()
    assert first.lines, "it was not waited for"
    assert not learner._ranks.running  # pyright: ignore[reportPrivateUsage]
