"""Writes a page that is made from the code, or says that it is out of date."""

import sys
from collections.abc import Sequence
from pathlib import Path


def written(page: Path, text: str, arguments: Sequence[str]) -> int:
    """Write `text` to `page`; with --check among the arguments only compare. The exit code."""
    if "--check" not in arguments:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.is_file() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"{page} is out of date: python {Path(arguments[0]).name} writes it.", file=sys.stderr)
    return 1
