"""pace task: list, import and check tasks. `new_tasks` makes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pace_async.cli import new_tasks
from pace_async.cli.completing import task_names
from pace_async.cli.options import command_of, known_in, one_of
from pace_async.cli.output import JSON_OPTION, print_json, print_table, tell
from pace_async.observe.columns import on_one_line
from pace_async.outside import indented
from pace_async.peers.importers import IMPORTERS
from pace_async.registry.task_groups import TASK_GROUPS

if TYPE_CHECKING:
    from pace_async.cli.documents import CheckedTask, ImportedTask, ImportedTasks, ListedTask, TaskFinding
    from pace_async.errors import PaceError
    from pace_async.runtime.start.importing import ImportResult
    from pace_async.runtime.start.task_check import Check

app = typer.Typer(help="Tasks: what can be searched for.", no_args_is_help=True)


@app.callback()
def task() -> None:
    """Tasks: what can be searched for."""


@app.command("list")
def list_tasks(
    group: str | None = typer.Option(
        None,
        "--group",
        callback=known_in(TASK_GROUPS),
        help="Only the tasks of this group.",
        metavar=TASK_GROUPS.metavar(),
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Every available task: those under ./tasks first, then the bundled ones.

    Example: pace task list

    Example: pace task list --group packing
    """
    from pace_async.errors import UsageError
    from pace_async.task import load_task, task_folders

    rows: list[ListedTask] = []
    for name, folder in task_folders().items():
        try:
            spec = load_task(str(folder)).spec
        except UsageError as error:
            if group is None:
                problem = f"broken: {error}"
                rows.append(
                    {"task": name, "group": None, "direction": "-", "lower": None, "upper": None, "about": problem}
                )
            continue
        if group not in (None, spec.group):
            continue
        about, bounds = spec.background.split(". ")[0].strip(), spec.bounds
        rows.append(
            {
                "task": name,
                "group": spec.group,
                "direction": spec.direction,
                "lower": bounds.lower if spec.has_bounds else None,
                "upper": bounds.upper if spec.has_bounds else None,
                "about": about,
            }
        )
    if as_json:
        print_json(rows)
    else:
        print_table(rows)


app.command("init")(command_of(new_tasks.init))


@dataclass(frozen=True, slots=True)
class ImportFlags:
    """What `pace task import` may be given."""

    peer: str = typer.Argument(..., help=IMPORTERS.described(), metavar=IMPORTERS.metavar())
    example: str | None = typer.Argument(None, help="Folder of the example, or its name.", metavar="EXAMPLE")
    to: Path | None = typer.Option(
        None, "--to", help="Folder to make [default: ./NAME of EXAMPLE; for --all: ./PROJECT].", metavar="FOLDER"
    )
    names: bool = typer.Option(False, "--list", help="Print the names of the project's examples, and import nothing.")
    every: bool = typer.Option(
        False, "--all", help="Import every example that has a name, but those that are there, each below --to."
    )
    install: bool = typer.Option(
        False, "--install", help="Install packages that the example needs into an environment of its own."
    )
    program: str = typer.Option("", "--program", help="The seed program's file, where it is not found.")
    config: str = typer.Option("", "--config", help="The example's YAML file, where there are several.")
    evaluator: str = typer.Option("", "--evaluator", help="The evaluator's file, where it is another than is found.")
    include: list[str] | None = typer.Option(
        None,
        "--include",
        help="A file or folder of the example that would not be copied, such as a database.",
        metavar="FILE",
    )
    score: str = typer.Option("", "--score", help="The metric that is the score, instead of the example's own.")
    try_seed: bool = typer.Option(
        True, "--try/--no-try", help="Score the seed program in the sandbox, to choose bounds and thresholds."
    )
    as_json: bool = JSON_OPTION


def import_task(flags: ImportFlags) -> None:
    """Make a task of an example of another project. Its files are copied and not changed.

    Example: pace task import openevolve openevolve/examples/function_minimization --to my_minimum

    Example: pace task import galapagos circle_packing
    """
    from pace_async.errors import UsageError
    from pace_async.peers.example import ImportOptions
    from pace_async.runtime.start.importing import import_example, names_of

    if not one_of({"EXAMPLE": flags.example is not None, "--list": flags.names, "--all": flags.every}, (True,) * 3):
        raise UsageError("Name an example, or give --list or --all.")
    if flags.names:
        names = list(names_of(flags.peer))
        if flags.as_json:
            print_json(names)
        else:
            for name in names:
                tell(name)
        return
    if flags.example is None:
        _import_all(flags)
        return
    options = ImportOptions(flags.program, flags.config, flags.score, flags.evaluator, tuple(flags.include or ()))
    result = import_example(flags.peer, flags.example, flags.to, options, flags.try_seed, install=flags.install)
    if flags.as_json:
        print_json(_imported(result))
        return
    tell(f"{result.folder} is a task made of {flags.example}:")
    for line in result.lines:
        tell(f"    {on_one_line(line)}")
    for line in result.left:
        tell(f"not taken over: {on_one_line(line)}")
    where = str(result.folder) if result.folder.is_absolute() or "/" in str(result.folder) else f"./{result.folder}"
    tell("Next:")
    for line in (f"pace task check {where}", f"pace run {where} --implementer MODEL --candidates 16"):
        tell(f"    {line}")


