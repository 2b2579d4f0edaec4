"""A comparison of runs as a value: what `pace compare` prints, `pace_async.compare` returns and the web page shows.

Pure, except that `plot` may write a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from pace_async.report.comparison import Arm, By, ComparedRun, Estimate, arms_of, common, difference, reaches, verdict
from pace_async.report.diagnostics import place_reaching
from pace_async.report.durations import hours_in_words


class ComparedRunShown(TypedDict):
    """One of the runs compared. `curve` has [place, score] at each improvement. `best_compared` is the best score at
    the place at which all are compared, `fresh_score` the score of the best program there at fresh seeds, None if it
    was tried at none, and `hypervolume` that of the front there, None without objectives. `reaches_first`: the place at
    which it is as good as the mean of the first arm, None if it never is. Spikes: how often entropy and gradient norm
    rise beyond twice their running median in the last half of the updates. `reward_spread`: the standard deviation of
    rewards in a group, in the first and the last quarter. Each is None with fewer than eight groups."""

    run: str
    arm: str
    seed: int
    state: str
    candidates: int
    best_score: float | None
    best_compared: float | None
    spend_usd: float | None
    spend_known_usd: float
    curve: list[tuple[float, float]]
    length: float
    fresh_score: float | None
    hypervolume: float | None
    reaches_first: float | None
    entropy_spikes: int | None
    grad_norm_spikes: int | None
    groups_trained: int
    reward_spread: tuple[float, float] | None


class FreshMean(TypedDict):
    """A mean of scores at fresh seeds with its 95 % interval, over so many seeds."""

    seeds: int
    mean: float | None
    low: float | None
    high: float | None


class ArmShown(TypedDict):
    """Runs that differ only in the seed: their mean with its 95 % interval, and the settings in which arms differ."""

    arm: str
    seeds: int
    settings: dict[str, Any]
    mean: float | None
    low: float | None
    high: float | None
    fresh: FreshMean


class FreshDifference(TypedDict):
    """The difference of two arms' scores at fresh seeds, with its 95 % interval."""

    difference: float | None
    low: float | None
    high: float | None
    told_apart: bool | None


class DifferenceShown(FreshDifference):
    """How much the mean of an arm is above that of the first, with its 95 % interval. `told_apart`: whether the
    interval leaves out 0, None without one. `reaches`: the place at which the arm's mean curve is as good as the other
    arm's mean at the end, None if it never is, and `is_reached` the reverse."""

    arm: str
    against: str
    fresh: FreshDifference
    reaches: float | None
    is_reached: float | None


class FrontsShown(TypedDict):
    """The same of the hypervolumes of fronts: the share of what lies between the bounds of the objectives that programs
    dominate. `reference` is the worse bound of each, up to which they count."""

    reference: dict[str, float]
    arms: list[ArmShown]
    differences: list[DifferenceShown]
    verdicts: list[str]


class ComparisonShown(TypedDict):
    """Runs of one task, compared at `place`, which counts candidates, hours of search or USD as `by` says. `candidates`
    is the number that the shortest run has that has any. `verdicts` are the differences in sentences.
    `fronts` is None without objectives."""

    task: str
    direction: str
    candidates: int
    by: By
    place: float
    runs: list[ComparedRunShown]
    arms: list[ArmShown]
    differences: list[DifferenceShown]
    verdicts: list[str]
    fronts: FrontsShown | None


SHORT = 2.0
"""A run that is so many times shorter than the longest is named, because it cuts off the others."""


def in_words(place: float, by: By) -> str:
    """A place with its unit. Hours are told in seconds or minutes where they are few."""
    if by == "candidates":
        return f"{place:,.0f} candidate{'' if place == 1 else 's'}"
    return hours_in_words(place) if by == "hours" else f"{place:.3g} USD"


