"""Several calls in one row: scores and gradients are those of the calls alone, or the learner does not pack."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OlmoeConfig,
    OlmoeForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from pace_async.learn.batch import micro_batches
from pace_async.learn.correction import Correction
from pace_async.learn.lineage import Lineage
from pace_async.learn.movement import MovementLimits
from pace_async.learn.packing import can_pack
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import GroupTrainer, load_trainer
from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import VOCAB, gradient_of, random_group, written_groups

SETTINGS = TrainerConfig(learning_rate=1e-3, micro_tokens=120, kl_penalty=0.1, temperature=0.7)
EPS = torch.finfo(torch.float32).eps
SMALL: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
LINEAR: dict[str, Any] = {
    "layer_types": ["linear_attention", "full_attention"],
    "head_dim": 8,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
}
FULL: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaForCausalLM(cast("Any", LlamaConfig)(**SMALL)),
    "qwen2": lambda: Qwen2ForCausalLM(cast("Any", Qwen2Config)(**SMALL)),
    "qwen3": lambda: Qwen3ForCausalLM(cast("Any", Qwen3Config)(**SMALL, head_dim=8)),
    "learned positions": lambda: GPT2LMHeadModel(cast("Any", GPT2Config)(**{**SMALL, "n_inner": 64})),
    "experts": lambda: OlmoeForCausalLM(cast("Any", OlmoeConfig)(**SMALL, num_experts=4, num_experts_per_tok=2)),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "linear attention": lambda: Qwen3_5ForCausalLM(cast("Any", Qwen3_5TextConfig)(**SMALL, **LINEAR)),
    "a window": lambda: MistralForCausalLM(cast("Any", MistralConfig)(**SMALL, sliding_window=16)),
    "a window in some layers": lambda: Gemma3ForCausalLM(cast("Any", Gemma3TextConfig)(**SMALL, head_dim=8)),
    "no attention": lambda: MambaForCausalLM(
        cast("Any", MambaConfig)(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=1)
    ),
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=VOCAB, width=32, layers=2)


def written(toy: Path, folder: Path, make: Callable[[], Any]) -> Path:
    """A model with random weights, and the tokenizer of `toy`."""
    cast("Any", torch).manual_seed(3)
    make().save_pretrained(folder)
    for file in toy.glob("tokenizer*"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def both(model: Path, out: Path, **kind: Any) -> list[GroupTrainer]:
    """A learner that pads and one that packs where it can."""
    rules = [replace(SETTINGS, **kind, packing=packing) for packing in ("off", "auto")]
    return [load_trainer(model, rule, out, model) for rule in rules]


def seen(trainer: GroupTrainer, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, float], dict[int, Any], Any]:
    """Metrics of a group's gradient, logprobs and entropies of each call's tokens, and the gradient."""
    group = random_group(seed=3, update=2, max_age=2)
    of_calls: dict[int, Any] = {}
    usual = trainer._get_per_token_logps_and_entropies

    def record(*arguments: Any, **named: Any) -> Any:
        computed = usual(*arguments, **named)
        batch: Any = trainer._batch
        for row, mask in enumerate(batch.answer_BT.astype(bool)):
            key = hash((batch.sampled_logprobs_BT[row][mask].tobytes(), int(batch.rollouts_B[row])))
            of_calls[key] = torch.stack([tensor[row, mask].detach() for tensor in computed[:2]])
        return computed

    monkeypatch.setattr(trainer, "_get_per_token_logps_and_entropies", record)
    metrics = trainer.accumulate(group)
    trained = [weight for weight in trainer.policy.parameters() if weight.requires_grad]
    return metrics, of_calls, torch.cat([gradient_of(weight).flatten() for weight in trained])


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        *((kind, {}) for kind in FULL),
        ("llama", {"head_chunk": 7}),
        ("llama", {"gradient_checkpointing": True}),
        ("qwen3", {"lora_rank": 2}),
        ("qwen3", {"lora_rank": 2, "head_chunk": 7, "gradient_checkpointing": True}),
        ("llama", {"correction": Correction("sequence")}),
        ("llama", {"correction": Correction("m2po")}),
        ("llama", {"micro_tokens": 1}),
        ("llama", {"micro_tokens": 10_000}),
    ],
)
def test_a_packed_pass_gives_the_scores_and_the_gradient_of_a_padded_one(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, more: dict[str, Any]
) -> None:
    padding, packing = both(written(toy, tmp_path / "model", FULL[kind]), tmp_path, **more)
    assert (padding.packs, packing.packs) == (False, True)
    padded, packed = seen(padding, monkeypatch), seen(packing, monkeypatch)
    assert padded[1].keys() == packed[1].keys()
    for call, expected in padded[1].items():
        torch.testing.assert_close(packed[1][call], expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(packed[2], padded[2], atol=1e-5, rtol=1e-5)
    assert packed[0] == pytest.approx(padded[0], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_model_with_anything_but_full_attention_is_padded(toy: Path, tmp_path: Path, kind: str) -> None:
    model = written(toy, tmp_path / "model", OTHERS[kind])
    assert not load_trainer(model, replace(SETTINGS, packing="auto"), tmp_path, model).packs


class Leaky(LlamaForCausalLM):
    """Every token also sees the mean of all tokens before it, which no configuration says."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.model.norm.register_forward_pre_hook(self._leak)

    @staticmethod
    def _leak(_module: Any, inputs: tuple[torch.Tensor]) -> torch.Tensor:
        (states_BLH,) = inputs
        counts_L1 = torch.arange(1, states_BLH.shape[1] + 1, device=states_BLH.device)[:, None]
        return states_BLH + 1e-3 * states_BLH.cumsum(1) / counts_L1


