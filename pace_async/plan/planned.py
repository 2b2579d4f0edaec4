"""The plan of a run: what it needs, where that goes, whether it fits, and with which settings it would."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from pace_async.config import Config
from pace_async.configure import flat, resolve
from pace_async.plan.counted import count_step, one_child
from pace_async.plan.needs import GIB, Owner, RunNeeds, longest_call, longest_prompt, needs_of, shape_of
from pace_async.plan.places import Capacity, CardMemory, Owned, Place, faults, places_of
from pace_async.plan.served import served_model
from pace_async.plan.step import StepBytes, StepShape
from pace_async.registry.engines import engine_of
from pace_async.registry.transports import TRANSPORTS

Counter = Callable[[StepShape], StepBytes]
LORA_RANK = 16
VLLM = "vllm"
OWN_CARD = 0.9
"""vLLM's share of a card that it has alone."""
SHORT_PROMPT, SHORT_ANSWER = 8192, 2048
"""Tokens that are enough for most tasks."""
FEW_CALLS = 4
"""Longest calls for which an engine has keys and values at least. Further ones wait, so that it serves more slowly."""


@dataclass(frozen=True, slots=True)
class Model:
    """The advisor: the folder with its config.json, and its context in tokens, None if that is not known."""

    folder: Path
    context: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """`faults` are clauses about what does not fit. `remedy` are settings with which all of it fits, None if there are
    none or nothing is wrong. `another_card`: it takes a second card like the first besides. `evaluation_cards` are
    those that evaluations must have of their own. What they take there is not counted."""

    shape: StepShape
    step: StepBytes
    needs: RunNeeds
    places: tuple[Place, ...]
    faults: tuple[str, ...]
    remedy: Mapping[str, object] | None
    another_card: bool = False
    evaluation_cards: int = 0

    @property
    def refusal(self) -> str | None:
        """What does not fit and what would, as sentences. None if nothing is known not to fit."""
        if not self.faults:
            return None
        card = "a second such card for the engine and " if self.another_card else ""
        fits = None if self.remedy is None else f"It fits with {card}{_in_words(self.remedy)}."
        would = fits or "No setting would make it fit."
        return f"The run does not fit: {'; '.join(self.faults)}. {would}"


def plan_of(
    config: Config,
    model: Model,
    owned: Owned,
    capacity: Capacity,
    count: Counter = count_step,
    *,
    remedies: bool = True,
) -> Plan:
    """The plan of a run whose learner and engine own these cards. Where it does not fit, further settings are counted,
    unless no `remedies` are wanted. Raises UsageError for a model that cannot be built."""
    count = _each_once(count)
    with one_child():
        plan = _of(config, model, owned, capacity, count)
        if not plan.faults or not remedies:
            return plan
        changes = _remedy(config, model, owned, capacity, plan, count)
        if changes is not None:
            return replace(plan, remedy=changes)
        wider = _with_another_card(owned, capacity)
        changes = None if wider is None else _remedy(config, model, owned, wider, plan, count)
        return plan if changes is None else replace(plan, remedy=changes, another_card=True)


def _each_once(count: Counter) -> Counter:
    known: dict[StepShape, StepBytes] = {}

    def counted_once(shape: StepShape) -> StepBytes:
        if shape not in known:
            known[shape] = count(shape)
        return known[shape]

    return counted_once


def _remedy(
    config: Config, model: Model, owned: Owned, capacity: Capacity, plan: Plan, count: Counter
) -> Mapping[str, object] | None:
    """The first settings with which the run fits."""
    without_passes = replace(plan.step, peak=plan.step.peak - plan.step.passes)
    card = _free_card(config, owned, capacity)
    shared = set(owned.get("learner", ())) & set(owned.get("engine", ()))
    alone = card is not None or bool(owned.get("engine") and not shared)
    served = bool(owned.get("engine")) and _vllm_serves(config, model)
    for changes in _remedies(config, plan, card, alone=alone, served=served):
        changed = resolve(None, {**flat(config.model_dump(mode="json")), **changes}, environment={})
        own = changes.get("advisor.gpus")
        places: Owned = {**owned, "engine": cast("list[str]", own)} if own is not None else owned
        whole = (changed.learner.lora_rank is None) is (config.learner.lora_rank is None)
        if whole and _of(changed, model, places, capacity, lambda _: without_passes).faults:
            continue  # even passes of no size would not fit, and counting takes long
        if not _of(changed, model, places, capacity, count).faults:
            return changes
    return None


