"""Which run and which candidate a person means by the words typed."""

from typing import TYPE_CHECKING, Any

from pace_async.errors import UsageError
from pace_async.runtime.places import is_run

if TYPE_CHECKING:
    from pace_async.population.reader import Reader

WHICH = "a candidate number, seed or best"


def without_run(run: str | None, *others: str | None) -> tuple[str | None, ...]:
    """The words as typed, where the first may be left out: it names a run, unless it can only name a candidate. Then
    the run is None, the latest, and each word is the next one's."""
    if run is None or not (run.isdecimal() or run in ("seed", "best", "parent")) or is_run(run):
        return (run, *others)
    if others[-1] is not None:
        raise UsageError(f"There is no run {run!r}: name the run first.")
    return (None, run, *others[:-1])


def find_candidate(reader: "Reader", which: str) -> dict[str, Any]:
    """Everything that is known of a candidate. Raises UsageError, in one sentence, for what is none."""
    if which == "best":
        return reader.show(reader.best()["candidate"])
    if which == "seed":
        return reader.show(0)
    if not which.isdecimal():
        raise UsageError(f"{which!r} is no candidate: give {WHICH}.")
    try:
        number = int(which)
    except ValueError:  # Python reads no number of so many digits
        raise UsageError(f"The run has no candidate with a number of {len(which)} digits.") from None
    return reader.show(number)
