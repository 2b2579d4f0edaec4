"""What the forward passes of a step saw, micro-batch by micro-batch, and the facts of all its tokens.

The facts of a group come from all ranks, so every rank computes the same metrics and takes the same decisions.
Only imported in the learner's child process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pace_async.learn.batch import MicroBatch
from pace_async.learn.correction import TokenWeights
from pace_async.learn.ranks import Ranks
from pace_async.learn.ratios import TokenFacts

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """Results of one micro-batch's forward pass. `reference_BT` are the logprobs of version 0, or None. `arguments` are
    those of the pass, without the model."""

    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    logprobs_BT: torch.Tensor
    entropies_BT: torch.Tensor
    reference_BT: torch.Tensor | None
    weighed: TokenWeights


def array(tensor: torch.Tensor) -> Floats:
    return tensor.double().cpu().numpy()


def log_ratio(logprobs_BT: torch.Tensor, batch: MicroBatch) -> Floats:
    """Log-ratio of each token to the policy that sampled it, (B, T)."""
    return array(logprobs_BT) - batch.sampled_logprobs_BT.astype(np.float64)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """`facts` of the valid tokens of a whole group, the number of `broken` ones, and the logprobs of version 0 if it
    was asked."""

    facts: TokenFacts
    broken: float
    reference_N: Floats | None


def group_facts(batches: Sequence[MicroBatch], passes: Sequence[ForwardPass], ranks: Ranks) -> GroupFacts:
    """The facts of a group from this rank's micro-batches and those of the other ranks. Needs all ranks."""
    everyone = ranks.gathered(_own(batches, passes))
    references = [own.reference_N for own in everyone if own.reference_N is not None]
    merged = {
        column.name: np.concatenate([getattr(own.facts, column.name) for own in everyone])
        for column in fields(TokenFacts)
    }
    return GroupFacts(
        TokenFacts(**merged),
        sum(own.broken for own in everyone),
        np.concatenate(references) if references else None,
    )


def _own(batches: Sequence[MicroBatch], passes: Sequence[ForwardPass]) -> GroupFacts:
    masks = [batch.answer_BT.astype(bool) for batch in batches]

    def flat(arrays: Sequence[Any], dtype: Any) -> Any:
        return np.concatenate([values[mask] for values, mask in zip(arrays, masks, strict=True)]).astype(dtype)

    def numbers_of(tensors: Sequence[torch.Tensor]) -> Floats:
        return flat([array(tensor) for tensor in tensors], np.float64)

    facts = TokenFacts(
        logprobs_N=numbers_of([forward_pass.logprobs_BT for forward_pass in passes]),
        sampled_N=flat([batch.sampled_logprobs_BT for batch in batches], np.float64),
        entropies_N=numbers_of([forward_pass.entropies_BT for forward_pass in passes]),
        advantages_N=flat([batch.advantages_BT for batch in batches], np.float64),
        weights_N=flat([forward_pass.weighed.weights_BT for forward_pass in passes], np.float64),
        truncated_N=flat([forward_pass.weighed.truncated_BT for forward_pass in passes], np.bool_),
        ages_N=flat([batch.ages_BT for batch in batches], np.int64),
        rollouts_N=flat([batch.rollouts_B[:, None] + 0 * batch.ages_BT for batch in batches], np.int64),
    )
    references = [forward_pass.reference_BT for forward_pass in passes if forward_pass.reference_BT is not None]
    broken = float(sum(forward_pass.weighed.broken_BT.sum() for forward_pass in passes))
    return GroupFacts(facts, broken, numbers_of(references) if references else None)
