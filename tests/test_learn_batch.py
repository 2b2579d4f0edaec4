"""Padding and ordering: no token lost, none doubled, none that was never sampled."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.learn.batch import micro_batches
from tests.learn_toys import random_group


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 9), rollouts=st.integers(1, 9), update=st.integers(0, 3))
def test_every_call_stands_in_exactly_one_row_with_its_rollouts_advantage(
    seed: int, size: int, rollouts: int, update: int
) -> None:
    group = random_group(vocab=50, seed=seed, rollouts=rollouts, update=update, max_age=2)
    expected = Counter(
        (
            call.prompt_ids,
            call.completion_ids,
            tuple(np.float32(call.logprobs).tolist()),
            tuple(update - version for version in call.versions),
            (float(np.float32(rollout.advantage)),) * len(call.completion_ids),
            place,
        )
        for place, rollout in enumerate(group.rollouts)
        for call in rollout.calls
    )
    found: Counter[tuple[object, ...]] = Counter()
    for batch in micro_batches(group, size, pad_id=0):
        assert batch.group_tokens == group.tokens
        assert len(batch.rollouts_B) == size
        for row, rollout in enumerate(batch.rollouts_B.tolist()):
            valid = batch.completion_mask_BT[row].astype(bool)
            if rollout < 0:
                assert not valid.any()
                assert batch.prompt_mask_BP[row].sum() == 1
                continue
            found[
                (
                    tuple(batch.prompt_ids_BP[row][batch.prompt_mask_BP[row].astype(bool)].tolist()),
                    tuple(batch.completion_ids_BT[row][valid].tolist()),
                    tuple(batch.sampled_logprobs_BT[row][valid].tolist()),
                    tuple(batch.ages_BT[row][valid].tolist()),
                    tuple(batch.advantages_BT[row][valid].tolist()),
                    rollout,
                )
            ] += 1
            assert np.all(np.diff(batch.prompt_mask_BP[row]) >= 0), "prompts are padded on the left"
            assert np.all(np.diff(batch.completion_mask_BT[row]) <= 0), "answers are padded on the right"
    assert found == expected


def test_rows_of_like_length_share_a_micro_batch() -> None:
    group = random_group(vocab=50, rollouts=16, calls=1, prompt=(3, 40), answer=(1, 40))
    padded = sum(batch.completion_mask_BT.size + batch.prompt_mask_BP.size for batch in micro_batches(group, 4, 0))
    calls = [call for rollout in group.rollouts for call in rollout.calls]
    unsorted = sum(
        4 * (max(len(call.prompt_ids) for call in part) + max(len(call.completion_ids) for call in part))
        for part in (calls[start : start + 4] for start in range(0, 16, 4))
    )
    assert padded < 0.95 * unsorted
