"""Reads runs for a comparison. Nothing here compares."""

from collections.abc import Mapping, Sequence
from typing import cast

from pace_async.errors import UsageError
from pace_async.population.reading.reader import Reader
from pace_async.report.comparison import ComparedRun


def compared_run(reader: Reader, name: str | None = None) -> ComparedRun:
    """A run as it is compared, under `name` or its own. Raises UsageError if it cannot be read."""
    with reader.at_one_moment() as held:
        standing, improvements = held.standing(), held.improvements()
    header = standing.header
    return ComparedRun(
        run=name or header.name,
        task=header.task,
        task_digest=header.task_digest,
        direction=header.direction,
        seed=header.seed,
        state=standing.state,
        candidates=standing.candidates,
        spend_usd=standing.spend_usd,
        settings={**flat(header.config), **standing.changes},
        curve=tuple((better.place, better.score) for better in improvements),
    )


def refuse_unless_comparable(runs: Sequence[ComparedRun]) -> None:
    """Raises UsageError for runs of different tasks."""
    first = runs[0]
    for run in runs[1:]:
        if (run.task, run.direction) != (first.task, first.direction):
            raise UsageError(
                f"{first.run} searches {first.task} and {run.run} searches {run.task}: scores of different tasks "
                "do not compare."
            )


def flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Settings by dotted key."""
    found: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found.update(flat(cast("Mapping[str, object]", value), f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found
