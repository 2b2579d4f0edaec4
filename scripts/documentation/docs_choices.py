"""Writes docs/choices.md from the registries: everything that can be chosen by name.

python scripts/documentation/docs_choices.py           write the page
python scripts/documentation/docs_choices.py --check   exit code 1 if the page is not what would be written
"""

import sys
from pathlib import Path
from typing import Any

from pace_async.registry.base import Entry, Registry
from pace_async.registry.tables import TABLES
from scripts.documentation.docs_page import written

PAGE = Path(__file__).parents[2] / "docs" / "choices.md"
HEAD = """\
# What can be chosen by name, and added

Written by `python scripts/documentation/docs_choices.py` from `pace_async/registry`.

To add one, write its file and add one entry to its table in `pace_async/registry`. The flag, its help, the error for a
wrong name, `pace config schema`, docs/configuration.md and this page follow from the entry.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_section(chosen_by, table) for chosen_by, table in TABLES)])


def _section(chosen_by: str, table: Registry[Any]) -> str:
    setting = f": `{chosen_by}`" if chosen_by else ""
    head = f"## {table.kind.capitalize()}{setting}\n\n| name | what it does | code |\n|---|---|---|\n"
    return head + "".join(_row(entry) for entry in table.values())


def _row(entry: Entry[Any]) -> str:
    loads = entry.code or getattr(entry, "of_calls", None) or getattr(entry, "agent", None)
    found = None if loads is None else loads()
    code = "–" if found is None else f"`{found.__name__}` in `{found.__module__.replace('.', '/')}.py`"
    return f"| `{entry.name}` | {entry.about} | {code} |\n"


if __name__ == "__main__":
    sys.exit(written(PAGE, page(), sys.argv))
