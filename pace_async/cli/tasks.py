"""pace task: the tasks there are."""

import typer

from pace_async.cli.output import JSON_OPTION, print_json, print_table

app = typer.Typer(help="Tasks: what can be searched for.", no_args_is_help=True)


@app.callback()
def task() -> None:
    """Tasks: what can be searched for."""


@app.command("list")
def list_tasks(as_json: bool = JSON_OPTION) -> None:
    """Every task that can be named: those under ./tasks first, then the bundled ones.

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