@pytest.mark.parametrize("eps", [torch.finfo(kind).eps for kind in (torch.float32, torch.bfloat16)], ids=str)
def test_a_model_that_carries_anything_into_the_next_call_is_padded_however_small_it_is(eps: float) -> None:
    leaky, sound = Leaky(cast("Any", LlamaConfig)(**SMALL)).eval(), FULL["llama"]().eval()
    text = torch.tensor([[(7 * at) % VOCAB for at in range(64)]])

    def run(model: Any, **inputs: Any) -> Any:
        return model(**inputs, use_cache=False)

    for models in ([leaky], [sound, leaky]):
        assert not can_pack(models, run, text, eps)
        assert {model.config._attn_implementation for model in models} == {"sdpa"}
    assert can_pack([sound, None], run, text, eps)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), budget=st.integers(1, 200), rollouts=st.integers(1, 9), ranks=st.integers(1, 3))
def test_packed_passes_hold_every_call_once_within_the_budget_and_no_two_could_be_one(
    seed: int, budget: int, rollouts: int, ranks: int
) -> None:
    group = random_group(vocab=50, seed=seed, rollouts=rollouts)
    cut = partial(micro_batches, group, budget, 0, packs=True, ranks=ranks)
    of_ranks = [cut(rank=rank) for rank in range(ranks)]
    assert len({len(batches) for batches in of_ranks}) == 1
    held = Counter(
        tuple(row[mask].tolist())
        for batches in of_ranks
        for batch in batches
        for row, mask in zip(batch.rest_ids_BT, batch.answer_BT.astype(bool), strict=True)
        if mask.any()
    )
    assert held == Counter(call.completion_ids for rollout in group.rollouts for call in rollout.calls)
    for batches in of_ranks:
        tokens = [sum(batch.lengths) for batch in batches if batch.answer_BT.any()]
        assert all(sum(batch.lengths) <= budget or len(batch.lengths) == 1 for batch in batches)
        assert all(one + other > budget for one, other in combinations(tokens, 2))


@pytest.mark.long
def test_training_packed_groups_again_gives_the_same_bits_and_a_padded_run_stays_padded(
    toy: Path, tmp_path: Path
) -> None:
    """Packing depends on the group alone."""
    digests: list[list[str]] = []
    groups = written_groups(tmp_path / "groups", 3)
    for name, rule in (("first", SETTINGS), ("again", SETTINGS), ("replayed", replace(SETTINGS, checkpoint_every=3))):
        lineage = Lineage(toy, tmp_path / name, replace(rule, packing="auto", limits=MovementLimits(k3=1e-4)))
        lineage.start([])
        for group in groups[: 2 if name == "replayed" else 3]:
            lineage.train(group)
        if name == "replayed":  # no checkpoint: the first two groups are trained again
            lineage = Lineage(toy, tmp_path / name, lineage.settings)
            lineage.start(groups[:2])
            lineage.train(groups[2])
        weights = lineage.trainer.policy.state_dict().values()
        digests.append([sha256(weight.numpy().tobytes()).hexdigest() for weight in weights])
    assert digests[0] == digests[1] == digests[2]
