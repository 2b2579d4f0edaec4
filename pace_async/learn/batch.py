"""From a group to padded arrays, ready for one forward pass each.

Invariant: every token of every call of the group stands in exactly one micro-batch, under the mask, with its rollout's
advantage; whatever else is in the arrays is masked out, so how rows are ordered and padded cannot change the loss.

Shape suffixes: B rows of a micro-batch, P longest prompt in it, T longest answer in it. Numpy only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pace_async.replay.group import Group, TrainedCall

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Row:
    """One call and what its tokens earned. `rollout` is its place in the group."""

    call: TrainedCall
    advantage: float
    rollout: int


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Prompts are padded on the left, answers on the right. `group_tokens` counts the valid tokens of the whole group,
    over all its micro-batches. `ages_BT` is the update minus the version that sampled the token; `rollouts_B` is the
    row's rollout, -1 for a row of padding."""

    prompt_ids_BP: Ints
    prompt_mask_BP: Ints
    completion_ids_BT: Ints
    completion_mask_BT: Ints
    advantages_BT: Floats
    sampled_logprobs_BT: Floats
    ages_BT: Ints
    rollouts_B: Ints
    group_tokens: int


def micro_batches(group: Group, size: int, pad_id: int) -> list[MicroBatch]:
    """The group as whole micro-batches of `size` rows, the last one filled up with rows of padding."""
    rows = [
        Row(call, rollout.advantage, place) for place, rollout in enumerate(group.rollouts) for call in rollout.calls
    ]
    ordered = least_padded(rows, size)
    return [
        _pad(ordered[start : start + size], size, pad_id, group.update, group.tokens)
        for start in range(0, len(ordered), size)
    ]


def least_padded(rows: Sequence[Row], size: int) -> list[Row]:
    """The rows in whichever of a few orders by length wastes the least, ties going to the first."""
    orders: tuple[Callable[[Row], tuple[int, int]], ...] = (
        lambda row: (len(row.call.completion_ids), len(row.call.prompt_ids)),
        lambda row: (len(row.call.prompt_ids), len(row.call.completion_ids)),
        lambda row: (len(row.call.prompt_ids) + len(row.call.completion_ids), len(row.call.prompt_ids)),
    )
    return min((sorted(rows, key=order) for order in orders), key=lambda ordered: _columns(ordered, size))


def _columns(rows: Sequence[Row], size: int) -> int:
    total = 0
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        total += max(len(row.call.prompt_ids) for row in part) + max(len(row.call.completion_ids) for row in part)
    return total


def _pad(rows: Sequence[Row], size: int, pad_id: int, update: int, group_tokens: int) -> MicroBatch:
    P = max(len(row.call.prompt_ids) for row in rows)
    T = max(len(row.call.completion_ids) for row in rows)
    batch = MicroBatch(
        prompt_ids_BP=np.full((size, P), pad_id, np.int64),
        prompt_mask_BP=np.zeros((size, P), np.int64),
        completion_ids_BT=np.full((size, T), pad_id, np.int64),
        completion_mask_BT=np.zeros((size, T), np.int64),
        advantages_BT=np.zeros((size, T), np.float32),
        sampled_logprobs_BT=np.zeros((size, T), np.float32),
        ages_BT=np.zeros((size, T), np.int64),
        rollouts_B=np.full(size, -1, np.int64),
        group_tokens=group_tokens,
    )
    batch.prompt_mask_BP[:, -1] = 1  # a row of padding attends to one token, or its attention would be 0 / 0
    for index, row in enumerate(rows):
        p, t = len(row.call.prompt_ids), len(row.call.completion_ids)
        batch.prompt_ids_BP[index, P - p :] = row.call.prompt_ids
        batch.prompt_mask_BP[index, P - p :] = 1
        batch.completion_ids_BT[index, :t] = row.call.completion_ids
        batch.completion_mask_BT[index, :t] = 1
        batch.advantages_BT[index, :t] = row.advantage
        batch.sampled_logprobs_BT[index, :t] = row.call.logprobs
        batch.ages_BT[index, :t] = update - np.array(row.call.versions)
        batch.rollouts_B[index] = row.rollout
    return batch
