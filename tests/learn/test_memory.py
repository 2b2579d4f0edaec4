"""A learner that runs out of memory tries smaller passes once. Then it says which setting would help."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pace_async.errors import GaveUp, InfrastructureFault
from pace_async.learn import client
from pace_async.learn.client import ChildLimits, ProcessLearner
from pace_async.learn.memory import OUT_OF_MEMORY, is_out_of_memory, remedy, said_briefly
from pace_async.learn.settings import TrainerConfig
from pace_async.weights import checkpoint_digests
from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import written_groups

VOCAB = 40
SETTINGS = TrainerConfig(learning_rate=1e-3, micro_tokens=200)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=VOCAB, width=16, layers=1)


def learner(toy: Path, out: Path, most: int, monkeypatch: pytest.MonkeyPatch, ranks: int = 1) -> ProcessLearner:
    def command(_module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tests.doubles.scarce_memory", str(most), *arguments]

    monkeypatch.setattr(client, "python_module", command)
    return ProcessLearner(toy, out, SETTINGS, limits=ChildLimits(cards=("",) * ranks if ranks > 1 else (None,)))


@pytest.mark.anyio
@pytest.mark.parametrize("ranks", [1, 2])
async def test_passes_of_half_the_size_train_the_group_once(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    [group] = written_groups(tmp_path / "groups", 1, vocab=VOCAB)
    async with learner(toy, tmp_path / "out", 100, monkeypatch, ranks) as scarce:
        with pytest.raises(InfrastructureFault, match=r"37.20 GiB.; it tries once more with learner.micro_tokens=100 "):
            await scarce.train(group)
        step = await scarce.train(group)
    assert (step.version, step.reason) == (1, "")
    assert step.weights is not None
    if ranks == 1:
        ample = replace(SETTINGS, micro_tokens=100)
        monkeypatch.undo()
        async with ProcessLearner(toy, tmp_path / "ample", ample) as other:
            beside = await other.train(group)
        assert beside.weights is not None
        assert checkpoint_digests(step.weights) == checkpoint_digests(beside.weights)


@pytest.mark.anyio
async def test_the_second_time_the_run_ends_and_names_one_setting(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [group] = written_groups(tmp_path / "groups", 1, vocab=VOCAB)
    async with learner(toy, tmp_path / "out", 5, monkeypatch) as scarce:
        with pytest.raises(InfrastructureFault) as first:
            await scarce.train(group)
        assert first.value.kind == OUT_OF_MEMORY
        with pytest.raises(GaveUp, match=r"micro_tokens=100.*--set learner.gradient_checkpointing=true"):
            await scarce.train(group)


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
