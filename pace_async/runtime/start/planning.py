"""The plan of a run on this machine, or on cards that are named.

Invariant: nothing is written, and the processes that are run only look: nvidia-smi, the count of a training step, and
transformers for a model that vLLM does not list. A run that cannot fit, whose engine does not know the model or whose
driver is too old is refused before anything is written. Advisors of the package need no plan: they fit everywhere.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.gpus import visible_gpus
from pace_async.model_folder import weight_files
from pace_async.plan.counted import NotCounted, count_step
from pace_async.plan.driver import too_old
from pace_async.plan.machine import capacity_here
from pace_async.plan.places import Capacity, CardMemory, Owned
from pace_async.plan.planned import Counter, Model, Plan, plan_of
from pace_async.plan.served import refuse_unless_divisible
from pace_async.registry.advisors import advisor_of
from pace_async.registry.engines import engine_of
from pace_async.registry.evaluators import EVALUATORS
from pace_async.registry.trainers import TRAINERS
from pace_async.runtime.children.advisor_choice import context_of
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.children.cards import assigned
from pace_async.runtime.start.refusals import limits_of
from pace_async.task import load_task

SMALL = 1 << 30
"""An advisor whose files are smaller, in bytes, is not planned on a processor: it fits, and a count takes seconds."""


def plan_for(config: Config, cards: Sequence[CardMemory], count: Counter = count_step) -> Plan:
    """The plan of a run on such cards, whatever this machine has. `config` names its advisor. Raises UsageError."""
    refuse_unknown_model(config)
    capacity = Capacity({card.name: card for card in cards})
    owned = owned_cards(config, [card.name for card in cards])
    return with_evaluations(plan_of(config, model_of(config), owned, capacity, count), config, owned, len(cards))


def plan_here(config: Config, folder: Path) -> Plan:
    """The plan of a run in this folder on this machine. Raises UsageError."""
    _refuse_old_driver(config)
    refuse_unknown_model(config)
    capacity = capacity_here(visible_gpus(), folder)
    owned = owned_cards(config, list(capacity.cards))
    return with_evaluations(plan_of(config, model_of(config), owned, capacity), config, owned, len(capacity.cards))


def cards_of_evaluations(config: Config) -> int:
    """The cards that the evaluations on this machine must have of their own, all at once. 0: none."""
    gpus, slots = _gpus_of(config), config.evaluation.slots
    return math.ceil(slots / _sharing(gpus)) if 0 < gpus < 1 else int(gpus) * slots


def with_evaluations(plan: Plan, config: Config, owned: Owned, cards: int) -> Plan:
    """The plan with the cards of evaluations, and with a fault where there are too few `cards` in all."""
    demand, slots, gpus = cards_of_evaluations(config), config.evaluation.slots, _gpus_of(config)
    free = cards - len({card for own in owned.values() for card in own})
    if free >= demand:
        return replace(plan, evaluation_cards=demand)
    fitting = free * _sharing(gpus) if gpus < 1 else free // int(gpus)
    remedy = None
    if fitting and (plan.remedy is not None or not plan.faults):
        remedy = {**(plan.remedy or {}), "evaluation.slots": fitting}
    at_once = f"{slots} evaluations at once need" if slots > 1 else "1 evaluation at once needs"
    fault = f"{at_once} {demand} card{'s' * (demand > 1)} of {'their' if slots > 1 else 'its'} own"
    fault += f" (free: {free} of {cards})"
    return replace(plan, evaluation_cards=demand, faults=(*plan.faults, fault), remedy=remedy)


def _gpus_of(config: Config) -> float:
    """The cards, or the share of one, that an evaluation on this machine must have."""
    spec = limits_of(config, load_task(config.task)).spec
    elsewhere = EVALUATORS[config.evaluation.evaluators].elsewhere
    return spec.gpus if spec.gpus_required and not elsewhere else 0


def _sharing(gpus: float) -> int:
    """How many evaluations share a card, given what each has of it."""
    return int(1 / gpus + 1e-9)


def is_planned(config: Config) -> bool:
    """Whether there is something to plan: an advisor with weights here, but for those of the package."""
    kind = advisor_of(config.advisor.model)
    return kind.served and not kind.packaged and not TRAINERS[config.learner.trainer].elsewhere


def is_small(config: Config) -> bool:
    """Whether the advisor's weights are here and so small that a processor holds a run."""
    folder = advisor_folder(config.advisor.model)
    return bool(weight_files(folder)) and _size(folder) < SMALL


