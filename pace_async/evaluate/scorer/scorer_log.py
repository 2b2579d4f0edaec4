"""The output and the errors of a task's evaluator, kept for display.

Invariant: it is shown to a person at the terminal and is never in a prompt, row or event.
"""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pace_async.durable import temporary_folder
from pace_async.errors import PaceError
from pace_async.evaluate.sandbox import leftovers

MOST_BYTES = 16 << 10
MOST_LINES = 60


@contextmanager
def scorer_log() -> Generator[Path]:
    """A log in a folder that is removed at the end. A PaceError that leaves the block gets the log's content as a
    note."""
    with tempfile.TemporaryDirectory(prefix=leftovers.prefix(), dir=temporary_folder()) as folder:
        log = Path(folder) / "scorer.log"
        try:
            yield log
        except PaceError as error:
            if output := printed(log):
                error.add_note(f"What the evaluator printed:\n{output}")
            raise


def printed(log: Path) -> str:
    """The last MOST_LINES lines of a log, at most MOST_BYTES bytes, empty if there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - MOST_BYTES))
            lines = stream.read().decode("utf-8", "replace").rstrip().split("\n")
    except OSError:
        return ""
    return "\n".join(lines[-MOST_LINES:])
