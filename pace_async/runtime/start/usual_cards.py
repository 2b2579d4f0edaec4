"""The cards of a run that is looked at on a machine without any.

Invariant: no card is asked for that some smaller usual one could replace.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pace_async.config import Config
from pace_async.errors import NotHere, UsageError
from pace_async.gpus import visible_gpus
from pace_async.plan.counted import NotCounted, count_step
from pace_async.plan.machine import capacity_here
from pace_async.plan.places import Capacity, CardMemory, Owned, in_gib
from pace_async.plan.planned import Counter, Plan, plan_of
from pace_async.runtime.start.planning import (
    cards_of_evaluations,
    is_planned,
    is_small,
    model_of,
    owned_cards,
    refuse_unknown_model,
    refuse_unless_it_fits,
)

CARDS = (("an L4", 22.0), ("an L40S", 44.4), ("an H100", 79.2), ("an H200", 139.8), ("a B200", 178.0))
"""Usual cards, with the GiB that a process can have of each."""
MOST_CARDS = 16


@dataclass(frozen=True, slots=True)
class WithoutCards:
    """The plan, on the processor here if that holds it, else on `number` usual cards like `card`, of `gib` GiB each.
    `number` 0: on the processor."""

    plan: Plan
    number: int = 0
    card: str = ""
    gib: float = 0.0

    def in_words(self) -> str:
        """The cards that the run needs, as a clause, with what each would hold."""
        cards = "1 card" if self.number == 1 else f"{self.number} cards"
        each = f"{cards} of {self.gib:g} GiB{' each' * (self.number > 1)}, such as {self.card}"
        places = [place for place in self.plan.places if place.name.startswith("card ")]
        owners = [" and ".join(dict.fromkeys(part.owner for part in place.parts)) for place in places]
        needs = ", ".join(
            f"{in_gib(place.needed)} GiB on {place.name} ({owner})" for place, owner in zip(places, owners, strict=True)
        )
        evaluations = self.plan.evaluation_cards
        if evaluations:
            needs += f"; and {evaluations} more card{'s' * (evaluations > 1)} for evaluations"
        does_not_fit = f", and even that does not fit: {'; '.join(self.plan.faults)}" if self.plan.faults else ""
        return f"{each} ({needs}){does_not_fit}"


def without_cards(config: Config, folder: Path, count: Counter = count_step) -> WithoutCards:
    """The plan of a run in this folder, on a machine that has no card. Raises UsageError for a model that cannot be
    built, and cards that no machine has, NotCounted."""
    refuse_unknown_model(config)
    count, model = cache(count), model_of(config)
    try:
        here = plan_of(config, model, owned_cards(config, ()), capacity_here((), folder), count, remedies=False)
        if not here.faults:
            return WithoutCards(here)
    except NotHere:
        pass
    number, owned = _fewest(config)

    def on_cards(card: str, gib: float) -> WithoutCards:
        cards = {str(at): CardMemory(str(at), gib * 2**30) for at in range(number)}
        plan = plan_of(config, model, owned, Capacity(cards), count, remedies=False)
        return WithoutCards(replace(plan, evaluation_cards=cards_of_evaluations(config)), number, card, gib)

    smaller = (on_cards(card, gib) for card, gib in CARDS[:-1])
    return next((estimate for estimate in smaller if not estimate.plan.faults), None) or on_cards(*CARDS[-1])


def planned_for_dry_run(config: Config, folder: Path) -> tuple[Plan | None, str]:
    """The plan, None if none is made, and the cards that the run needs where this machine has none, else "". Raises
    UsageError for a run that does not fit on the cards of this machine."""
    if visible_gpus() or not is_planned(config) or is_small(config):
        return refuse_unless_it_fits(config, folder), ""
    try:
        estimate = without_cards(config, folder)
    except NotCounted:
        return None, ""
    return estimate.plan, estimate.in_words() if estimate.number else ""


def _fewest(config: Config) -> tuple[int, Owned]:
    """The fewest cards with which the settings can be met, and who owns which. Raises UsageError."""
    for number in range(1, MOST_CARDS):
        try:
            return number, owned_cards(config, [str(at) for at in range(number)])
        except UsageError:
            continue
    return MOST_CARDS, owned_cards(config, [str(at) for at in range(MOST_CARDS)])