def _imported(result: "ImportResult") -> "ImportedTask":
    return {
        "task": result.name,
        "folder": str(result.folder),
        "taken_over": list(result.lines),
        "not_taken_over": list(result.left),
    }


def _import_all(flags: ImportFlags) -> None:
    """Import every example by name. Exit code 2 if one could not be."""
    from pace_async.errors import UsageError
    from pace_async.runtime.start.importing import ImportResult, import_all

    if flags.program or flags.config or flags.score or flags.evaluator or flags.include:
        raise UsageError(
            "--program, --config, --score, --evaluator and --include are for one example: leave out --all."
        )
    imported: list[ImportedTask] = []
    failed: list[str] = []

    def say(name: str, result: "ImportResult | PaceError") -> None:
        if isinstance(result, ImportResult):
            imported.append(_imported(result))
        else:
            failed.append(name)
        if not flags.as_json:
            tell(f"{name}: {result.folder if isinstance(result, ImportResult) else on_one_line(str(result))}")

    folder = flags.to or Path(flags.peer)
    import_all(flags.peer, folder, flags.try_seed, install=flags.install, say=say)
    if flags.as_json:
        document: ImportedTasks = {"imported": imported, "failed": failed}
        print_json(document)
    else:
        tell(f"{len(imported)} imported into {folder}, {len(failed)} not")
    if failed:
        raise typer.Exit(2)


app.command("import")(command_of(import_task))


@app.command("check")
def check(
    task: str = typer.Argument(..., help="Task name or folder.", metavar="TASK", autocompletion=task_names),
    seed: int = typer.Option(0, "--seed", help="Seed of the hidden instances."),
    sets: list[str] | None = typer.Option(None, "--set", help="A setting of the task, as NAME=VALUE.", metavar="N=V"),
    advisor: str | None = typer.Option(None, "--advisor", help="Also check that this advisor can serve the task."),
    implementer: str | None = typer.Option(
        None, "--implementer", help="Also check that this implementer can serve the task. No model is called."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Check a task before a run: files, seed program, bounds, evaluator, catalogue. If the evaluator itself fails, show
    its traceback and output.

    Exit code 2 if a check fails.

    Example: pace task check my_task

    Example: pace task check my_task --advisor reader --implementer catalog
    """
    import anyio

    from pace_async.cli.options import settings_of_evaluator
    from pace_async.configure import resolve
    from pace_async.runtime.start.task_check import Check, examine

    chosen = settings_of_evaluator(sets)
    settings = resolve(None, {"evaluation.seed": seed, **chosen}, environment={}).evaluation
    results: list[Check] = []

    def say(one: Check) -> None:
        results.append(one)
        if not as_json:
            tell(f"{'FAIL' if not one.ok else 'warn' if one.warns else 'pass'}  {one.name}: {on_one_line(one.found)}")
            if one.remedy:
                tell(f"      {on_one_line(one.remedy)}")
            if one.printed:
                tell(f"      what the evaluator printed:\n{indented(one.printed, 10)}")

    anyio.run(examine, task, settings.seed, say, settings.settings)
    if results[0].ok and (advisor or implementer):
        _say_served(task, {"advisor.model": advisor, "implementer.model": implementer}, say)
    failed = sum(not entry.ok for entry in results)
    if as_json:
        checks: list[TaskFinding] = [
            {
                "check": entry.name,
                "ok": entry.ok,
                "warning": entry.warns,
                "found": entry.found,
                "remedy": entry.remedy,
                "evaluator_log": entry.printed or None,
            }
            for entry in results
        ]
        document: CheckedTask = {"sound": failed == 0, "checks": checks}
        print_json(document)
    else:
        passed = (
            f"sound: {len(results)} checks passed{', with a warning' if any(entry.warns for entry in results) else ''}"
        )
        tell(f"{failed} of {len(results)} checks failed" if failed else passed)
    if failed:
        raise typer.Exit(2)


def _say_served(task: str, models: Mapping[str, str | None], say: "Callable[[Check], None]") -> None:
    """Check the advisor and the implementer that a run with these flags would have."""
    from pace_async.configure import resolve
    from pace_async.runtime.children.advisor_choice import served_by
    from pace_async.runtime.start.task_check import Check
    from pace_async.task import load_task

    config = resolve(None, {key: value for key, value in models.items() if value}, environment={})
    for verdict in served_by(config, load_task(task)):
        remedy = "" if verdict.ok and not verdict.doubtful else "name another"
        say(
            Check(
                f"{verdict.role} {verdict.model} can serve it",
                verdict.ok,
                verdict.found,
                remedy,
                warns=verdict.doubtful,
            )
        )
