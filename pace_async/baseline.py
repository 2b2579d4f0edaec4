"""Recorded runs of a search, shown beside a run: the same search without learning, for instance.

Invariant: nothing in a search depends on it. A run is compared only if it has the recorded settings and the seed
program's recorded score, and only up to the recorded number of candidates.
Not a benchmark: a run beside recorded ones is one run. `research/trials/record_baseline.py` writes the files.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator

from pace_async.config.section import Section
from pace_async.configure import flat
from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.fitness import Fitness
from pace_async.task import BUNDLED, CHECKOUT

SUFFIX = ".json"


class Baseline(Section):
    """Recorded runs. `what` says what they are, as in "without learning". `settings` are those that a run must share to
    be compared, by dotted key. Each of `curves` is one run: the seed program's score, then the best score after each
    `step` candidates. All have the same length."""

    what: str
    command: str
    date: str
    seeds: tuple[int, ...]
    settings: Mapping[str, object]
    step: int = Field(ge=1)
    curves: tuple[tuple[float, ...], ...]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if len(self.curves) != len(self.seeds) or not self.curves:
            raise ValueError("there must be one curve for each seed")
        if len({len(curve) for curve in self.curves}) != 1 or not self.curves[0]:
            raise ValueError("the curves must have the same length")
        if len({curve[0] for curve in self.curves}) != 1:
            raise ValueError("each curve must begin with the seed program's score")
        return self

    @property
    def length(self) -> int:
        """The number of candidates of each run."""
        return self.step * (len(self.curves[0]) - 1)

    @property
    def seeds_in_words(self) -> str:
        """The seeds, as in "1 to 12" or "1, 3, 4"."""
        first, last = min(self.seeds), max(self.seeds)
        whole = len(self.seeds) > 2 and sorted(self.seeds) == list(range(first, last + 1))
        return f"{first} to {last}" if whole else ", ".join(map(str, sorted(self.seeds)))

    def after(self, candidates: float) -> tuple[float, ...]:
        """The best score of each run after so many candidates, or a few more, in ascending order. Empty beyond the
        length."""
        place = math.ceil(candidates / self.step)
        return tuple(sorted(curve[place] for curve in self.curves)) if place < len(self.curves[0]) else ()


@dataclass(frozen=True, slots=True)
class Span:
    """The recorded best scores after some number of candidates."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Recorded runs beside a run. `differs` says why the run is not compared, empty if it is."""

    recorded: Baseline
    fitness: Fitness
    differs: str = ""

    def span(self, candidates: float) -> Span | None:
        """None if the run is not compared there."""
        scores = () if self.differs else self.recorded.after(candidates)
        return Span(scores[0], statistics.median(scores), scores[-1]) if scores else None

    def worse_than(self, score: float, candidates: float) -> int:
        """How many of the recorded runs had a worse score after so many candidates."""
        scores = () if self.differs else self.recorded.after(candidates)
        return sum(self.fitness.better(score, other) for other in scores)

    def lead(self, score: float, candidates: float) -> float | None:
        """How much better the score is than the recorded median, negative if it is worse."""
        span = self.span(candidates)
        return None if span is None else self.fitness.gain(score, span.median)


def load_baseline(name: str) -> Baseline:
    """The recorded runs of a file, or of the package by name. Raises UsageError."""
    path = Path(name) if name.endswith(SUFFIX) else _bundled().get(name)
    if path is None:
        known = ", ".join(sorted(_bundled())) or "none"
        raise UsageError(f"There is no baseline {name!r}: name a file that ends in {SUFFIX}, or one of these: {known}.")
    try:
        return Baseline.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"Cannot read the baseline {name}: {error.strerror}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{name} holds no recorded runs: {f'{where}: ' if where else ''}{message}.") from None


def beside_of(header: RunHeader, seed_score: float | None = None) -> BaselineComparison | None:
    """The recorded runs that a run names, None if it names none, or if they can no longer be read."""
    name = header.config.get("baseline")
    if not isinstance(name, str):
        return None
    try:
        recorded = load_baseline(name)
    except UsageError:
        return None
    return BaselineComparison(recorded, header.fitness, _difference(recorded, header, seed_score))


def _difference(recorded: Baseline, header: RunHeader, seed_score: float | None) -> str:
    settings = flat(header.config)
    for key, value in recorded.settings.items():
        if key not in settings or settings[key] != value:
            return f"{key} is {settings.get(key)}, and they have {value}"
    if seed_score is not None and seed_score != recorded.curves[0][0]:
        return "the seed program has another score"
    return ""


def _bundled() -> dict[str, Path]:
    folders = [root / "configs" / "baselines" for root in (BUNDLED, CHECKOUT)]
    return {file.stem: file for folder in folders if folder.is_dir() for file in sorted(folder.glob(f"*{SUFFIX}"))}
