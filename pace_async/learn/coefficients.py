"""The gradient of our loss with respect to the logprob of each token, from logprobs alone.

For a trainer that computes gradients of weighted logprobs elsewhere. The loss is the one that `trainer` has TRL compute
from the same weights: the clipped surrogate over per-token ratios, with the correction's weight in the advantage,
divided by the valid tokens of the whole group. With r the ratio to the policy that sampled, w the weight, A the
advantage and N the number of valid tokens (1 with loss_type sum), the coefficient of a token is

    -dL/dlogprob = w A / N       if the correction's ratio is against the policy at the start of the step: it is 1
                   r w A / N     if it is against the policy that sampled, and 0 where the clip acts

Invariant: one step on the sum of coefficient times logprob has the gradient of our loss at the current policy. No token
without a coefficient is in it, so a broken or masked token has the coefficient 0.
Not here: the KL penalty, which needs logprobs of version 0. Numpy only.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pace_async.learn.batch import Row, rows_of
from pace_async.learn.correction import weigh
from pace_async.learn.ratios import TokenFacts, off_policy_metrics
from pace_async.learn.settings import TrainerConfig
from pace_async.registry.corrections import CORRECTIONS
from pace_async.replay.group import Group

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GroupCoefficients:
    """`calls` has a coefficient for each answer token of each call, in the order of the group's rollouts and calls.
    `loss` is that of the current policy. `metrics` are those of `ratios.off_policy_metrics` without the entropy, which
    logprobs of the sampled tokens do not give, and `broken_tokens`. `reason` says why no step can be taken,
    "" if one can."""

    calls: tuple[Floats, ...]
    loss: float
    metrics: Mapping[str, float]
    reason: str


def coefficients(group: Group, logprobs: Sequence[Sequence[float]], settings: TrainerConfig) -> GroupCoefficients:
    """The coefficients of a group. `logprobs` are those of the current policy, in nats, for each answer token of each
    call, in the order of the group's rollouts and calls. Raises ValueError if their number is not that of the
    tokens."""
    lengths = [len(call.completion_ids) for rollout in group.rollouts for call in rollout.calls]
    if [len(values) for values in logprobs] != lengths:
        raise ValueError(f"{[len(values) for values in logprobs]} logprobs for answers of {lengths} tokens")
    kind = CORRECTIONS[settings.correction.kind]
    answers = _answers(rows_of(group), logprobs, group.update)
    log_ratio_BT = np.where(answers.valid_BT, answers.logprobs_BT - answers.sampled_BT, 0.0)
    weighed = weigh(log_ratio_BT, answers.valid_BT, answers.ages_BT, settings.correction)
    weighted_BT = answers.advantages_BT * weighed.weights_BT
    ratio_BT = np.ones_like(log_ratio_BT)
    if kind.ratio_to_sampler:
        ratio_BT = np.exp(np.where(answers.valid_BT & ~weighed.broken_BT, log_ratio_BT, 0.0))
    clipped_BT = np.clip(ratio_BT, 1 - settings.clip_low, 1 + settings.clip_high)
    acts_BT = clipped_BT * weighted_BT < ratio_BT * weighted_BT
    divisor = settings.divisor(group.tokens)
    slope_BT = np.where(acts_BT, 0.0, ratio_BT * weighted_BT) / divisor
    loss = -float(np.minimum(ratio_BT * weighted_BT, clipped_BT * weighted_BT).sum()) / divisor
    facts = TokenFacts(
        logprobs_N=answers.logprobs_BT[answers.valid_BT],
        sampled_N=answers.sampled_BT[answers.valid_BT],
        entropies_N=np.zeros(group.tokens),
        advantages_N=answers.advantages_BT[answers.valid_BT],
        weights_N=weighed.weights_BT[answers.valid_BT],
        truncated_N=weighed.truncated_BT[answers.valid_BT],
        ages_N=answers.ages_BT[answers.valid_BT],
        rollouts_N=answers.rollouts_BT[answers.valid_BT],
    )
    metrics = off_policy_metrics(facts, settings.clip_low, settings.clip_high, clips=kind.ratio_to_sampler)
    del metrics["entropy"]
    metrics["broken_tokens"] = float(weighed.broken_BT.sum())
    return GroupCoefficients(
        tuple(row_T[:length] for row_T, length in zip(slope_BT, lengths, strict=True)),
        loss,
        metrics,
        _why_no_step(group, loss, metrics, slope_BT),
    )


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of a group's calls, one call per row, padded on the right."""

    valid_BT: npt.NDArray[np.bool_]
    logprobs_BT: Floats
    sampled_BT: Floats
    advantages_BT: Floats
    ages_BT: npt.NDArray[np.int64]
    rollouts_BT: npt.NDArray[np.int64]


def _answers(rows: Sequence[Row], logprobs: Sequence[Sequence[float]], update: int) -> _Answers:
    shape = len(rows), max(len(values) for values in logprobs)
    answers = _Answers(
        valid_BT=np.zeros(shape, np.bool_),
        logprobs_BT=np.zeros(shape),
        sampled_BT=np.zeros(shape),
        advantages_BT=np.zeros(shape),
        ages_BT=np.zeros(shape, np.int64),
        rollouts_BT=np.zeros(shape, np.int64),
    )
    for place, (row, values) in enumerate(zip(rows, logprobs, strict=True)):
        answer = place, slice(0, len(values))
        answers.valid_BT[answer] = True
        answers.logprobs_BT[answer] = values
        answers.sampled_BT[answer] = row.call.logprobs
        answers.advantages_BT[answer] = row.advantage
        answers.ages_BT[answer] = update - np.array(row.call.versions)
        answers.rollouts_BT[answer] = row.rollout
    return answers


def _why_no_step(group: Group, loss: float, metrics: Mapping[str, float], slope_BT: Floats) -> str:
    """As `trainer.GroupTrainer.step` says it, "" if a step can be taken."""
    if all(rollout.advantage == 0 for rollout in group.rollouts):
        return "every advantage is 0"
    if not math.isfinite(loss):
        return "the loss is not finite"
    if metrics["masked_fraction"] == 1.0:
        return "no token is left after the correction"
    return "" if slope_BT.any() else "the gradient is 0"