def _vllm_serves(config: Config, model: Model) -> bool:
    """Whether the embedded engine can make way for vLLM, as far as that is known."""
    engine = engine_of(config.advisor.engine)
    if engine.serves_adapters or engine.runs_already:
        return False
    return engine_of(VLLM).why_unknown(model.folder, config.advisor.engine_arguments) is None


def _free_card(config: Config, owned: Owned, capacity: Capacity) -> str | None:
    """A card for the engine alone, where it shares one with the learner and could go elsewhere."""
    shared = set(owned.get("learner", ())) & set(owned.get("engine", ()))
    transport = TRANSPORTS[config.advisor.transport]
    if not shared or config.advisor.ranks > 1 or config.advisor.gpus is not None or transport.in_one_memory:
        return None
    return next((name for name in capacity.cards if name not in owned["learner"]), None)


def _with_another_card(owned: Owned, capacity: Capacity) -> Capacity | None:
    """With a card like the only one, None unless there is only one."""
    if len(capacity.cards) != 1 or not owned.get("engine"):
        return None
    [(name, card)] = capacity.cards.items()
    second = "1" if name == "0" else "0"
    return replace(capacity, cards={name: card, second: CardMemory(second, card.total)})


def _of(config: Config, model: Model, owned: Owned, capacity: Capacity, count: Counter) -> Plan:
    shape, served = shape_of(config, str(model.folder), model.context), served_model(model.folder)
    step = count(shape)
    sizes: dict[Owner, float | None] = {
        owner: min((capacity.cards[card].total for card in cards if card in capacity.cards), default=None)
        for owner, cards in owned.items()
    }
    needs = needs_of(config, step, served, longest_call(config, model.context), sizes)
    places = places_of(needs, owned, capacity)
    return Plan(shape, step, needs, places, tuple(faults(places, needs)), None)


def _remedies(
    config: Config, plan: Plan, card: str | None, *, alone: bool, served: bool
) -> Iterator[dict[str, object]]:
    """Settings to try when a run does not fit, the cheapest first: each with all the earlier ones. `card` is a free
    one. `alone`: the engine has, or would have, a card of its own. `served`: vLLM could take the embedded engine's
    place, which is tried after what needs no other engine."""
    learner, changes = config.learner, dict[str, object]()
    cache_all, tokens = plan.needs.cache_all, plan.shape.tokens
    long_prompt = tokens - plan.shape.answers > SHORT_PROMPT and longest_prompt(config) > SHORT_PROMPT
    long_answer = (config.advisor.max_tokens or 0) > SHORT_ANSWER
    adapters = served or engine_of(config.advisor.engine).serves_adapters
    by_call = config.advisor.max_tokens_by_call
    shorter = {call: min(longest, SHORT_ANSWER) for call, longest in by_call.items()}
    cache_gib = config.advisor.kv_cache_gib
    wider = cache_gib is None and alone and config.advisor.gpu_memory < OWN_CARD
    small = cache_gib is None or plan.needs.cache_one > plan.needs.cache
    least = max(1, math.ceil(FEW_CALLS * plan.needs.cache_one / GIB))
    engine: tuple[tuple[bool, str, object], ...] = (
        (served, "advisor.engine", VLLM),
        (adapters and wider, "advisor.gpu_memory", OWN_CARD),
        (adapters and small, "advisor.kv_cache_gib", max(1, math.ceil(cache_all / GIB))),
    )
    steps: tuple[tuple[bool, str, object], ...] = (
        (card is not None, "advisor.gpus", [card]),
        *(() if served else engine),
        (not learner.gradient_checkpointing, "learner.gradient_checkpointing", True),
        (learner.precision == "fp32", "learner.precision", "bf16"),
        (learner.micro_tokens > tokens, "learner.micro_tokens", tokens),
        *(engine if served else ()),
        (adapters and learner.lora_rank is None, "learner.lora_rank", LORA_RANK),
        (adapters and cache_gib is not None and least < cache_gib, "advisor.kv_cache_gib", least),
        (long_prompt, "advisor.max_prompt_tokens", SHORT_PROMPT),
        (long_answer, "advisor.max_tokens", SHORT_ANSWER),
        (shorter != by_call, "advisor.max_tokens_by_call", shorter),
    )
    for applies, key, value in steps:
        if applies:
            changes[key] = value
            yield dict(changes)


def _in_words(changes: Mapping[str, object]) -> str:
    """The changes as `--set` takes them."""
    written = [f"{key}={_text_of(value)}" for key, value in changes.items()]
    return written[0] if len(written) == 1 else f"{', '.join(written[:-1])} and {written[-1]}"


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
