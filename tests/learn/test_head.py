"""The head in chunks: log-probabilities, entropies and gradients are those of the model's own head."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import peft
import pytest
import torch
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PhiConfig,
    PhiForCausalLM,
)

from pace_async.learn.head import LARGE, Answers, OwnHead, add_chunks, can_chunk, chunk_of, prepared, scores
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import GroupTrainer, load_trainer
from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import VOCAB, gradient_of, random_group

SETTINGS = TrainerConfig(learning_rate=1e-3, micro_tokens=120, kl_penalty=0.1, temperature=0.7)
SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "initializer_range": 0.5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
TEXT = torch.tensor([[(7 * at) % 97 for at in range(24)], [(5 * at + 3) % 97 for at in range(24)]])
ROWS, COLUMNS = torch.tensor([0] * 9 + [1] * 4), torch.tensor([*range(2, 11), *range(4)])


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def toy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy") / "model"
    return write_llama(folder, vocab=VOCAB, width=32, layers=2, tied=request.param)


def gradients(trainer: GroupTrainer) -> torch.Tensor:
    trained = [weight for weight in trainer.policy.parameters() if weight.requires_grad]
    return torch.cat([gradient_of(weight).flatten() for weight in trained])


def accumulated(toy: Path, out: Path, **settings: Any) -> tuple[dict[str, float], torch.Tensor, list[float]]:
    trainer = load_trainer(toy, replace(SETTINGS, **settings), out, toy)
    metrics = trainer.accumulate(random_group(seed=3))
    return metrics, gradients(trainer), trainer.logprobs([5, 6, 7], [8, 9, 10, 11])


@pytest.mark.long
@pytest.mark.parametrize("lora_rank", [None, 4])
@pytest.mark.parametrize(("precision", "cosine"), [("fp32", 1 - 1e-6), ("bf16", 0.9999)])
def test_a_group_gives_the_loss_and_the_gradient_that_the_whole_head_gives(
    toy: Path, tmp_path: Path, lora_rank: int | None, precision: str, cosine: float
) -> None:
    kind: dict[str, Any] = {"lora_rank": lora_rank, "precision": precision}
    whole = accumulated(toy, tmp_path, head_chunk=0, **kind)
    for head_chunk in (1, 7, 1000):
        chunks = accumulated(toy, tmp_path, head_chunk=head_chunk, **kind)
        assert chunks[0] == pytest.approx(whole[0], abs=1e-6), head_chunk
        assert chunks[2] == pytest.approx(whole[2], abs=1e-6), head_chunk
        assert float(torch.cosine_similarity(chunks[1].double(), whole[1].double(), dim=0)) > cosine, head_chunk
        if precision == "fp32":
            torch.testing.assert_close(chunks[1], whole[1], atol=1e-6, rtol=1e-4)


def test_few_logits_are_left_to_the_models_own_head_to_the_last_bit(toy: Path, tmp_path: Path) -> None:
    whole, usual = accumulated(toy, tmp_path, head_chunk=0), accumulated(toy, tmp_path)
    assert usual[0] == whole[0]
    assert torch.equal(usual[1], whole[1])


def forward(model: Any, **inputs: Any) -> Any:
    return model(**inputs, use_cache=False)


def both(model: Any, temperature: float = 0.7) -> list[tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]]:
    """Logprobs, entropies and gradients by the model's own head and in chunks."""
    results: list[tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]] = []
    for chunk in (0, 4):
        model.zero_grad()
        answers = Answers(ROWS, COLUMNS, 11, temperature, chunk)
        logprobs_N, entropies_N = scores(partial(forward, model), TEXT, None, answers)
        assert not entropies_N.requires_grad
        cast("Any", (logprobs_N * torch.linspace(-1, 2, len(ROWS))).sum()).backward()
        held = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
        results.append((logprobs_N.detach(), entropies_N, {name: grad.clone() for name, grad in held.items()}))
    return results


def made(kind: Any, config: Any, **more: Any) -> Any:
    cast("Any", torch).manual_seed(1)
    return kind(config(**{**SMALL, **more}))


