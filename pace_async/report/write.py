"""The report as a file: written whole under its name, over an older report but over nothing else unless asked to."""

import os
from pathlib import Path

from pace_async.errors import UsageError
from pace_async.report.facts import Facts
from pace_async.report.page import MARK, page


def write_page(facts: Facts, target: Path, *, force: bool) -> None:
    """Raises UsageError where `target` is something else than a report, or cannot be written."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if not force and target.exists() and not _is_report(target):
            raise UsageError(f"{target} is there already and is no report: name another file, or add --force.")
        try:
            draft.write_text(page(facts), encoding="utf-8")
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror}.") from None


def _is_report(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(MARK)) == MARK.encode()
