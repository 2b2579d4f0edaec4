"""Plans with a step that is given. A count imports torch in a separate process, which takes seconds."""

from collections.abc import Callable

import pytest

from pace_async.plan import planned
from pace_async.plan.step import StepBytes, StepShape
from pace_async.runtime.start import planning, usual_cards

STEP = StepBytes(
    *(10**5, 10**5), weights=4 * 10**5, reference=0, gradient=4 * 10**5, moments=8 * 10**5, peak=10**7, layer=10**4
)
"""Of a toy, whose cards need more for what starts there than for a step."""


def given(_: StepShape) -> StepBytes:
    return STEP


def count_steps_by(patch: pytest.MonkeyPatch, count: Callable[[StepShape], StepBytes] = given) -> None:
    """Let plans of this process take their steps from `count`."""
    for plan in (planned.plan_of, planning.plan_for, usual_cards.without_cards):
        patch.setattr(plan, "__defaults__", (count,))
