"""Writes a page generated from the code, or reports that it is out of date."""

import sys
from collections.abc import Sequence
from pathlib import Path


def written(page: Path, text: str, arguments: Sequence[str]) -> int:
    """Write `text` to `page`; With --check among the arguments only compare. Returns the exit code."""
    if "--check" not in arguments:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.is_file() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"{page} is out of date: python {Path(arguments[0]).name} writes it.", file=sys.stderr)
    return 1
