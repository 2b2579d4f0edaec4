"""The plan of a run: what it needs, where that goes, whether it fits, and with which settings it would."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pace_async.config import Config
from pace_async.configure import flat, resolve
from pace_async.plan.counted import counted
from pace_async.plan.needs import GIB, Owner, RunNeeds, longest_call, needs_of, shape_of
from pace_async.plan.places import Capacity, Owned, Place, faults, places_of
from pace_async.plan.served import served_model
from pace_async.plan.step import StepBytes, StepShape
from pace_async.registry.engines import engine_of

Counter = Callable[[StepShape], StepBytes]
LORA_RANK = 16


@dataclass(frozen=True, slots=True)
class Model:
    """The advisor: the folder with its config.json, and its context in tokens, None if that is not known."""

    folder: Path
    context: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """`faults` are clauses about what does not fit. `remedy` are settings with which all of it fits, None if there are
    none or nothing is wrong."""

    shape: StepShape
    step: StepBytes
    needs: RunNeeds
    places: tuple[Place, ...]
    faults: tuple[str, ...]
    remedy: Mapping[str, object] | None

    @property
    def refusal(self) -> str | None:
        """What does not fit and what would, as sentences. None if nothing is known not to fit."""
        if not self.faults:
            return None
        would = "No setting would make it fit." if self.remedy is None else f"It fits with {_in_words(self.remedy)}."
        return f"The run does not fit: {'; '.join(self.faults)}. {would}"


def plan_of(config: Config, model: Model, owned: Owned, capacity: Capacity, count: Counter = counted) -> Plan:
    """The plan of a run whose learner and engine own these cards. Where it does not fit, further settings are counted.
    Raises UsageError for a model that cannot be built."""
    plan = _of(config, model, owned, capacity, count)
    if not plan.faults:
        return plan
    without_passes = replace(plan.step, peak=plan.step.peak - plan.step.passes)
    for changes in _remedies(config, plan.needs.cache_all, plan.shape.tokens):
        changed = resolve(None, {**flat(config.model_dump(mode="json")), **changes}, environment={})
        whole = "learner.lora_rank" not in changes
        if whole and _of(changed, model, owned, capacity, lambda _: without_passes).faults:
            continue  # even passes of no size would not fit, and counting takes long
        same_step = not any(key.startswith("learner.") for key in changes)
        if not _of(changed, model, owned, capacity, (lambda _: plan.step) if same_step else count).faults:
            return replace(plan, remedy=changes)
    return plan


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


def _remedies(config: Config, cache_all: float, tokens: int) -> Iterator[dict[str, object]]:
    """Settings to try when a run does not fit, the cheapest first: each with all the earlier ones. `cache_all` are
    the bytes of keys and values of all requests, `tokens` those of the longest call."""
    learner, changes = config.learner, dict[str, object]()
    adapters = engine_of(config.advisor.engine).serves_adapters
    steps: tuple[tuple[bool, str, object], ...] = (
        (adapters and config.advisor.kv_cache_gib is None, "advisor.kv_cache_gib", max(1, math.ceil(cache_all / GIB))),
        (not learner.gradient_checkpointing, "learner.gradient_checkpointing", True),
        (learner.precision == "fp32", "learner.precision", "bf16"),
        (learner.micro_tokens >= 2 * tokens, "learner.micro_tokens", tokens),
        (adapters and learner.lora_rank is None, "learner.lora_rank", LORA_RANK),
    )
    for applies, key, value in steps:
        if applies:
            changes[key] = value
            yield dict(changes)


def _in_words(changes: Mapping[str, object]) -> str:
    """The changes as `--set` takes them."""
    written = [f"{key}={str(value).lower()}" for key, value in changes.items()]
    return written[0] if len(written) == 1 else f"{', '.join(written[:-1])} and {written[-1]}"
