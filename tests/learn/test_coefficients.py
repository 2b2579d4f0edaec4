"""The coefficients that are computed from logprobs alone, against the gradients of the loss that TRL computes."""

from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pace_async.learn.batch import MicroBatch
from pace_async.learn.coefficients import GroupCoefficients, coefficients
from pace_async.learn.correction import Correction
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.trainer import GroupTrainer, load_trainer
from pace_async.objectives import Collapsed, advantages
from pace_async.registry.corrections import CORRECTIONS
from pace_async.registry.objectives import OBJECTIVES
from pace_async.replay.group import Group
from scripts.benchmarks.toys import write_llama
from tests.support.learn_toys import VOCAB, gradient_of, random_group

REWARDS = [0.1, 4.0, -1.0, 2.5, 2.5, 3.1, -1.0, 4.9]
TRAINING = [name for name, objective in OBJECTIVES.items() if objective.trains]
Key = tuple[int, ...]


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> GroupTrainer:
    folder = tmp_path_factory.mktemp("toy")
    toy = write_llama(folder / "model", vocab=VOCAB, width=16, layers=1)
    return load_trainer(toy, TrainerConfig(micro_tokens=100), folder / "out")


def group_with(objective: str, *, broken: bool = True) -> Group:
    """Old and new tokens, the first of which is broken, with the advantages of an objective."""
    group = random_group(seed=3, update=2, max_age=2)
    given = advantages(objective, REWARDS, k=4, alpha=0.4)
    assert not isinstance(given, Collapsed)
    rollouts = [replace(rollout, advantage=given[place]) for place, rollout in enumerate(group.rollouts)]
    if broken:
        first, *others = rollouts[0].calls
        far = replace(first, logprobs=(-60.0, *first.logprobs[1:]))
        rollouts[0] = replace(rollouts[0], calls=(far, *others))
    return replace(group, rollouts=tuple(rollouts))


def logprobs_of(trainer: GroupTrainer, group: Group) -> list[list[float]]:
    calls = [call for rollout in group.rollouts for call in rollout.calls]
    return [trainer.logprobs(list(call.prompt_ids), list(call.completion_ids)) for call in calls]


def ours(trainer: GroupTrainer, group: Group, settings: TrainerConfig) -> GroupCoefficients:
    return coefficients(group, logprobs_of(trainer, group), settings)


def of_trl(trainer: GroupTrainer, group: Group) -> tuple[list[npt.NDArray[np.float64]], dict[str, float]]:
    """Minus the gradient of TRL's loss with respect to each token's logprob, in the order of the group's calls, and the
    loss with its metrics. The weights' gradients are left where they are."""
    passes: list[tuple[MicroBatch, torch.Tensor]] = []
    scored = trainer._get_per_token_logps_and_entropies

    def kept(*args: Any, **kwargs: Any) -> Any:
        computed = scored(*args, **kwargs)
        computed[0].retain_grad()
        assert trainer._batch is not None
        passes.append((trainer._batch, computed[0]))
        return computed

    try:
        cast("Any", trainer)._get_per_token_logps_and_entropies = kept
        metrics = trainer.accumulate(group)
    finally:
        del cast("Any", trainer)._get_per_token_logps_and_entropies
    by_call: dict[Key, npt.NDArray[np.float64]] = {}
    for batch, logprobs_BT in passes:
        grad = logprobs_BT.grad
        assert grad is not None
        for row, answer in enumerate(batch.answer_BT.astype(bool)):
            attended = batch.attended_BT[row].astype(bool)
            key = (*batch.prompt_ids_BP[row].tolist(), *batch.rest_ids_BT[row][attended].tolist())
            by_call[key] = -grad[row].double().numpy()[answer]
    calls = [call for rollout in group.rollouts for call in rollout.calls]
    return [by_call[(*call.prompt_ids, *call.completion_ids)] for call in calls], metrics


def linear_gradient(trainer: GroupTrainer, group: Group, found: GroupCoefficients) -> list[torch.Tensor]:
    """The gradient of minus the sum of coefficient times logprob."""
    trainer.policy.zero_grad()
    calls = [call for rollout in group.rollouts for call in rollout.calls]
    total = torch.zeros(())
    for call, slope in zip(calls, found.calls, strict=True):
        ids = torch.tensor([[*call.prompt_ids, *call.completion_ids]])
        logits = cast("Any", trainer.policy)(ids).logits[0, len(call.prompt_ids) - 1 : -1]
        logprobs = logits.log_softmax(-1)[range(len(slope)), call.completion_ids]
        total = total - (torch.tensor(slope, dtype=torch.float32) * logprobs).sum()
    total.backward()
    return [gradient_of(weight).clone() for weight in trainer.policy.parameters()]


@pytest.mark.parametrize(
    ("correction", "objective", "loss_type"),
    [
        *((correction, "grpo", "dapo") for correction in CORRECTIONS),
        *(("decoupled", objective, "dapo") for objective in TRAINING if objective != "grpo"),  # other advantages
        ("decoupled", "entropic", "sum"),
        ("behaviour", "grpo", "sum"),
    ],
)
def test_each_token_has_the_coefficient_and_the_weights_the_gradient_of_the_loss_that_trl_computes(
    correction: str, objective: str, loss_type: Literal["dapo", "sum"], trainer: GroupTrainer
) -> None:
    rule = Correction(correction)
    settings = replace(trainer.settings, correction=rule, loss_type=loss_type)
    trainer.settings = settings
    group = group_with(objective)
    found = ours(trainer, group, settings)
    wanted, metrics = of_trl(trainer, group)
    largest = max(np.abs(values).max() for values in wanted)
    for slope, expected in zip(found.calls, wanted, strict=True):
        assert slope == pytest.approx(expected, rel=1e-6, abs=1e-6 * largest)
    gradients = [gradient_of(weight).clone() for weight in trainer.policy.parameters()]
    scale = max(float(gradient.abs().max()) for gradient in gradients)
    assert scale > 0
    for got, expected in zip(linear_gradient(trainer, group, found), gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5 * scale)
    assert found.loss == pytest.approx(metrics["loss"], rel=1e-5, abs=1e-6)
    assert found.reason == ""
    assert found.metrics["broken_tokens"] == 1.0
    for name, value in found.metrics.items():
        assert value == pytest.approx(metrics[name], rel=1e-3, abs=1e-5, nan_ok=True), name
    assert set(metrics) - set(found.metrics) == {"loss", "entropy"}


def test_a_group_that_can_teach_nothing_says_why() -> None:
    settings, group = TrainerConfig(), random_group(seed=1)
    sampled = [call.logprobs for rollout in group.rollouts for call in rollout.calls]
    flat = replace(group, rollouts=tuple(replace(rollout, advantage=0.0) for rollout in group.rollouts))
    assert coefficients(flat, sampled, settings).reason == "every advantage is 0"
    far = [[value - 50.0 for value in values] for values in sampled]
    assert coefficients(group, far, settings).reason == "no token is left after the correction"
    assert coefficients(group, sampled, settings).reason == ""
    with pytest.raises(ValueError, match="logprobs for answers of"):
        coefficients(group, sampled[1:], settings)