def refuse_unless_it_fits(config: Config, folder: Path) -> Plan | None:
    """The plan, None if none was made. Raises UsageError for a run that cannot fit on this machine, as far as that is
    known. Files of the run that are in `folder` already count as free. A step that cannot be counted refuses
    nothing."""
    _refuse_old_driver(config)
    if not is_planned(config):
        return None
    refuse_unknown_model(config)
    capacity = with_own_files(capacity_here(visible_gpus(), folder), folder)
    if not capacity.cards and _size(advisor_folder(config.advisor.model)) < SMALL:
        return None
    try:
        plan = plan_of(config, model_of(config), owned_cards(config, list(capacity.cards)), capacity)
    except NotCounted:
        return None
    if plan.refusal is not None:
        raise UsageError(f"{plan.refusal} `pace plan` prints every part.")
    return plan


def with_own_files(capacity: Capacity, folder: Path) -> Capacity:
    """With the bytes of versions and checkpoints of a resumed run, which make way for its next ones, of an advisor that
    it copied, and of its rows."""
    files = (*folder.glob("learner/*/*/*.safetensors"), *folder.glob("advisor/*.safetensors"))
    files += (*folder.glob("population.db*"), *folder.glob("events.jsonl"))
    own = sum(file.stat().st_size for file in files)
    host = None if capacity.host is None else capacity.host + (own if capacity.disk_in_memory else 0)
    return replace(capacity, host=host, disk=None if capacity.disk is None else capacity.disk + own)


def refuse_unknown_model(config: Config) -> None:
    """Raises UsageError for an advisor that the engine which the run starts does not know."""
    model = config.advisor.model
    engine = engine_of(config.advisor.engine)
    if not advisor_of(model).served or engine.runs_already:
        return
    reason = engine.why_unknown(advisor_folder(model), config.advisor.engine_arguments)
    if reason is not None:
        raise UsageError(f"--advisor {model}: {reason}; give a model that it knows, or another --engine.")


def _refuse_old_driver(config: Config) -> None:
    """Raises UsageError if learner or engine would have a card that the installed torch cannot use. Without it torch
    computes on the processor, which is too slow for all but the advisors of the package. vLLM ends."""
    kind = advisor_of(config.advisor.model)
    if not kind.served:
        return
    cards = assigned(config, visible_gpus())
    own_card = not engine_of(config.advisor.engine).computes_anywhere and bool(cards.engine)
    if not own_card and (kind.packaged or not (cards.learner or cards.engine)):
        return
    old = too_old()
    if old is not None:
        hidden = "" if own_card else ", or set CUDA_VISIBLE_DEVICES to nothing, to compute on the processor"
        raise UsageError(f"No card can be used: {old.found}; {old.remedy}{hidden}.")


def owned_cards(config: Config, cards: Sequence[str]) -> Owned:
    chosen = assigned(config, cards)
    return {"learner": chosen.learner, "engine": chosen.engine}


def model_of(config: Config) -> Model:
    if not advisor_of(config.advisor.model).served:
        raise UsageError(f"--advisor {config.advisor.model} has no weights here: there is nothing to plan.")
    folder = advisor_folder(config.advisor.model)
    refuse_unless_divisible(config.advisor.model, folder, config.advisor.ranks)
    return Model(folder, context_of(config.advisor, folder))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
