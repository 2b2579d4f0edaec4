"""LoRA adapters are trained in place of all weights, by TRL's own support for them: a version is an adapter, and is
rebuilt to the last bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.learn.lineage import Lineage
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.store import optimizer_state
from pace_async.runtime.children.engines import adapter_slots
from pace_async.weights import checkpoint_digests, is_complete
from tests.support.learn_toys import written_groups
from tests.support.simulated_runs import settings as run_settings

SETTINGS = TrainerConfig(learning_rate=1e-2, micro_tokens=200, lora_rank=4, checkpoint_every=2)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written_groups(tmp_path_factory.mktemp("groups"), 3)


@pytest.fixture(scope="module")
def trained(toy: Path, groups: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Lineage:
    lineage = Lineage(toy, tmp_path_factory.mktemp("out"), SETTINGS)
    lineage.start(())
    for path in groups:
        assert lineage.train(path).reason == ""
    return lineage


def test_a_version_is_an_adapter_that_gives_the_learners_logprobs_on_the_base_as_given(
    trained: Lineage, toy: Path
) -> None:
    folder = trained._store.weights(3)
    assert is_complete(folder)
    assert {file.name for file in folder.glob("*.safetensors")} == {"adapter_model.safetensors"}
    assert {name.split(".")[-2] for name in checkpoint_digests(folder)} == {"lora_A", "lora_B"}
    base = AutoModelForCausalLM.from_pretrained(toy)
    for name, weight in base.named_parameters():
        kept = [own for other, own in trained.trainer.policy.named_parameters() if _plain(other) == name]
        assert len(kept) == 1
        assert torch.equal(kept[0], weight)
    prompt, answer = [3, 4, 5], [6, 7, 8, 9]
    with torch.no_grad():
        before = _logprobs(base, prompt, answer)
        after = _logprobs(PeftModel.from_pretrained(base, folder), prompt, answer)
    assert trained.trainer.logprobs(prompt, answer) == pytest.approx(after, abs=1e-5)
    assert max(abs(one - other) for one, other in zip(before, after, strict=True)) > 1e-3


def test_a_learner_that_died_rebuilds_its_adapters_to_the_last_bit(
    trained: Lineage, toy: Path, groups: list[Path], tmp_path: Path
) -> None:
    whole, resumed = Lineage(toy, tmp_path, SETTINGS), Lineage(toy, trained._out, SETTINGS)
    whole.start(groups)
    resumed.start(groups)
    for lineage in (whole, resumed):
        for name, weight in lineage.trainer.policy.named_parameters():
            assert torch.equal(weight, trained.trainer.policy.get_parameter(name)), name
        states, expected = optimizer_state(lineage.trainer), optimizer_state(trained.trainer)
        assert states.keys() == expected.keys()
        assert all(torch.equal(states[name], expected[name]) for name in states)


def test_a_server_holds_the_adapters_of_all_versions_that_may_be_asked_at_once() -> None:
    for bound in (0, 1, 2, 5):
        config = run_settings(learner__lora_rank=8, advisor__engine="vllm", staleness__max_staleness=bound)
        slots = adapter_slots(config)
        assert slots is not None
        assert (slots.rank, slots.count) == (8, bound + 2)
    assert slots.arguments()[-2:] == ["--max-lora-rank", "8"]
    assert adapter_slots(run_settings(advisor__engine="vllm")) is None


@pytest.mark.parametrize("engine", ["embedded", "http://127.0.0.1:9"])
def test_adapters_are_refused_where_no_vllm_of_the_runs_own_serves_them(engine: str) -> None:
    with pytest.raises(UsageError, match=r"learner\.lora_rank needs advisor\.engine vllm"):
        resolve(None, {"learner.lora_rank": 8, "advisor.engine": engine}, environment={})


def _plain(name: str) -> str:
    return name.removeprefix("base_model.model.").replace(".base_layer", "")


def _logprobs(model: torch.nn.Module, prompt: list[int], answer: list[int]) -> list[float]:
    logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    chosen: Any = torch.log_softmax(logits, -1).gather(1, torch.tensor(answer)[:, None])[:, 0]
    return chosen.tolist()
