"""A trainer is freed before the next one is loaded, and no gradient is copied to compare it."""

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from pace_async.learn import lineage, replayed
from pace_async.learn.lineage import Lineage
from pace_async.learn.replayed import repeats
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import load_trainer
from tests.support.families import VOCAB, write_model
from tests.support.learn_toys import written_groups


@pytest.mark.long
@pytest.mark.parametrize("rank", [None, 4], ids=["whole", "adapters"])
def test_the_old_models_are_gone_when_the_next_are_loaded(
    rank: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_model(tmp_path / "model", "llama")
    paths = written_groups(tmp_path, 2, vocab=VOCAB)
    made = Lineage(model, tmp_path / "out", TrainerConfig(learning_rate=1e-4, lora_rank=rank, kl_penalty=0.1))
    made.start([])
    made.train(paths[0])
    held: list[weakref.ref[Any]] = [weakref.ref(made.trainer.policy), weakref.ref(made.trainer.reference)]
    assert all(one() is not None for one in held)
    alive: list[bool] = []
    loads = lineage.load_trainer

    def load(*given: Any, **named: Any) -> Any:
        alive.extend(one() is not None for one in held)
        return loads(*given, **named)

    monkeypatch.setattr(lineage, "load_trainer", load)
    gc.disable()  # the collector may run at any time, and here it must be asked
    try:
        made.start([paths[0]])
    finally:
        gc.enable()
    assert alive == [False, False]


def test_a_gradient_is_compared_without_a_copy_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = load_trainer(write_model(tmp_path / "model", "llama"), TrainerConfig(), tmp_path)
    accumulate, free = trainer.accumulate, list[bool]()

    def noted(group: Any) -> dict[str, float]:
        free.append(all(weight.grad is None for weight in trainer.policy.parameters()))
        return accumulate(group)

    monkeypatch.setattr(trainer, "accumulate", noted)
    assert repeats(trainer)
    assert free == [True, True]
    digests: Any = vars(replayed)["_gradient_digests"]
    group: Any = vars(replayed)["_fixed_group"](trainer)
    first = digests(trainer, group)
    assert len(first) == len(list(trainer.policy.parameters()))
    with torch.no_grad():
        next(trainer.policy.parameters()).reshape(-1)[3] += 1e-3
    assert digests(trainer, group) != first


def test_a_digest_notices_each_changed_bit_and_numbers_that_exchange_places() -> None:
    digest: Any = vars(replayed)["_digest"]
    numbers = torch.linspace(-1.0, 1.0, 101)
    for place in range(101):
        changed = numbers.clone()
        changed.view(torch.int32)[place] ^= 1 << place % 32
        assert digest(changed) != digest(numbers)
    assert digest(numbers.flip(0)) != digest(numbers)
    assert digest(numbers.clone()) == digest(numbers)