def share_in_words(place: float | None, end: float, by: By) -> str | None:
    """A place, and its share of the whole."""
    return None if place is None or not end else f"{in_words(place, by)} ({100 * place / end:.0f} %)"


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Runs of one task by arms, runs that differ only in the seed. All are compared at `place`, the end of the shortest
    one, `by` candidates, hours of search or USD. Printed, it is the table and the sentences of `pace compare`."""

    arms: tuple[Arm, ...]
    by: By = "candidates"

    @classmethod
    def of(cls, runs: Sequence[ComparedRun], by: By = "candidates") -> "Comparison":
        """The comparison of at least one run, all of one task and with their places `by` the same."""
        return cls(arms_of(runs), by)

    @property
    def every(self) -> list[tuple[Arm, ComparedRun]]:
        """Each run with its arm."""
        return [(arm, run) for arm in self.arms for run in arm.runs]

    @property
    def place(self) -> float:
        """Where the runs are compared."""
        return common([run for _, run in self.every])

    @property
    def has_fresh(self) -> bool:
        """Whether a best program has another score at fresh seeds. In a task whose instances do not depend on the seed
        none has, and then fresh scores are not shown."""
        scores = ((run.best_after(self.place), run.fresh_after(self.place)) for _, run in self.every)
        return any(fresh is not None and fresh != best for best, fresh in scores)

    @property
    def fronts(self) -> "Comparison | None":
        """The same by the hypervolumes of the fronts instead of the scores. None without objectives."""
        if not any(run.fronts for _, run in self.every):
            return None
        arms = (
            replace(
                arm, runs=tuple(replace(run, curve=run.fronts, fresh=(), fronts=()) for run in arm.apart or arm.runs)
            )
            for arm in self.arms
        )
        return Comparison(tuple(arms), self.by)

    @property
    def reference(self) -> dict[str, float]:
        """The worse bound of each objective, up to which a hypervolume counts."""
        aims = self.arms[0].runs[0].fitness.aims
        return {aim.metric: aim.lower if aim.higher else aim.upper for aim in aims}

    @property
    def runs(self) -> list[ComparedRunShown]:
        """A row for each run."""
        return [self.row(arm, run) for arm, run in self.every]

    @property
    def differences(self) -> list[DifferenceShown]:
        """A row for each arm but the first: its difference to the first, with the interval."""
        first, place, fitness = self.arms[0], self.place, self.arms[0].runs[0].fitness
        return [
            {
                "arm": arm.name,
                "against": first.name,
                **_difference(difference(arm, first, place)),
                "fresh": _difference(difference(arm, first, place, fresh=True)),
                "reaches": reaches(arm, first, place, fitness),
                "is_reached": reaches(first, arm, place, fitness),
            }
            for arm in self.arms[1:]
        ]

    @property
    def told_apart(self) -> list[str]:
        """How each arm differs from the first, in sentences."""
        first, place, fitness = self.arms[0], self.place, self.arms[0].runs[0].fitness
        sentences: list[str] = []
        for arm, row in zip(self.arms[1:], self.differences, strict=True):
            sentences.append(verdict(arm, first, difference(arm, first, place), fitness))
            sides = ((arm, first, row["reaches"]), (first, arm, row["is_reached"]))
            earliest = min((side for side in sides if side[2] is not None), key=lambda side: side[2] or 0, default=None)
            if earliest is not None and (at := share_in_words(earliest[2], place, self.by)):
                sentences.append(f"{earliest[0].name} reaches the final mean of {earliest[1].name} after {at}.")
        return sentences

    @property
    def verdicts(self) -> list[str]:
        """What the differences show, in sentences."""
        sentences = self.told_apart
        for arm in self.arms:
            for run in arm.repeats:
                sentences.append(
                    f"{run.run} repeats a run of {arm.name} with equal seed and scores, and counts for no mean."
                )
        sentences += self._lengths()
        if len({run.task_digest for _, run in self.every}) > 1:
            sentences.append("The evaluators of these runs differ, so their scores may not be comparable.")
        return sentences

    def _lengths(self) -> list[str]:
        """Which runs count for nothing, and which one ended far earlier than the others."""
        runs = [run for _, run in self.every]
        sentences = [
            f"{run.run} has no complete candidate ({run.state}), and counts for no mean."
            for run in runs
            if not run.candidates
        ]
        longest, shortest = (
            max(run.length for run in runs),
            min((run for run in runs if run.candidates), key=lambda run: run.length, default=None),
        )
        if shortest is not None and longest > SHORT * shortest.length:
            ends = f"{in_words(shortest.length, self.by)} ({shortest.state}), where all are compared"
            sentences.append(f"{shortest.run} ends after {ends}: the longest goes on to {in_words(longest, self.by)}.")
        return sentences

    def document(self) -> ComparisonShown:
        """All of it as plain values: what `pace compare --json` prints."""
        runs = [run for _, run in self.every]
        return {
            "task": runs[0].task,
            "direction": runs[0].fitness.name,
            "candidates": min((run.candidates for run in runs if run.candidates), default=0),
            "by": self.by,
            "place": self.place,
            "runs": self.runs,
            "arms": [self._arm(arm) for arm in self.arms],
            "differences": self.differences,
            "verdicts": self.verdicts,
            "fronts": None
            if (fronts := self.fronts) is None
            else {
                "reference": self.reference,
                "arms": [fronts._arm(arm) for arm in fronts.arms],
                "differences": fronts.differences,
                "verdicts": fronts.told_apart,
            },
        }

    def plot(self, path: str | Path | None = None) -> Any:
        """The mean curve of each arm with its interval as a matplotlib figure, written to `path`, .svg or .png, if one
        is given. Raises UsageError without matplotlib, for another kind of file, and if it cannot be written."""
        from pace_async.report.comparison_plot import draw_comparison, write

        figure = draw_comparison(self)
        if path is not None:
            write(figure, Path(path))
        return figure

    def __repr__(self) -> str:
        from pace_async.report.comparison_text import lines

        return "\n".join(lines(self))

    def row(self, arm: Arm, run: ComparedRun) -> ComparedRunShown:
        """The row of one run."""
        final = self.arms[0].mean(self.place)
        return {
            "run": run.run,
            "arm": arm.name,
            "seed": run.seed,
            "state": run.state,
            "candidates": run.candidates,
            "best_score": run.best_after(run.length),
            "best_compared": run.best_after(self.place),
            "spend_usd": run.spend_usd,
            "spend_known_usd": run.spend_known_usd,
            "curve": list(run.curve),
            "length": run.length,
            "fresh_score": run.fresh_after(self.place),
            "hypervolume": run.front_after(self.place),
            "reaches_first": None if final is None else place_reaching(run.curve, final.value, run.fitness),
            "entropy_spikes": run.diagnostics.entropy_spikes,
            "grad_norm_spikes": run.diagnostics.grad_norm_spikes,
            "groups_trained": run.diagnostics.trained,
            "reward_spread": run.diagnostics.reward_spread,
        }

    def _arm(self, arm: Arm) -> ArmShown:
        mean, fresh = arm.mean(self.place), arm.mean(self.place, fresh=True)
        return {
            "arm": arm.name,
            "seeds": len(arm.apart),
            "settings": dict(arm.settings),
            "mean": mean and mean.value,
            "low": mean and mean.low,
            "high": mean and mean.high,
            "fresh": {
                "seeds": len(arm.scores(self.place, fresh=True)),
                "mean": fresh and fresh.value,
                "low": fresh and fresh.low,
                "high": fresh and fresh.high,
            },
        }


def _difference(estimate: Estimate | None) -> FreshDifference:
    return {
        "difference": estimate and estimate.value,
        "low": estimate and estimate.low,
        "high": estimate and estimate.high,
        "told_apart": estimate and estimate.told_apart,
    }
