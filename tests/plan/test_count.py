"""The count of a training step, against the storages of the learner's own step."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from transformers import AutoConfig

from pace_async.errors import UsageError
from pace_async.learn.movement import MovementLimits
from pace_async.learn.passes import layers
from pace_async.learn.replayed import repeats
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import load_trainer
from pace_async.plan.count import _phase_bytes, count
from pace_async.plan.counted import count_step
from pace_async.plan.drawn_out import COUNTED, LONG, LONGER, FewLayers, Layers, PhaseBytes, drawn_out
from pace_async.plan.live import LiveBytes
from pace_async.plan.step import StepShape
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from scripts.benchmarks.toys import write_llama

pytestmark = pytest.mark.timeout(600)  # a child process imports torch, which takes minutes beside heavy load

QWEN = Path(__file__).parents[2] / "scripts" / "documentation" / "shapes" / "models" / "qwen3.5-4b"
VOCAB, PROMPT, ANSWER = 500, 90, 38
CALLS = 4


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=VOCAB, width=64, layers=4)


def group() -> Group:
    call = TrainedCall(tuple([5] * PROMPT), tuple([7] * ANSWER), tuple([-6.0] * ANSWER), tuple([0] * ANSWER))
    rollouts = [TrainedRollout(lease, 1.0 if lease % 2 else -0.5, 0.0, (call,)) for lease in range(CALLS)]
    return Group(1, 0, "grpo", 0.0, 0, tuple(rollouts))


@pytest.mark.long
@pytest.mark.parametrize(
    ("checkpointing", "lora_rank", "precision", "kl_penalty"),
    [(False, None, "fp32", 0.0), (True, None, "bf16", 0.1), (True, 4, "fp32", 0.1)],
)
def test_a_step_of_the_learner_takes_what_was_counted(
    toy: Path, tmp_path: Path, checkpointing: bool, lora_rank: int | None, precision: str, kl_penalty: float
) -> None:
    """Weights and moments are there before the learner's second step, which takes the rest."""
    tokens = PROMPT + ANSWER
    settings = TrainerConfig(learning_rate=1e-3, micro_tokens=tokens, lora_rank=lora_rank, kl_penalty=kl_penalty)
    settings = replace(settings, gradient_checkpointing=checkpointing, precision=precision)
    trainer = load_trainer(toy, settings, tmp_path, toy)
    assert trainer.step(group()).reason == ""
    moments = [value for state in trainer.adamw.state.values() for value in state.values()]
    reference = list(trainer.reference.parameters()) if trainer.reference is not None else []
    with LiveBytes([*trainer.policy.parameters(), *moments, *reference]) as live:
        assert trainer.step(group()).reason == ""
    shape = StepShape(str(toy), 1, tokens, ANSWER, settings.precision, checkpointing, lora_rank, kl_penalty > 0)
    step = count(shape)
    assert step.gradient + step.passes == pytest.approx(live.peak, rel=0.1)
    weights = sum(weight.numel() * weight.element_size() for weight in trainer.policy.parameters())
    assert step.weights == pytest.approx(weights, rel=0.01)
    trained = [weight for weight in trainer.policy.parameters() if weight.requires_grad]
    assert step.trained == sum(weight.numel() for weight in trained)
    assert step.gradient == 4 * step.trained
    assert step.moments == pytest.approx(8 * step.trained, rel=0.01)
    assert (step.reference > 0) is (kl_penalty > 0)
    held = [sum(weight.numel() for weight in layer.parameters()) for layer in layers(trainer.policy)]
    assert len(held) == trainer.policy.config.num_hidden_layers
    assert (step.layer, step.root + sum(held)) == (max(held), step.parameters)


@pytest.mark.long
@pytest.mark.parametrize("checkpointing", [False, True])
def test_calls_in_one_row_take_no_more_than_was_counted_for_as_many_rows(
    toy: Path, tmp_path: Path, checkpointing: bool
) -> None:
    tokens = PROMPT + ANSWER
    settings = TrainerConfig(learning_rate=1e-3, micro_tokens=CALLS * tokens, gradient_checkpointing=checkpointing)
    trainer = load_trainer(toy, replace(settings, packing="auto"), tmp_path, toy)
    assert trainer.packs
    assert trainer.step(group()).reason == ""
    moments = [value for state in trainer.adamw.state.values() for value in state.values()]
    with LiveBytes([*trainer.policy.parameters(), *moments]) as live:
        assert trainer.step(group()).reason == ""
    step = count(StepShape(str(toy), CALLS, tokens, ANSWER, "fp32", checkpointing))
    assert 0.8 < live.peak / (step.gradient + step.passes) < 1.02


