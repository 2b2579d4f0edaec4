"""pace rescore: score the programs of a run again, after its evaluator was corrected."""

import sys
import time
from typing import TYPE_CHECKING

import typer

from pace_async.cli.output import JSON_OPTION, RUN_ARGUMENT, print_json, tell
from pace_async.runtime.run_paths import find_run_paths

if TYPE_CHECKING:
    from pace_async.cli.documents import Rescored
    from pace_async.runtime.start.rescoring import Rescore

SHOW_S = 2.0
"""Seconds between two lines where the output is not a terminal, ten times as many; on a terminal one line is
renewed."""


def rescore(
    run: str | None = RUN_ARGUMENT,
    best: int | None = typer.Option(
        None, "--best", min=1, help="Only so many of the best programs. The others have no score afterwards."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say how many programs and how long. Nothing is scored."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Score a run's programs again, after its evaluator was corrected.

    The new scores come into force together, when all are there. From then on `best`, `leaderboard`, `status`, `report`
    and a resume use them. The earlier scores stay in `epoch_scores`. An interrupted rescore continues where it stopped.
    Rewards that were trained stay as they were.

    Example: pace rescore circle_packing-1 --dry-run

    Example: pace rescore circle_packing-1 --best 50
    """
    paths = find_run_paths(run)
    from pace_async.runtime.start.rescoring import rescore as scored_anew

    done = scored_anew(run, best, _Progress().show, dry=dry_run)
    if as_json:
        print_json(_fields(done))
        return
    tell(_words(done, str(paths.folder)))


def _fields(done: "Rescore") -> "Rescored":
    before, after = done.before, done.best
    return {
        "epoch": done.epoch,
        "programs": done.programs,
        "scored": done.scored,
        "expected_seconds": done.expected_s,
        "unchanged": done.known,
        "best_before": None if before is None else {"candidate": before.candidate, "score": before.score},
        "best": None if after is None else {"candidate": after.candidate, "score": after.score},
    }


def _words(done: "Rescore", folder: str) -> str:
    if done.known:
        return f"{folder}: nothing to do, the task has not changed since its programs were scored."
    left = done.programs - done.scored
    if done.best is None:
        already = f" ({done.scored:,} are scored already)" if done.scored else ""
        return f"{folder}: {left:,} programs to score{already}, about {_duration(done.expected_s)}."
    before = "none" if done.before is None else f"{done.before.score:.6g} of candidate {done.before.candidate}"
    return (
        f"{folder}: {done.programs:,} programs scored again, epoch {done.epoch} is in force.\n"
        f"best  {done.best.score:.6g} of candidate {done.best.candidate} (before: {before})"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


class _Progress:
    """A line on standard error: how many are scored, and how long the rest may take."""

    def __init__(self) -> None:
        self._terminal, self._last, self._first = sys.stderr.isatty(), 0.0, 0

    def show(self, done: int, programs: int, seconds: float) -> None:
        """Renew the line, at intervals."""
        now, self._first = time.monotonic(), self._first or done - 1
        due = SHOW_S / 10 if self._terminal else SHOW_S * 10
        if done < programs and now - self._last < due:
            return
        self._last, rate = now, (done - self._first) / max(seconds, 1e-9)
        rest = f", about {_duration((programs - done) / rate)} left" if done < programs else ""
        line = f"{done:,} of {programs:,} programs scored{rest}"
        end = "\n" if not self._terminal or done == programs else ""
        sys.stderr.write(f"\r\x1b[K{line}{end}" if self._terminal else f"{line}{end}")
        sys.stderr.flush()
