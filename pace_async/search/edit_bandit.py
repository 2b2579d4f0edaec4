"""Which edit of a catalogue to try next, without a model: Thompson sampling over option × kind of target.

An arm is an option at targets of one kind. A target is what an edit sets: a mechanism, or a mechanism at a site. Its
kind is its name without the number of its site: `sensor3 predictor` and `sensor7 predictor` are one kind. So a result
at one site counts for all sites of its kind. The reward of an arm is 1 if the program scores better than its parent,
else 0, failures included:

    rate   θ ~ Beta(a + gains, b + others),  (a, b) = PRIOR

The arm with the highest sampled rate is chosen, and one of its edits is drawn uniformly. PRIOR expects one edit in ten
to gain and weighs as much as three results. All results count alike, however old.

Invariant: the choice depends on the edits, the counts and the draw, not on the order in which results came in. Worked
example: arm x gained in 3 of 4 tries and arm y in 0 of 4. Their rates are sampled from Beta(3.3, 3.7), with mean 0.47,
and from Beta(0.3, 6.7), with mean 0.04. An arm that was never tried has mean 0.1, and now and then its sample is above
both.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

PRIOR = (0.3, 2.7)
"""Gains and others that every arm begins with."""

Arm = tuple[str, str]
"""Kind of target, option."""
T = TypeVar("T")

_NUMBER_OF_SITE = re.compile(r"\d+(?= )")
_EDIT = re.compile(r"((?:\S+ )?\S+) to (\S+) from \S+\.")


@dataclass(frozen=True, slots=True)
class Tries:
    """Tries of an arm: those that gained, and the others."""

    gains: int = 0
    others: int = 0


UNTRIED = Tries()
Results = Mapping[Arm, Tries]


def edit_text(target: str, option: str, present: str) -> str:
    """An experiment that sets a target of a catalogue, which has the option `present`."""
    return f"{target} to {option} from {present}."


def arm_of(target: str, option: str) -> Arm:
    """The arm of an edit."""
    return _NUMBER_OF_SITE.sub("", target), option


def arm_in(experiment: str | None) -> Arm | None:
    """The arm of an experiment in the words of `edit_text`, None for any other."""
    edit = _EDIT.fullmatch(experiment) if experiment is not None else None
    return arm_of(edit[1], edit[2]) if edit is not None else None


def with_try(results: Results, arm: Arm, *, gained: bool) -> dict[Arm, Tries]:
    """The results with one more try."""
    before = results.get(arm, UNTRIED)
    return {**results, arm: Tries(before.gains + gained, before.others + (not gained))}


def choose_edit(edits: Sequence[T], arm: Callable[[T], Arm], results: Results, draw: random.Random) -> T:
    """One of at least one edits. `arm` gives the arm of each."""
    by_arm: dict[Arm, list[T]] = {}
    for edit in edits:
        by_arm.setdefault(arm(edit), []).append(edit)
    rates = {bandit_arm: _sampled(results.get(bandit_arm, UNTRIED), draw) for bandit_arm in by_arm}
    return draw.choice(by_arm[max(rates, key=lambda bandit_arm: rates[bandit_arm])])


def _sampled(tries: Tries, draw: random.Random) -> float:
    return draw.betavariate(PRIOR[0] + tries.gains, PRIOR[1] + tries.others)