@pytest.mark.long
@pytest.mark.nightly
def test_neither_passes_that_measure_noise_nor_a_gradient_that_is_repeated_take_more_than_a_step_of_long_answers(
    tmp_path: Path,
) -> None:
    prompt, answer = 64, 8192
    toy = write_llama(tmp_path / "model", vocab=500, width=32, layers=1, context=prompt + answer)
    call = TrainedCall(tuple([5] * prompt), tuple([7] * answer), tuple([-6.0] * answer), tuple([0] * answer))
    long = Group(1, 0, "grpo", 0.0, 0, (TrainedRollout(1, 1.0, 0.0, (call,)),))
    settings = TrainerConfig(learning_rate=1e-3, micro_tokens=prompt + answer, precision="bf16")
    settings = replace(settings, gradient_checkpointing=True, limits=MovementLimits(k3=1e-9))
    trainer = load_trainer(toy, settings, tmp_path, toy)
    trainer.step(long)
    moments = [value for state in trainer.adamw.state.values() for value in state.values()]
    with LiveBytes([*trainer.policy.parameters(), *moments]) as stepped:
        assert trainer.step(long).metrics["noise_k3"] > 0
    with LiveBytes([*trainer.policy.parameters(), *moments]) as repeated:
        assert repeats(trainer)
    step = count(StepShape(str(toy), 1, prompt + answer, answer, "bf16", True))
    on_host = step.weights + step.moments  # from before the step, which the plan counts there
    assert 0.8 < stepped.peak / (step.gradient + step.passes + on_host) < 1.02
    assert repeated.peak < step.gradient + step.passes


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("lora_rank", [None, 4])
@pytest.mark.parametrize("head_chunk", [None, 10])
def test_a_step_whose_largest_part_is_the_logits_takes_what_was_counted(
    tmp_path: Path, head_chunk: int | None, lora_rank: int | None
) -> None:
    """A copy of the answers' logits more or less would be a quarter."""
    wide = write_llama(tmp_path / "model", vocab=8192, width=32, layers=1)
    tokens = PROMPT + ANSWER
    settings = TrainerConfig(learning_rate=1e-3, micro_tokens=tokens, lora_rank=lora_rank, gradient_checkpointing=True)
    settings = replace(settings, head_chunk=head_chunk)
    trainer = load_trainer(wide, settings, tmp_path, wide)
    assert trainer.step(group()).reason == ""
    moments = [value for state in trainer.adamw.state.values() for value in state.values()]
    with LiveBytes([*trainer.policy.parameters(), *moments]) as live:
        assert trainer.step(group()).reason == ""
    shape = StepShape(str(wide), 1, tokens, ANSWER, "fp32", True, lora_rank, head_chunk=head_chunk)
    step = count(shape)
    assert step.gradient + step.passes == pytest.approx(live.peak, rel=0.03)
    if head_chunk is not None and lora_rank is not None:  # else the gradient of the head is as large as its logits
        logits = 4 * 8192 * ANSWER
        assert step.passes < count(replace(shape, head_chunk=0)).passes - 2 * logits


@pytest.mark.long
def test_what_saves_memory_is_seen(toy: Path) -> None:
    usual = StepShape(str(toy), 1, 512, 100)
    passes = count(usual).passes
    assert count(replace(usual, gradient_checkpointing=True)).passes < 0.5 * passes
    assert count(replace(usual, precision="bf16")).passes < 0.8 * passes
    masked = count(replace(usual, rows=2)).passes  # rows of several lengths have a mask
    assert 2 * passes < masked < 3 * passes


def test_nothing_is_kept_of_storages_that_are_gone() -> None:
    import torch

    with LiveBytes() as live:
        held = torch.zeros(1000)
        view = held[10:]
        assert live.now == 4000
        del held
        assert live.now == 4000, "a view keeps its storage"
        del view
        assert (live.now, live.peak) == (0, 4000)


@pytest.mark.long
@pytest.mark.parametrize(
    ("head_chunk", "checkpointing", "answers"),
    [(None, False, 700), (100, True, 64)],
)
@pytest.mark.nightly
def test_a_long_step_of_a_deep_model_is_drawn_out_from_short_ones(
    tmp_path: Path, checkpointing: bool, answers: int, head_chunk: int | None
) -> None:
    deep = write_llama(tmp_path / "model", vocab=4000, width=256, layers=10)
    shape = StepShape(str(deep), 1, 1024, answers, "bf16", gradient_checkpointing=checkpointing, lora_rank=4)
    shape = replace(shape, head_chunk=head_chunk)
    config = cast("Any", AutoConfig).from_pretrained(deep)
    assert config.num_hidden_layers * shape.tokens > COUNTED
    drawn, whole = count(shape), _phase_bytes(config, replace(shape, head_chunk=head_chunk or 0)).bytes()
    assert drawn.passes == pytest.approx(whole.passes, rel=0.01)
    assert replace(drawn, peak=0) == replace(whole, peak=0)


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize(("checkpointing", "answers"), [(False, 700), (True, 64)])
def test_a_long_step_of_all_weights_is_drawn_out_too(tmp_path: Path, checkpointing: bool, answers: int) -> None:
    deep = write_llama(tmp_path / "model", vocab=4000, width=256, layers=10)
    shape = StepShape(str(deep), 1, 1024, answers, "bf16", gradient_checkpointing=checkpointing)
    config = cast("Any", AutoConfig).from_pretrained(deep)
    assert config.num_hidden_layers * shape.tokens > COUNTED
    drawn, whole = count(shape), _phase_bytes(config, shape).bytes()
    assert 0.99 * whole.passes <= drawn.passes <= 1.05 * whole.passes
    assert replace(drawn, peak=0) == replace(whole, peak=0)


