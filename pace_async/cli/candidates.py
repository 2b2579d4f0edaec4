"""Resolves the typed arguments to a run and a candidate."""

from typing import TYPE_CHECKING, Any

from pace_async.errors import UsageError
from pace_async.runtime.run_paths import is_run

if TYPE_CHECKING:
    from pace_async.population.reading.reader import Reader

BEST = "best"
WHICH = "a candidate number, seed or best"


def without_run(run: str | None, *others: str | None) -> tuple[str | None, ...]:
    """The typed arguments with an optional run in front. If the first can only be a candidate, the run is None (the
    latest) and every argument moves on by one place."""
    if run is None or not (run.isdecimal() or run in ("seed", "best", "parent")) or is_run(run):
        return (run, *others)
    if others[-1] is not None:
        raise UsageError(f"There is no run {run!r}: name the run first.")
    return (None, run, *others[:-1])


def find_candidate(reader: "Reader", which: str) -> dict[str, Any]:
    """All data of one candidate. Raises UsageError, in one sentence, if there is no such candidate."""
    if which == BEST:
        return reader.show(reader.best()["candidate"])
    if which == "seed":
        return reader.show(0)
    if not which.isdecimal():
        raise UsageError(f"{which!r} is not a candidate: give {WHICH}.")
    try:
        number = int(which)
    except ValueError:  # int() refuses numbers of so many digits
        raise UsageError(f"The run has no candidate with a number of {len(which)} digits.") from None
    return reader.show(number)
