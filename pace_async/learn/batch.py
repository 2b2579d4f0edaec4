"""From a group to padded arrays, ready for one forward pass each.

Invariant: every token of every call of the group stands in exactly one micro-batch, under the mask, with its rollout's
advantage; whatever else is in the arrays is masked out, so how rows are cut and padded cannot change the loss.

Calls of like length share a micro-batch, and each row begins at its first prompt token, padded on the right only. TRL
wants a row as a prompt and a completion of the same widths in all rows: the cut is the shortest prompt, and what longer
prompts have beyond it is attended to, but not trained. So a row is as long as the longest call beside it, not as the
longest prompt and the longest answer together, and no token's position is shifted.

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
    """One call and what its tokens earned. `rollout` is its place in the group."""

    call: TrainedCall
    advantage: float
    rollout: int

    @property
    def length(self) -> int:
        return len(self.call.prompt_ids) + len(self.call.completion_ids)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """`attended_BT` is 1 on the tokens of a call, `answer_BT` on those of its answer: the ones that are trained.
    `group_tokens` counts the answer tokens of the whole group, over all its micro-batches. `ages_BT` is the update
    minus the version that sampled the token; `rollouts_B` is the row's rollout."""

    prompt_ids_BP: Ints
    rest_ids_BT: Ints
    attended_BT: Ints
    answer_BT: Ints
    advantages_BT: Floats
    sampled_logprobs_BT: Floats
    ages_BT: Ints
    rollouts_B: Ints
    group_tokens: int


def micro_batches(group: Group, budget: int, pad_id: int) -> list[MicroBatch]:
    """The group in micro-batches of at most `budget` tokens, padding counted, or of one call where that is longer; the
    longest calls first, so that what does not fit into memory fails at once."""
    rows = [
        Row(call, rollout.advantage, place) for place, rollout in enumerate(group.rollouts) for call in rollout.calls
    ]
    rows.sort(key=lambda row: (-row.length, len(row.call.prompt_ids)))
    parts: list[list[Row]] = []
    for row in rows:
        if parts and (len(parts[-1]) + 1) * parts[-1][0].length <= budget:
            parts[-1].append(row)
        else:
            parts.append([row])
    return [_pad(part, pad_id, group.update, group.tokens) for part in parts]


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
