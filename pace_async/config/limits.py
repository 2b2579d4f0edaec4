"""When a run ends, and how long outside services may fail."""

import re
from typing import Any, ClassVar, cast

from pydantic import Field, field_validator, model_validator

from pace_async.config.section import MAY_CHANGE, OnResume, Section

_MINUTES = {"s": 1 / 60, "sec": 1 / 60, "m": 1.0, "min": 1.0, "h": 60.0, "d": 1440.0}
"""How many minutes each unit has that people write behind a number."""


def why_no_minutes(text: str) -> str | None:
    """What to write instead of a text that is no number of minutes, as in "480 for 8h". None for a number."""
    try:
        float(text)
    except ValueError:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]+)", text.strip())
        unit = _MINUTES.get(match[2]) if match is not None else None
        example = "480 for 8 hours" if match is None or unit is None else f"{float(match[1]) * unit:g} for {text}"
        return f"give a number of minutes, such as {example}"
    return None


class StopConfig(Section):
    """When a run ends: whichever comes first."""

    on_resume: ClassVar[OnResume] = MAY_CHANGE

    candidates: int | None = Field(
        default=240, ge=1, description="Candidates evaluated; no default if updates or minutes are set."
    )
    updates: int | None = Field(default=None, ge=1, description="Groups consumed, skipped ones too.")
    minutes: float | None = Field(
        default=None, gt=0, description="Wall-clock minutes of this process. The drain after them is bounded too."
    )
    drain_s: float | None = Field(
        default=None,
        gt=0,
        description="How long the drain after `stop.minutes` may take, in seconds; by default `faults.drain_s`. "
        "Unfinished evaluations are then left for a resume.",
    )
    budget: float | None = Field(
        default=None,
        gt=0,
        description="USD spent on calls of implementer and advisor, the highest cost of calls in flight included.",
    )
    target: float | None = Field(default=None, description="A score at least this good.")
    patience: int | None = Field(
        default=None,
        ge=1,
        description="Candidates in a row without a new best score, counted anew by each process. null: no limit.",
    )
    patience_minutes: float | None = Field(
        default=None,
        gt=0,
        description="Minutes without a new best score, counted anew by each process. null: no limit.",
    )
    untrained: int | None = Field(
        default=32,
        ge=1,
        description="Groups in a row that trained nothing and held no candidate with a score, counted anew by each "
        "process. Such a run gets no better by itself. null: no limit.",
    )

    @field_validator("minutes", "patience_minutes", mode="before")
    @classmethod
    def _number_of_minutes(cls, given: Any) -> Any:
        if isinstance(given, str) and (reason := why_no_minutes(given)) is not None:
            raise ValueError(reason)
        return given

    @model_validator(mode="before")
    @classmethod
    def _default_gives_way(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "candidates" in given:
            return cast("Any", given)
        limits = cast("dict[str, Any]", given)
        other = any(limits.get(name) is not None for name in ("updates", "minutes"))
        return {**limits, "candidates": None} if other else limits


class FaultsConfig(Section):
    """How long outside services may fail."""

    on_resume: ClassVar[OnResume] = MAY_CHANGE

    retries: int = Field(
        default=3,
        ge=0,
        description="Further tries of a rollout's advisor call, or of its evaluation, before the rollout is aborted. "
        "While the stage fails for every rollout, they wait instead.",
    )
    backoff_s: float = Field(
        default=0.5,
        gt=0,
        description="First wait before a retry, in seconds; doubles each time up to 30 s.",
    )
    patience_s: float = Field(
        default=600.0,
        gt=0,
        description="The run gives up after so many seconds in which a stage failed at every try, or the engine, the "
        "learner, every model or the database could not be reached.",
    )
    hung_s: float = Field(
        default=120.0,
        gt=0,
        description="An engine or a learner of this run is killed and started again after so many seconds without a "
        "sign of life, busy or idle.",
    )
    max_aborted: int = Field(
        default=20,
        ge=1,
        description="The run gives up after so many rollouts aborted in a row.",
    )
    runtime_memory_mb: int | None = Field(
        default=None,
        gt=0,
        description="Memory limit of the runtime's own process, in MiB, where control groups can be made; by default "
        "half of this machine's memory, and at least 2048.",
    )
    drain_s: float = Field(
        default=120.0,
        gt=0,
        description="How long a drain may take, in seconds. Unfinished rollouts are then left for a resume.",
    )

    def backoff(self, attempt: int) -> float:
        """Seconds to wait before try `attempt` (from 1): doubling, at most 30."""
        return min(30.0, self.backoff_s * 2.0 ** (min(attempt, 32) - 1))