@pytest.mark.long
@pytest.mark.nightly
def test_layers_of_two_kinds_are_drawn_out_each_as_its_own(tmp_path: Path) -> None:
    from tests.support.chat_models import qwen3_5

    config = qwen3_5(0).config
    config.layer_types = ["linear_attention", "full_attention"] * 4
    config.num_hidden_layers = 8
    config.save_pretrained(tmp_path)
    shape = StepShape(str(tmp_path), 1, 1536, 700, "bf16", gradient_checkpointing=True)
    drawn, whole = count(shape), _phase_bytes(config, shape).bytes()
    assert 0.99 * whole.passes <= drawn.passes <= 1.1 * whole.passes
    assert replace(drawn, peak=0) == replace(whole, peak=0)


@pytest.mark.long
@pytest.mark.nightly
def test_a_long_pass_of_several_calls_is_drawn_out_with_its_masks(tmp_path: Path) -> None:
    from tests.support.chat_models import qwen3_5

    config = qwen3_5(0).config
    config.layer_types = ["linear_attention", "full_attention"] * 4
    config.num_hidden_layers = 8
    config.save_pretrained(tmp_path)
    shape = StepShape(str(tmp_path), 3, 1088, 200, "bf16", gradient_checkpointing=True, lora_rank=4)
    drawn, whole = count(shape), _phase_bytes(config, replace(shape, head_chunk=0)).bytes()
    assert 0.99 * whole.passes <= drawn.passes <= 1.2 * whole.passes, "masks bend the phases of so narrow a model"
    assert replace(drawn, peak=0) == replace(whole, peak=0)


def test_however_long_a_call_is_only_short_ones_are_taken(toy: Path) -> None:
    taken: list[tuple[int, int]] = []

    def size(kinds: Layers, shape: StepShape) -> PhaseBytes:
        layers = len(kinds)
        taken.append((layers, shape.tokens))
        stored = 10 + 5 * layers * shape.tokens * shape.rows + (shape.rows - 1) * layers * shape.tokens**2
        head = stored + 900 * shape.answers * shape.rows
        return PhaseBytes(7 + layers, 0, 0, 0, 0, 0, stored, head, stored + 40 * shape.tokens, 0, 1, 7)

    long, few = StepShape(str(toy), 1, 262_144, 4096), FewLayers(("b", "a", "b"), {"a": 24, "b": 8})
    step = drawn_out(long, few, size)
    assert step.parameters == 39
    assert step.peak == 10 + 5 * 32 * 262_144 + 40 * 262_144
    assert max(taken) == (4, LONG)
    assert len(taken) == 9
    taken.clear()
    chunked = drawn_out(replace(long, head_chunk=512), few, size)
    assert (chunked, len(taken)) == (step, 10)
    taken.clear()
    several = drawn_out(replace(long, rows=2, answers=1), few, size)
    assert several.peak == 10 + 10 * 32 * 262_144 + 32 * 262_144**2 + 40 * 262_144
    assert (max(taken), len(taken)) == ((4, LONGER), 13)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("lora_rank", [None, 16])
def test_a_published_model_is_planned_from_few_of_its_layers(
    monkeypatch: pytest.MonkeyPatch, rows: int, lora_rank: int | None
) -> None:
    """A pass of all its layers goes over 72,000 tokens of layers at least, which takes minutes."""
    taken: list[int] = []

    def size(config: Any, shape: StepShape) -> PhaseBytes:
        kinds = config.get_text_config().layer_types
        taken.append(kinds.count("linear_attention") * shape.tokens)
        return PhaseBytes(len(kinds), 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1)

    monkeypatch.setattr("pace_async.plan.count._phase_bytes", size)
    step = count(StepShape(str(QWEN), rows, 16_256 if rows == 1 else 2256, 256, "bf16", True, lora_rank))
    assert step.parameters == 32, "layers"
    assert sum(taken) < 8000


@pytest.mark.long
@pytest.mark.nightly
def test_a_child_process_counts(toy: Path) -> None:
    shape = StepShape(str(toy), 1, 64, 10)
    assert count_step(shape) == count(shape)


@pytest.mark.usefixtures("children_here")
def test_a_model_that_cannot_be_built_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no_such_model"}')
    with pytest.raises(
        UsageError, match=r"config\.json: .*no_such_model.*transformers cannot build this model"
    ) as said:
        count_step(StepShape(str(tmp_path), 1, 64, 10))
    assert "\n" not in str(said.value)
