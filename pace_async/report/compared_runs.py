"""Reads runs for a comparison. Nothing here compares."""

from collections.abc import Mapping, Sequence
from typing import cast

from pace_async.errors import UsageError
from pace_async.population.reading.reader import Reader
from pace_async.report.comparison import By, ComparedRun
from pace_async.report.diagnostics import diagnostics_of


def compared_run(reader: Reader, name: str | None = None, by: By = "candidates") -> ComparedRun:
    """A run as it is compared, under `name` or its own, with its places `by` candidates, hours or USD. Raises
    UsageError if it cannot be read."""
    trajectory = reader.trajectory()
    standing, header = trajectory.standing, trajectory.standing.header
    return ComparedRun(
        run=name or header.name,
        task=header.task,
        task_digest=header.task_digest,
        fitness=header.fitness,
        seed=header.seed,
        state=standing.state,
        candidates=standing.candidates,
        spend_usd=None if trajectory.unpriced else standing.spend_usd,
        spend_known_usd=standing.spend_usd,
        settings={**flat(header.config), **standing.changes},
        curve=tuple((getattr(at, by), score) for at, score in trajectory.scores if score is not None),
        length=getattr(trajectory.end, by),
        fresh=tuple((getattr(at, by), score) for at, score in trajectory.fresh),
        fronts=tuple((getattr(at, by), volume) for at, volume in trajectory.fronts if volume is not None),
        diagnostics=diagnostics_of(
            trajectory.entropy, trajectory.grad_norm, [row.spread for row in trajectory.rewards]
        ),
    )


def refuse_unless_comparable(runs: Sequence[ComparedRun], by: By = "candidates") -> None:
    """Raises UsageError for runs of different tasks, and for runs without a length on the axis or a known cost."""
    first = runs[0]
    for run in runs[1:]:
        if (run.task, run.fitness.name) != (first.task, first.fitness.name):
            raise UsageError(
                f"{first.run} searches {first.task} and {run.run} searches {run.task}: scores of different tasks "
                "do not compare."
            )
        if run.fitness.aims != first.fitness.aims:
            raise UsageError(
                f"{first.run} and {run.run} have not the same objectives and bounds: their scores do not compare."
            )
    unpriced = next((run.run for run in runs if run.spend_usd is None), None)
    if by == "usd" and unpriced is not None:
        raise UsageError(
            f"{unpriced} asked a model whose price is not known, so it has no USD to compare by: take candidates."
        )
    short = next((run.run for run in runs if run.candidates and not run.length), None)
    if short is not None:
        raise UsageError(f"{short} has no {by.upper() if by == 'usd' else by} to compare by: take candidates.")


def flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Settings by dotted key."""
    entries: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            entries.update(flat(cast("Mapping[str, object]", value), f"{prefix}{name}."))
        else:
            entries[f"{prefix}{name}"] = value
    return entries
