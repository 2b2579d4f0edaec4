"""The plan of a run on this machine, or on cards that are named.

Invariant: nothing is written, and only the count of a training step runs a process. A run that cannot fit is refused
before anything is written. Advisors of the package need no plan: they fit everywhere.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.gpus import visible_gpus
from pace_async.plan.counted import NotCounted, counted
from pace_async.plan.machine import room_here
from pace_async.plan.places import CardMemory, Owned, Room
from pace_async.plan.planned import Counter, Model, Plan, plan_of
from pace_async.plan.served import refuse_unless_divisible
from pace_async.registry.advisors import advisor_of
from pace_async.runtime.children.advisor_choice import context_of
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.children.cards import assigned

SMALL = 1 << 30
"""An advisor whose files are smaller, in bytes, is not planned on a processor: it fits, and a count takes seconds."""


def plan_for(config: Config, cards: Sequence[CardMemory], count: Counter = counted) -> Plan:
    """The plan of a run on such cards, whatever this machine has. `config` names its advisor. Raises UsageError."""
    room = Room({card.name: card for card in cards})
    return plan_of(config, _model(config), _owned(config, [card.name for card in cards]), room, count)


def plan_here(config: Config, folder: Path) -> Plan:
    """The plan of a run in this folder on this machine. Raises UsageError."""
    room = room_here(visible_gpus(), folder)
    return plan_of(config, _model(config), _owned(config, list(room.cards)), room)


def refuse_unless_it_fits(config: Config, folder: Path) -> None:
    """Raises UsageError for a run that cannot fit on this machine, as far as that is known. Files of the run that are
    in `folder` already count as free. A step that cannot be counted refuses nothing."""
    kind = advisor_of(config.advisor.model)
    if not kind.served or kind.packaged:
        return
    room = with_own_files(room_here(visible_gpus(), folder), folder)
    if not room.cards and _size(advisor_folder(config.advisor.model)) < SMALL:
        return
    try:
        plan = plan_of(config, _model(config), _owned(config, list(room.cards)), room)
    except NotCounted:
        return
    if plan.refusal is not None:
        raise UsageError(f"{plan.refusal} `pace plan` prints every part.")


def with_own_files(room: Room, folder: Path) -> Room:
    """The room where versions and checkpoints of a run that is resumed make way for its next ones."""
    own = sum(file.stat().st_size for file in folder.glob("learner/*/*/*.safetensors"))
    host = None if room.host is None else room.host + (own if room.disk_in_memory else 0)
    return replace(room, host=host, disk=None if room.disk is None else room.disk + own)


def _owned(config: Config, cards: Sequence[str]) -> Owned:
    chosen = assigned(config, cards)
    return {"learner": chosen.learner, "engine": chosen.engine}


def _model(config: Config) -> Model:
    if not advisor_of(config.advisor.model).served:
        raise UsageError(f"--advisor {config.advisor.model} has no weights here: there is nothing to plan.")
    folder = advisor_folder(config.advisor.model)
    refuse_unless_divisible(config.advisor.model, folder, config.advisor.ranks)
    return Model(folder, context_of(config.advisor, folder))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
