"""What commands print with `--json`, as typed dictionaries, and the table of all of them for `pace schema`.

Invariant: each command that takes `--json` has an entry. The types for reading a run, evaluating and simulating stand
in `interface`, where Python gets the same values.
"""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from pace_async.cli.prompt_history import Again, Prompt
from pace_async.interface.documents import (
    BestProgram,
    FrontShown,
    GivenIdeaShown,
    ListedRun,
    NotesShown,
    ShownCandidate,
    ShownOutcome,
)
from pace_async.population.copying import TableCopied
from pace_async.population.reading.island_types import IslandNow


class ErrorShown(TypedDict):
    """Why a command failed, on standard error. `error` is a class of `pace_async.errors`. `notes` is what a program
    printed."""

    error: str
    message: str
    exit_code: int
    notes: list[str]


Rows = list[dict[str, Any]]
"""Rows by column name; docs/sql.md describes the columns."""


class BestWithFile(BestProgram):
    """The best candidate, and the file that its program was written to."""

    path: str


Best = BestWithFile | FrontShown


class PromptsShown(TypedDict):
    """All prompts of one candidate. `messages` have `role` and `content`. `note` says why there are none, or how they
    differ from what was asked."""

    candidate: int
    advisor: list[Prompt]
    messages: list[dict[str, str]]
    note: str
    repairs: list[Again]


Shown = ShownCandidate | PromptsShown | list[IslandNow] | list[NotesShown]
Listed = list[ListedRun]
GivenIdeas = list[GivenIdeaShown]


class DiffSide(TypedDict):
    """One of two programs that are compared."""

    candidate: int
    score: float | None
    outcome: ShownOutcome


class Diff(TypedDict):
    """The difference of two programs. `diff` is unified. `added` and `removed` count lines."""

    a: DiffSide
    b: DiffSide
    added: int
    removed: int
    diff: str


class Logged(TypedDict):
    """How many records each logger was sent."""

    run: str
    records: dict[str, int]


class RescoredBest(TypedDict):
    """A best program before or after its run was rescored."""

    candidate: int
    score: float


class Rescored(TypedDict):
    """What was rescored, or would be. `unchanged`: the task has not changed, so there is nothing to do."""

    epoch: int
    programs: int
    scored: int
    expected_seconds: float
    unchanged: bool
    best_before: RescoredBest | None
    best: RescoredBest | None


class ExportedFile(TypedDict):
    """Rows that were written to a file, or programs to a folder."""

    what: str
    rows: int
    path: str


Exported = Rows | ExportedFile


class WrittenFile(TypedDict):
    """A file that was written, and its size."""

    path: str
    bytes: int


class AdvantagesShown(TypedDict):
    """The advantages of a group, None if it is skipped, for a `reason`."""

    advantages: list[float] | None
    skipped: bool
    reason: NotRequired[str]


class Finding(TypedDict):
    """One thing that was examined on this machine. `ok` is None where something is missing that only some
    settings need."""

    check: str
    ok: bool | None
    found: str
    remedy: str


Findings = list[Finding]


class ListedTask(TypedDict):
    """A task that can be searched. Of a broken one, `about` says what is wrong, and the other fields are empty."""

    task: str
    group: str | None
    direction: str
    lower: float | None
    upper: float | None
    about: str


Tasks = list[ListedTask]


class NewTask(TypedDict):
    """A task that was made."""

    task: str
    folder: str
    files: list[str]


class ImportedTask(TypedDict):
    """A task that was made from another project's example, with what was and what was not taken over."""

    task: str
    folder: str
    taken_over: list[str]
    not_taken_over: list[str]


class ImportedTasks(TypedDict):
    """What `pace task import --all` made, and the names of what it could not."""

    imported: list[ImportedTask]
    failed: list[str]


Imports = ImportedTask | ImportedTasks | list[str]
"""One task, all of a project, or with --list the names of its examples."""


class TaskFinding(TypedDict):
    """One check of a task. `warning`: it passes, and a run prints the same warning."""

    check: str
    ok: bool
    warning: bool
    found: str
    remedy: str
    evaluator_log: str | None


class CheckedTask(TypedDict):
    """Whether a task is sound."""

    sound: bool
    checks: list[TaskFinding]


class DatabaseFinding(TypedDict):
    """One check of a database. `wrong` has one line for each damage."""

    check: str
    ok: bool
    found: str
    wrong: list[str]


class CheckedDatabase(TypedDict):
    """Whether a database is sound."""

    sound: bool
    damage: list[str]
    checks: list[DatabaseFinding]


class CopiedRun(TypedDict):
    """A run that was copied."""

    folder: str
    population: str
    run: str
    files: int
    bytes: int
    tables: list[TableCopied]


class Upgraded(TypedDict):
    """A database after an upgrade, and whether there was one to make."""

    path: str
    upgraded: bool
    before: str


class Validated(TypedDict):
    """Whether a file of settings is valid."""

    valid: bool
    mistakes: list[str]


_HERE, _INTERFACE = "pace_async.cli.documents", "pace_async.interface"
ERROR = f"{_HERE}:ErrorShown"
"""What each of them prints on standard error where it fails."""
DOCUMENTS = {
    "run": "pace_async.cli.dry_run:Planned",
    "status": f"{_INTERFACE}.documents:Status",
    "best": f"{_HERE}:Best",
    "show": f"{_HERE}:Shown",
    "idea list": f"{_HERE}:GivenIdeas",
    "note": f"{_INTERFACE}.documents:GivenNoteShown",
    "list": f"{_HERE}:Listed",
    "diff": f"{_HERE}:Diff",
    "compare": "pace_async.report.compared:ComparisonShown",
    "export": f"{_HERE}:Exported",
    "log": f"{_HERE}:Logged",
    "report": f"{_HERE}:WrittenFile",
    "rescore": f"{_HERE}:Rescored",
    "eval": f"{_INTERFACE}.evaluating:EvaluationResult",
    "advantages": f"{_HERE}:AdvantagesShown",
    "simulate": "pace_async.simulate.predict:Prediction",
    "plan": "pace_async.cli.planning:PlanFields",
    "doctor": f"{_HERE}:Findings",
    "task list": f"{_HERE}:Tasks",
    "task init": f"{_HERE}:NewTask",
    "task import": f"{_HERE}:Imports",
    "task check": f"{_HERE}:CheckedTask",
    "db sql": f"{_HERE}:Rows",
    "db check": f"{_HERE}:CheckedDatabase",
    "db backup": f"{_HERE}:WrittenFile",
    "db copy": f"{_HERE}:CopiedRun",
    "db upgrade": f"{_HERE}:Upgraded",
    "prompts show": "pace_async.runtime.start.asked:AskedQuestions",
    "config show": "pace_async.config:Config",
    "config validate": f"{_HERE}:Validated",
}
"""The type of what each command prints."""
