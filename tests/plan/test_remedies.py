"""Which settings are named with which a run would fit. Steps are given, not counted."""

from dataclasses import replace

import pytest

from pace_async.plan.needs import GIB
from pace_async.plan.places import Capacity, CardMemory
from pace_async.plan.planned import Model, plan_of
from pace_async.plan.step import StepBytes, StepShape
from tests.support.run_plans import ONE, QWEN, TWO, config_of, count, planned


@pytest.mark.parametrize(
    ("gib", "remedy"),
    [
        (200, None),
        (115, {"advisor.kv_cache_gib": 2}),
        (92, {"advisor.kv_cache_gib": 2, "learner.gradient_checkpointing": True}),
        (
            81,
            {"advisor.kv_cache_gib": 2, "learner.gradient_checkpointing": True, "learner.precision": "bf16"},
        ),
        (
            60,
            {
                "advisor.kv_cache_gib": 2,
                "learner.gradient_checkpointing": True,
                "learner.precision": "bf16",
                "learner.lora_rank": 16,
            },
        ),
    ],
)
def test_the_first_settings_that_fit_are_named(gib: float, remedy: dict[str, object] | None) -> None:
    settings: dict[str, object] = {"search.threads": 12, "advisor.gpu_memory": 0.5 if gib < 200 else 0.2}
    plan = planned(settings, {"0": gib})
    assert plan.remedy == remedy
    assert bool(plan.faults) is (remedy is not None)
    if remedy is not None:
        words = [f"{key}={str(value).lower()}" for key, value in remedy.items()]
        assert plan.refusal is not None
        assert all(word in plan.refusal for word in words)
        again = planned({**settings, **remedy}, {"0": gib})
        assert again.faults == ()


LORA: dict[str, object] = {
    "learner.lora_rank": 16,
    "learner.gradient_checkpointing": True,
    "learner.precision": "bf16",
}


def test_another_engine_is_a_remedy_where_the_embedded_one_has_none() -> None:
    embedded: dict[str, object] = {"advisor.engine": "embedded", "search.threads": 12}
    assert planned(embedded, {"0": 100.0}).remedy == {"learner.gradient_checkpointing": True}, "no other engine needed"
    plan = planned(embedded, {"0": 60.0})
    assert plan.remedy == {
        "learner.gradient_checkpointing": True,
        "learner.precision": "bf16",
        "advisor.engine": "vllm",
        "advisor.kv_cache_gib": 2,
        "learner.lora_rank": 16,
    }
    assert planned({**embedded, **(plan.remedy or {})}, {"0": 60.0}).faults == ()
    nowhere = plan_of(
        config_of(embedded), Model(QWEN, 2048), {"learner": [], "engine": []}, Capacity({}, host=60 * GIB), count
    )
    assert (bool(nowhere.faults), nowhere.remedy) == (True, None), "vLLM would take no less of the processor's memory"


def test_a_second_card_for_the_engine_is_a_remedy() -> None:
    beside = {"0": 23.6, "1": 23.6}
    plan = planned(LORA, beside)
    assert plan.remedy == {"advisor.gpus": ["1"]}
    assert plan.refusal is not None
    assert plan.refusal.endswith('It fits with advisor.gpus=["1"].')
    assert planned({**LORA, "advisor.gpus": ["1"]}, beside, TWO).faults == ()


def test_where_only_another_card_helps_it_says_so() -> None:
    plan = planned(LORA, {"0": 19.0})
    assert plan.another_card
    assert plan.refusal is not None
    assert plan.refusal.endswith('It fits with a second such card for the engine and advisor.gpus=["1"].')


def test_a_larger_share_of_a_card_of_its_own_is_a_remedy_and_so_is_a_larger_cache() -> None:
    cards = {"0": 200.0, "1": 23.6}
    assert planned({**LORA, "advisor.gpu_memory": 0.5}, cards, TWO).remedy == {"advisor.gpu_memory": 0.9}
    assert planned({**LORA, "advisor.kv_cache_gib": 0.01}, cards, TWO).remedy == {"advisor.kv_cache_gib": 1}


def test_answers_of_one_kind_of_call_become_shorter_too() -> None:
    def count_answers(shape: StepShape) -> StepBytes:
        return replace(count(shape), peak=int(8.48e9 + 3e6 * shape.answers))

    given = {**LORA, "advisor.max_tokens": 1024, "advisor.max_tokens_by_call.propose": 8192, "advisor.kv_cache_gib": 2}
    given |= {"advisor.max_prompt_tokens": 4096}
    capacity = Capacity({"0": CardMemory("0", 38 * GIB)})
    plan = plan_of(config_of(given), Model(QWEN, 262_144), ONE, capacity, count_answers)
    assert plan.remedy == {"advisor.max_tokens_by_call": {"propose": 2048}}
    assert plan.refusal is not None
    assert plan.refusal.endswith('It fits with advisor.max_tokens_by_call={"propose":2048}.')


def test_shorter_calls_are_the_last_remedy() -> None:
    def count_tokens(shape: StepShape) -> StepBytes:
        return replace(count(shape), peak=int(8.48e9 + 1e6 * shape.tokens))

    given = {**LORA, "advisor.max_tokens": 8000, "advisor.kv_cache_gib": 2}
    capacity = Capacity({"0": CardMemory("0", 40 * GIB)})
    plan = plan_of(config_of(given), Model(QWEN, 262_144), ONE, capacity, count_tokens)
    assert plan.shape.tokens == 24_000, "prompts.tokens and the longest answer, not the context"
    assert plan.remedy == {"advisor.max_prompt_tokens": 8192}


def test_where_nothing_helps_it_says_so_and_counts_no_more() -> None:
    shapes: list[StepShape] = []

    def counting(shape: StepShape) -> StepBytes:
        shapes.append(shape)
        return count(shape)

    config = config_of({"learner.lora_rank": 16, "advisor.kv_cache_gib": 1, "learner.gradient_checkpointing": True})
    capacity = Capacity({"0": CardMemory("0", 10 * GIB)})
    plan = plan_of(config, Model(QWEN, 2048), ONE, capacity, counting)
    assert plan.refusal == (
        f"The run does not fit: card 0 has 10.0 GiB, and the run needs {plan.places[0].needed / GIB:.1f}. "
        "No setting would make it fit."
    )
    assert len(shapes) == 1


def test_fewer_calls_at_once_are_a_remedy_where_the_cache_that_was_given_takes_too_much() -> None:
    settings: dict[str, object] = {**LORA, "advisor.kv_cache_gib": 11, "search.threads": 12}
    assert planned(settings, {"0": 60.0, "1": 30.0}, TWO).faults == ()
    plan = planned(settings, {"0": 60.0, "1": 20.0}, TWO)
    assert plan.remedy == {"advisor.kv_cache_gib": 1}
    assert planned({**settings, "advisor.kv_cache_gib": 1}, {"0": 60.0, "1": 20.0}, TWO).faults == ()