MODELS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "plain": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": True}),
    "bias": (PhiForCausalLM, PhiConfig, {}),
    "softcapping": (Gemma2ForCausalLM, Gemma2Config, {"head_dim": 8, "final_logit_softcapping": 3.0}),
    "multiplied": (CohereForCausalLM, CohereConfig, {"logit_scale": 0.3}),
    "divided": (GraniteForCausalLM, GraniteConfig, {"logits_scaling": 4.0}),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_does_to_its_logits_is_done_in_chunks_too(name: str) -> None:
    kind, config, more = MODELS[name]
    model = made(kind, config, **more)
    if name == "bias":
        torch.nn.init.normal_(model.lm_head.bias)
    assert prepared([model], forward, TEXT[:1], torch.finfo(torch.float32).eps)
    whole, chunks = both(model)
    torch.testing.assert_close(chunks[0], whole[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(chunks[1], whole[1], atol=1e-5, rtol=1e-5)
    assert chunks[2].keys() == whole[2].keys()
    for weight, gradient in whole[2].items():
        torch.testing.assert_close(chunks[2][weight], gradient, atol=1e-5, rtol=1e-4, msg=weight)


def test_weights_that_are_frozen_get_no_gradient() -> None:
    model = made(LlamaForCausalLM, LlamaConfig, tie_word_embeddings=False)
    model.lm_head.requires_grad_(False)
    add_chunks(model)
    whole, chunks = both(model)
    assert "lm_head.weight" not in chunks[2]
    assert chunks[2].keys() == whole[2].keys()


def test_a_model_that_treats_its_logits_in_an_unknown_way_keeps_its_own_head() -> None:
    class Doubling(LlamaForCausalLM):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            output = cast("Any", super()).forward(*args, **kwargs)
            output.logits = output.logits * 2
            return output

    eps = torch.finfo(torch.bfloat16).eps
    assert prepared([made(LlamaForCausalLM, LlamaConfig), None], forward, TEXT[:1], eps)
    assert not prepared([made(Doubling, LlamaConfig)], forward, TEXT[:1], eps)


def test_a_head_with_adapters_is_not_cut() -> None:
    model = made(LlamaForCausalLM, LlamaConfig)
    on_layers = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules="all-linear")
    on_head = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["lm_head"])
    assert can_chunk(cast("Any", peft).get_peft_model(model, on_layers))
    model = made(LlamaForCausalLM, LlamaConfig)
    assert not can_chunk(cast("Any", peft).get_peft_model(model, on_head))


def test_in_float32_the_logits_of_passes_in_bfloat16_are_not_rounded() -> None:
    model = made(LlamaForCausalLM, LlamaConfig)
    add_chunks(model)
    kept = list[torch.Tensor]()

    def keep(_: object, given: tuple[torch.Tensor, ...]) -> None:
        kept.append(given[0])

    model.lm_head.register_forward_pre_hook(keep)
    found = dict[bool, torch.Tensor]()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        model(input_ids=TEXT)
        for float32 in (False, True):
            answers = Answers(ROWS, COLUMNS, 11, chunk=5, float32=float32)
            found[float32], _ = scores(partial(forward, model), TEXT, None, answers)
    states_NH = kept[0][ROWS, COLUMNS + TEXT.shape[1] - 12].bfloat16().double()
    logits_NV = states_NH @ model.lm_head.weight.detach().bfloat16().double().T
    targets_N = answers.targets(TEXT)
    exact_N = torch.log_softmax(logits_NV, -1).gather(-1, targets_N[:, None])[:, 0]
    assert float((found[True] - exact_N).abs().max()) < 1e-5
    assert float((found[False] - exact_N).abs().max()) > 1e-3


@pytest.mark.long
def test_in_float32_a_group_gives_what_the_models_own_head_gives(toy: Path, tmp_path: Path) -> None:
    own, float32 = accumulated(toy, tmp_path, head_chunk=0), accumulated(toy, tmp_path, float32_head=True)
    assert float32[0] == pytest.approx(own[0], abs=1e-6)
    torch.testing.assert_close(float32[1], own[1], atol=1e-6, rtol=1e-4)


def test_a_head_that_cannot_be_computed_apart_is_refused(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> bool:
        return False

    monkeypatch.setattr("pace_async.learn.trainer.prepared", never)
    with pytest.raises(OwnHead, match="float32_head is not for it"):
        accumulated(toy, tmp_path, float32_head=True)


def test_no_answer_gives_a_gradient_of_zeros() -> None:
    """Of several ranks one may have none, and has to pass back through all weights like the others."""
    model = made(LlamaForCausalLM, LlamaConfig)
    add_chunks(model)
    none = torch.zeros(0, dtype=torch.long)
    logprobs_N, entropies_N = scores(partial(forward, model), TEXT, None, Answers(none, none, 11, 1.0, 4))
    assert len(logprobs_N) == len(entropies_N) == 0
    cast("Any", logprobs_N.sum()).backward()
    assert all(not gradient_of(weight).any() for weight in model.parameters())


def test_by_default_only_large_heads_are_cut_and_what_is_set_holds() -> None:
    assert chunk_of(None, 512, LARGE // 512) == 0
    assert chunk_of(None, 513, LARGE // 512) == 512
    assert chunk_of(None, 4096, 151_936) == 384
    assert chunk_of(None, 4096, LARGE // 100) == 100
    assert chunk_of(None, 2, 2 * LARGE) == 1
    assert chunk_of(0, 10**6, 10**6) == 0
    assert chunk_of(7, 2, 10) == 7
    assert [chunk_of(setting, 3, 10, float32=True) for setting in (None, 0, 2)] == [3, 3, 2]
    assert chunk_of(None, 4096, 151_936, float32=True) == 384
