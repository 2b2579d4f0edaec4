"""The place of an error in a task's evaluator, for its author.

Invariant: this text goes to the scorer's log and to `Evaluation.evaluator_error`, both for a person. No model sees
either, because a traceback may hold the hidden instances.
"""

import sys
import traceback
from pathlib import Path

LONGEST_WORDS = 500
LONGEST_TRACEBACK = 8000
PLACES_KEPT = 100


class ErrorReporter:
    """Reports errors raised in the files of one task's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._known: set[str] = set()

    def tell(self, error: BaseException) -> str:
        """`evaluator.py, line 12: NameError: ...`, in one line. The first time that a place raises this kind of error,
        the traceback is printed to standard error, for at most PLACES_KEPT places, so that the log stays small."""
        where = self._place(error)
        kind = type(error).__name__
        if f"{where} {kind}" not in self._known and len(self._known) < PLACES_KEPT:
            self._known.add(f"{where} {kind}")
            text = "".join(self._lines(error))
            sys.stderr.write(text[-LONGEST_TRACEBACK:])
            sys.stderr.flush()
        message = " ".join(str(error)[:LONGEST_WORDS].split())
        words = f"{kind}: {message}" if message else kind
        return f"{where}: {words}" if where else words

    def _lines(self, error: BaseException) -> list[str]:
        """A traceback. For a text that is not Python only the place, because the frames are the importer's, and the
        error itself is in the report."""
        if isinstance(error, SyntaxError) and error.filename and self._relative_place(error.filename, error.lineno):
            return traceback.format_exception_only(error)[:-1]
        return traceback.format_exception(error)

    def _place(self, error: BaseException) -> str:
        """The innermost line in a file of the task's folder, empty if there is none."""
        if isinstance(error, SyntaxError) and error.filename:
            return self._relative_place(error.filename, error.lineno)
        frames = traceback.extract_tb(error.__traceback__)
        return next(
            (place for frame in reversed(frames) if (place := self._relative_place(frame.filename, frame.lineno))), ""
        )

    def _relative_place(self, file: str, line: int | None) -> str:
        path = Path(file).resolve()
        return f"{path.relative_to(self._folder)}, line {line}" if path.is_relative_to(self._folder) else ""
