"""A learner that runs out of memory tries smaller passes once. Then it says which setting would help."""

import json
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import torch

from pace_async.errors import GaveUp, InfrastructureFault
from pace_async.learn import client
from pace_async.learn.client import ChildLimits, ProcessLearner
from pace_async.learn.lineage import Lineage
from pace_async.learn.memory import (
    OUT_OF_MEMORY,
    further_remedies,
    halving_helps,
    is_out_of_memory,
    remedy,
    said_briefly,
)
from pace_async.learn.process import serve
from pace_async.learn.settings import TrainerConfig
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import group_path, write_group
from pace_async.weights import checkpoint_digests
from scripts.benchmarks.toys import write_llama
from tests.doubles.scarce_memory import limit_passes
from tests.support.learn_toys import written_groups

SETTINGS = TrainerConfig(learning_rate=1e-3, micro_tokens=200)
AGAIN = r"37.20 GiB.; it tries once more with learner.micro_tokens=100 "


def learner(
    toy: Path, out: Path, double: str, most: int, monkeypatch: pytest.MonkeyPatch, ranks: int = 1
) -> ProcessLearner:
    def command(_module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", f"tests.doubles.{double}", str(most), *arguments]

    monkeypatch.setattr(client, "python_module", command)
    return ProcessLearner(toy, out, SETTINGS, limits=ChildLimits(cards=("",) * ranks if ranks > 1 else (None,)))


async def test_after_the_first_failure_the_next_child_takes_passes_of_half_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with learner(tmp_path, tmp_path / "out", "scarce_learner", 100, monkeypatch) as scarce:
        with pytest.raises(InfrastructureFault, match=AGAIN) as first:
            await scarce.train(tmp_path / "group")
        assert first.value.kind == OUT_OF_MEMORY
        assert (await scarce.train(tmp_path / "group")).version == 1


async def test_the_second_time_the_run_ends_and_names_one_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with learner(tmp_path, tmp_path / "out", "scarce_learner", 5, monkeypatch) as scarce:
        with pytest.raises(InfrastructureFault, match=AGAIN):
            await scarce.train(tmp_path / "group")
        with pytest.raises(GaveUp, match=r"micro_tokens=100.*--set learner.gradient_checkpointing=true"):
            await scarce.train(tmp_path / "group")


def test_a_learner_without_memory_says_so_as_its_last_word_and_smaller_passes_train_the_group_once(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [group] = written_groups(tmp_path / "groups", 1)
    limit_passes(monkeypatch, 100)
    requests: list[dict[str, object]] = [
        {"id": 1, "start": [], "after": 0},
        {"id": 2, "train": str(group)},
        {"id": 3, "ping": True},
    ]
    lines, replies = StringIO("".join(map(line_of, requests))), StringIO()
    serve(Lineage(toy, tmp_path / "out", SETTINGS), lines, replies, 5.0)
    last = [answer for answer in map(json.loads, replies.getvalue().splitlines()) if "beat" not in answer][-1]
    said = "CUDA out of memory. Tried to allocate 37.20 GiB."
    assert last == {"id": 2, "failed": OUT_OF_MEMORY, "detail": said}
    half = replace(SETTINGS, micro_tokens=100)
    smaller = trained(toy, tmp_path / "out", half, group)
    monkeypatch.undo()
    assert smaller == trained(toy, tmp_path / "ample", half, group)


def line_of(request: dict[str, object]) -> str:
    return json.dumps(request) + "\n"


def trained(toy: Path, out: Path, settings: TrainerConfig, group: Path) -> tuple[int, dict[str, str]]:
    lineage = Lineage(toy, out, settings)
    lineage.start([])
    step = lineage.train(group)
    assert step.weights is not None
    return step.version, checkpoint_digests(Path(step.weights))


@pytest.mark.long
@pytest.mark.nightly
async def test_several_ranks_without_memory_begin_again_and_train_the_group_once(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [group] = written_groups(tmp_path / "groups", 1)
    async with learner(toy, tmp_path / "out", "scarce_memory", 100, monkeypatch, ranks=2) as scarce:
        with pytest.raises(InfrastructureFault, match=AGAIN):
            await scarce.train(group)
        step = await scarce.train(group)
    assert (step.version, step.reason) == (1, "")
    assert step.weights is not None


def test_the_remedy_is_one_that_is_not_chosen_yet() -> None:
    settings = replace(SETTINGS, gradient_checkpointing=True)
    assert "precision=bf16" in remedy(settings)
    settings = replace(settings, precision="bf16")
    assert "lora_rank" in remedy(settings)
    assert "shorter calls" in remedy(replace(settings, lora_rank=8))


def test_only_errors_of_memory_count() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60)
    assert is_out_of_memory(raised.value)
    assert "alloc" in said_briefly(raised.value)
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))


def test_passes_of_half_the_size_help_only_where_no_call_fills_one() -> None:
    assert halving_helps(SETTINGS, 100)
    assert halving_helps(SETTINGS, None)
    assert halving_helps(SETTINGS, 199), "a pass of shorter calls may be larger"
    assert not halving_helps(SETTINGS, 200)
    assert not halving_helps(replace(SETTINGS, micro_tokens=1), None)
    assert "learner.gpus" in further_remedies(SETTINGS)
    assert "learner.gpus" not in further_remedies(replace(SETTINGS, lora_rank=8))


@pytest.mark.long
@pytest.mark.nightly
async def test_a_learner_that_the_kernel_gives_no_memory_ends_the_run_with_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tensor of logits alone, 2,000 x 100,000 numbers of 4 bytes, is larger than the 400 MiB that are left."""
    wide = write_llama(tmp_path / "model", vocab=100_000, width=16, layers=1)
    call = TrainedCall((5,) * 100, (7,) * 1900, (-6.0,) * 1900, (0,) * 1900)
    rollouts = tuple(TrainedRollout(lease, 1.0 if lease % 2 else -0.5, 0.0, (call,)) for lease in range(2))
    path = group_path(tmp_path / "groups", 1)
    write_group(path, Group(1, 0, "grpo", 0.0, 0, rollouts))

    def command(_module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tests.doubles.bounded_data", str(400 * 2**20), *arguments]

    monkeypatch.setattr(client, "python_module", command)
    settings = replace(SETTINGS, micro_tokens=2000, head_chunk=0)
    async with ProcessLearner(wide, tmp_path / "out", settings) as bounded:
        with pytest.raises(GaveUp, match=r"a call of 2000 tokens is a pass of its own .*gradient_checkpointing=true"):
            await bounded.train(path)
