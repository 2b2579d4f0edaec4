"""What a command that fails says on standard error: one sentence, or one JSON document with --json."""

import sys
from collections.abc import Sequence

from pace_async.cli.output import json_text
from pace_async.outside import indented


def refused(kind: str, message: str, code: int, notes: Sequence[str] = ()) -> None:
    """Say why. `notes` is foreign text, such as what a program printed, and `message` may quote some, such as a name of
    a file. Nothing of it goes to standard output, which holds a whole document or none."""
    if _wants_json():
        from pace_async.cli.documents import ErrorShown

        document: ErrorShown = {"error": kind, "message": message, "exit_code": code, "notes": list(notes)}
        sys.stderr.write(f"{json_text(document)}\n")
        return
    sys.stderr.write(f"pace: {indented(message, 0)}\n")
    for note in notes:
        sys.stderr.write(f"{indented(note)}\n")


def _wants_json() -> bool:
    """Whether --json is among the words of the command. The words may be wrong, so they are not parsed."""
    words = sys.argv[1:]
    return "--json" in (words[: words.index("--")] if "--" in words else words)
