"""Padding and ordering: no token lost, none doubled, none that was never sampled."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.learn.batch import micro_batches
from tests.support.learn_toys import random_group


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), budget=st.integers(1, 200), rollouts=st.integers(1, 9), update=st.integers(0, 3))
def test_every_call_stands_in_exactly_one_row_with_its_rollouts_advantage(
    seed: int, budget: int, rollouts: int, update: int
) -> None:
    group = random_group(vocab=50, seed=seed, rollouts=rollouts, update=update, max_age=2)
    expected = Counter(
        (
            call.prompt_ids,
            call.completion_ids,
            tuple(np.array(call.logprobs, np.float32).tolist()),
            tuple(update - version for version in call.versions),
            (float(np.float32(rollout.advantage)),) * len(call.completion_ids),
            place,
        )
        for place, rollout in enumerate(group.rollouts)
        for call in rollout.calls
    )
    found: Counter[tuple[object, ...]] = Counter()
    for batch in micro_batches(group, budget, pad_id=0):
        assert batch.group_tokens == group.tokens
        rows, P = batch.prompt_ids_BP.shape
        assert rows == 1 or rows * (P + batch.rest_ids_BT.shape[1]) <= budget
        for row, rollout in enumerate(batch.rollouts_B.tolist()):
            attended, answer = batch.attended_BT[row].astype(bool), batch.answer_BT[row].astype(bool)
            assert np.all(np.diff(batch.attended_BT[row]) <= 0), "padding stands on the right only"
            assert not np.any(answer & ~attended)
            assert not np.any(batch.advantages_BT[row][~answer])
            rest = batch.rest_ids_BT[row]
            found[
                (
                    (*batch.prompt_ids_BP[row].tolist(), *rest[attended & ~answer].tolist()),
                    tuple(rest[answer].tolist()),
                    tuple(batch.sampled_logprobs_BT[row][answer].tolist()),
                    tuple(batch.ages_BT[row][answer].tolist()),
                    tuple(batch.advantages_BT[row][answer].tolist()),
                    rollout,
                )
            ] += 1
    assert found == expected


def test_a_ragged_group_is_padded_by_less_than_a_fifth() -> None:
    group = random_group(vocab=50, rollouts=24, calls=1, prompt=(40, 400), answer=(50, 800))
    padded = sum(
        batch.prompt_ids_BP.size + batch.rest_ids_BT.size for batch in micro_batches(group, budget=4096, pad_id=0)
    )
    calls = [call for rollout in group.rollouts for call in rollout.calls]
    wanted = sum(len(call.prompt_ids) + len(call.completion_ids) for call in calls)
    rectangle = 24 * (max(len(call.prompt_ids) for call in calls) + max(len(call.completion_ids) for call in calls))
    assert padded < 1.2 * wanted
    assert rectangle > 1.5 * wanted
