"""Writes docs/choices.md from the registries: everything that can be chosen by name.

python scripts/documentation/docs_choices.py           write the page
python scripts/documentation/docs_choices.py --check   exit code 1 if the page is not what would be written
"""

import sys
from pathlib import Path
from typing import Any

from pace_async.registry.advisors import ADVISORS
from pace_async.registry.base import Entry, Registry
from pace_async.registry.corrections import CORRECTIONS
from pace_async.registry.displays import DISPLAYS
from pace_async.registry.engines import ADVISOR_ENGINES
from pace_async.registry.evaluators import EVALUATORS
from pace_async.registry.implementers import IMPLEMENTERS
from pace_async.registry.objectives import ALPHA_SCHEDULES, OBJECTIVES
from pace_async.registry.parent_rules import PARENT_RULES
from pace_async.registry.sandbox_tiers import SANDBOX_TIERS
from pace_async.registry.staleness_policies import STALENESS_POLICIES
from pace_async.registry.task_groups import TASK_GROUPS
from pace_async.registry.trainers import TRAINERS
from pace_async.registry.transports import TRANSPORTS
from pace_async.registry.watchers import WATCHERS
from scripts.documentation.docs_page import written

TABLES: tuple[tuple[str, Registry[Any]], ...] = (
    ("learner.objective", OBJECTIVES),
    ("learner.alpha_schedule", ALPHA_SCHEDULES),
    ("learner.correction", CORRECTIONS),
    ("learner.trainer", TRAINERS),
    ("search.parents", PARENT_RULES),
    ("staleness.policy", STALENESS_POLICIES),
    ("implementer.model", IMPLEMENTERS),
    ("advisor.model", ADVISORS),
    ("advisor.engine", ADVISOR_ENGINES),
    ("advisor.transport", TRANSPORTS),
    ("evaluation.evaluators", EVALUATORS),
    ("evaluation.unsafe_no_sandbox", SANDBOX_TIERS),
    ("--display", DISPLAYS),
    ("--log", WATCHERS),
    ("--group", TASK_GROUPS),
)
"""Each with the setting or flag that chooses an entry."""
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
