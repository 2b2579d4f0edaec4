"""pace task: list, make and check tasks."""

from pathlib import Path

import typer

from pace_async.cli.output import JSON_OPTION, indented, print_json, print_table, shown

app = typer.Typer(help="Tasks: what can be searched for.", no_args_is_help=True)


@app.callback()
def task() -> None:
    """Tasks: what can be searched for."""


@app.command("list")
def list_tasks(as_json: bool = JSON_OPTION) -> None:
    """Every available task: those under ./tasks first, then the bundled ones.

    Example: pace task list
    """
    from pace_async.errors import UsageError
    from pace_async.task import load_task, task_folders

    rows: list[dict[str, object]] = []
    for name, folder in task_folders().items():
        try:
            spec = load_task(str(folder)).spec
        except UsageError as error:
            rows.append({"task": name, "direction": "-", "lower": None, "upper": None, "about": f"broken: {error}"})
            continue
        about = spec.background.split(". ")[0].strip()
        bounds = spec.bounds
        rows.append(
            {"task": name, "direction": spec.direction, "lower": bounds.lower, "upper": bounds.upper, "about": about}
        )
    if as_json:
        print_json(rows)
    else:
        print_table(rows)


@app.command("init")
def init(
    name: str = typer.Argument(..., help="Name of the new task.", metavar="NAME"),
    folder: Path | None = typer.Option(None, "--folder", help="Folder to make [default: ./NAME].", metavar="DIR"),
    language: str = typer.Option(
        "python", "--language", help="Language of the programs: python, c++, rust, go, fortran, r or julia."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make a small working task to edit: evaluator, seed program, description, catalogue.

    Example: pace task init my_new_task

    Example: pace task init my_fast_task --language c++
    """
    from pace_async.runtime.start.new_task import make_task

    target = folder or Path(name)
    make_task(name, target, language)
    if as_json:
        print_json({"task": name, "folder": str(target), "files": sorted(file.name for file in target.iterdir())})
        return
    where = f"./{target}" if not target.is_absolute() else str(target)
    typer.echo(f"{target} holds a working task; read {target}/README.md, then:")
    for line in (f"pace task check {where}", f"pace run {where} --candidates 16"):
        typer.echo(f"    {line}")


@app.command("check")
def check(
    task: str = typer.Argument(..., help="Task name or folder.", metavar="TASK"),
    seed: int = typer.Option(0, "--seed", help="Seed of the hidden instances."),
    sets: list[str] | None = typer.Option(None, "--set", help="A setting of the task, as NAME=VALUE.", metavar="N=V"),
    as_json: bool = JSON_OPTION,
) -> None:
    """Check a task before a run: files, seed program, bounds, evaluator, catalogue. If the evaluator itself fails, show
    its traceback and output.

    Exit code 2 if a check fails.

    Example: pace task check my_task
    """
    import anyio

    from pace_async.cli.options import settings_of_evaluator
    from pace_async.configure import resolve
    from pace_async.runtime.start.task_check import Check, examine

    chosen = settings_of_evaluator(sets)
    settings = resolve(None, {"evaluation.seed": seed, **chosen}, environment={}).evaluation
    found: list[Check] = []

    def say(one: Check) -> None:
        found.append(one)
        if not as_json:
            typer.echo(f"{'pass' if one.ok else 'FAIL'}  {one.name}: {shown(one.found)}")
            if one.remedy:
                typer.echo(f"      {shown(one.remedy)}")
            if one.printed:
                typer.echo(f"      what the evaluator printed:\n{indented(one.printed, 10)}")

    anyio.run(examine, task, settings.seed, say, settings.settings)
    failed = sum(not one.ok for one in found)
    if as_json:
        checks = [
            {
                "check": one.name,
                "ok": one.ok,
                "found": one.found,
                "remedy": one.remedy,
                "evaluator_log": one.printed or None,
            }
            for one in found
        ]
        print_json({"sound": failed == 0, "checks": checks})
    else:
        typer.echo(f"{failed} of {len(found)} checks failed" if failed else f"sound: {len(found)} checks passed")
    if failed:
        raise typer.Exit(2)
