"""Turns a group into padded arrays, one micro-batch for each forward pass. Where rows are packed (`packing`), a pass
itself has no padding, and calls of any length share a micro-batch.

Invariant: every answer token of the group is in exactly one micro-batch, under the mask, with its rollout's advantage.
All other entries are masked out of the loss, so cutting and padding rows cannot change it.

Otherwise calls of similar length share a micro-batch. Each row begins at its first prompt token and is padded on the
right only. TRL needs prompts of one width and completions of one width, so each row is cut at the length of the
shortest prompt. The rest of a longer prompt goes to the completion: it is attended to, but not trained. So a row is as
long as the longest call of its micro-batch, not as the longest prompt plus the longest answer, and no token changes its
position.

Shape suffixes: B rows of a micro-batch, P shortest prompt in it, T the rest of its longest call. Numpy only.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pace_async.replay.group import Group, TrainedCall

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Row:
    """One call with its advantage. `rollout` is the place of its rollout in the group."""

    call: TrainedCall
    advantage: float
    rollout: int

    @property
    def length(self) -> int:
        return len(self.call.prompt_ids) + len(self.call.completion_ids)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """`attended_BT` is 1 on the tokens of a call. `answer_BT` is 1 on the tokens of its answer, which are trained.
    `group_tokens` counts the answer tokens of the whole group, over all its micro-batches. `ages_BT` is the update
    minus the version that sampled the token. `rollouts_B` is each row's rollout."""

    prompt_ids_BP: Ints
    rest_ids_BT: Ints
    attended_BT: Ints
    answer_BT: Ints
    advantages_BT: Floats
    sampled_logprobs_BT: Floats
    ages_BT: Ints
    rollouts_B: Ints
    group_tokens: int

    @property
    def lengths(self) -> list[int]:
        """Tokens of each call."""
        return (self.prompt_ids_BP.shape[1] + self.attended_BT.sum(1)).tolist()


def micro_batches(
    group: Group,
    budget: int,
    pad_id: int,
    *,
    packs: bool = False,
    rank: int = 0,
    ranks: int = 1,
) -> list[MicroBatch]:
    """Micro-batches of at most `budget` tokens, including padding unless `packs`. A longer call gets its own
    micro-batch. The longest calls come first, so that a group that does not fit into memory fails at once.

    Of several `ranks`, each gets every `ranks`-th call, and as many micro-batches as the others: empty ones fill up,
    because each pass needs all ranks."""
    rows = rows_of(group)
    rows.sort(key=lambda row: (-row.length, len(row.call.prompt_ids)))
    cut = _first_fit if packs else _cut
    cuts = [cut(rows[other::ranks], budget) for other in range(ranks)]
    batches = [_pad(part, pad_id, group.update, group.tokens) for part in cuts[rank]]
    most = max(len(cut) for cut in cuts)
    return batches + [_empty(pad_id, group.tokens)] * (most - len(batches))


def rows_of(group: Group) -> list[Row]:
    """A row for each call, in the order of the group's rollouts and calls."""
    return [
        Row(call, rollout.advantage, place) for place, rollout in enumerate(group.rollouts) for call in rollout.calls
    ]


def _cut(rows: list[Row], budget: int) -> list[list[Row]]:
    parts: list[list[Row]] = []
    for row in rows:
        if parts and (len(parts[-1]) + 1) * parts[-1][0].length <= budget:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def _first_fit(rows: list[Row], budget: int) -> list[list[Row]]:
    """Each row, longest first, goes to the first part that has room for it."""
    parts: list[list[Row]] = []
    for row in rows:
        fitting = (part for part in parts if sum(other.length for other in part) + row.length <= budget)
        part = next(fitting, None)
        if part is None:
            parts.append([row])
        else:
            part.append(row)
    return parts


def _empty(pad_id: int, group_tokens: int) -> MicroBatch:
    """One row without an answer."""
    ids, none, nothing = np.full((1, 1), pad_id, np.int64), np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float32)
    return MicroBatch(ids, ids, none + 1, none, nothing, nothing, none, np.zeros(1, np.int64), group_tokens)


def _pad(rows: list[Row], pad_id: int, update: int, group_tokens: int) -> MicroBatch:
    P = min(len(row.call.prompt_ids) for row in rows)
    shape = (len(rows), max(row.length for row in rows) - P)
    batch = MicroBatch(
        prompt_ids_BP=np.array([row.call.prompt_ids[:P] for row in rows], np.int64),
        rest_ids_BT=np.full(shape, pad_id, np.int64),
        attended_BT=np.zeros(shape, np.int64),
        answer_BT=np.zeros(shape, np.int64),
        advantages_BT=np.zeros(shape, np.float32),
        sampled_logprobs_BT=np.zeros(shape, np.float32),
        ages_BT=np.zeros(shape, np.int64),
        rollouts_B=np.array([row.rollout for row in rows], np.int64),
        group_tokens=group_tokens,
    )
    for index, row in enumerate(rows):
        answer = slice(len(row.call.prompt_ids) - P, row.length - P)
        batch.rest_ids_BT[index, : answer.stop] = row.call.prompt_ids[P:] + row.call.completion_ids
        batch.attended_BT[index, : answer.stop] = 1
        batch.answer_BT[index, answer] = 1
        batch.advantages_BT[index, answer] = row.advantage
        batch.sampled_logprobs_BT[index, answer] = row.call.logprobs
        batch.ages_BT[index, answer] = update - np.array(row.call.versions)
    return batch
