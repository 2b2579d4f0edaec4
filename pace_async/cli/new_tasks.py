"""pace task init: make a task, of an example, of a program of one's own, or of a Git repository."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pace_async.cli.options import direction_of
from pace_async.cli.output import JSON_OPTION, print_json, tell
from pace_async.observe.columns import on_one_line

if TYPE_CHECKING:
    from pace_async.cli.documents import NewTask

MOST_LEFT_OUT = 8
"""Files of a repository that are named as left out."""


@dataclass(frozen=True, slots=True)
class InitFlags:
    """What `pace task init` may be given."""

    name: str = typer.Argument(..., help="Name of the new task.", metavar="NAME")
    folder: Path | None = typer.Option(None, "--folder", help="Folder to make [default: ./NAME].", metavar="DIR")
    language: str = typer.Option(
        "python", "--language", help="Language of the programs: python, c++, rust, go, fortran, r or julia."
    )
    kind: str | None = typer.Option(
        None, "--kind", help="function, process or command: an evaluator of your own. [default: by the language]"
    )
    program: Path | None = typer.Option(
        None, "--program", help="Your program, to make a task of it and --evaluate.", metavar="FILE"
    )
    evaluate: str | None = typer.Option(
        None, "--evaluate", help="Command that prints the score, or pytest with --from.", metavar="COMMAND"
    )
    source: Path | None = typer.Option(
        None, "--from", help="A Git repository, to make a task of its files and --evaluate.", metavar="REPO"
    )
    revision: str = typer.Option("HEAD", "--commit", help="With --from: the commit.", metavar="REVISION")
    change: list[str] | None = typer.Option(
        None,
        "--change",
        help="With --from: glob of files that may change. Several may be given. [default: all but the tests]",
        metavar="GLOB",
    )
    show: list[str] | None = typer.Option(
        None,
        "--show",
        help="With --from: glob of further files that models see. Several may be given. [default: all]",
        metavar="GLOB",
    )
    hide: list[str] | None = typer.Option(
        None,
        "--hide",
        help="With --from: glob of files that no model sees. Several may be given.",
        metavar="GLOB",
    )
    include: list[Path] | None = typer.Option(
        None, "--include", help="A file or folder that the command reads. May be given several times.", metavar="PATH"
    )
    minimize: bool = typer.Option(False, "--minimize", help="With --program or --from: a lower score is better.")
    maximize: bool = typer.Option(False, "--maximize", help="With --program or --from: a higher score is better.")
    as_json: bool = JSON_OPTION


def init(flags: InitFlags) -> None:
    """Make a small working task to edit: evaluator, seed program, description, catalogue. With --program and --evaluate
    it is made of a program of your own and the command that scores it, which is run twice in the sandbox. With --from
    it is made of the files of a Git repository, whose checkout is not touched.

    Example: pace task init my_new_task

    Example: pace task init my_fast_task --language c++

    Example: pace task init my_benchmark --kind command

    Example: pace task init my_route --program my_program.py --evaluate 'python score.py {program}' --minimize

    Example: pace task init faster --from my_repository --evaluate 'pytest -q' --change 'src/**' --minimize
    """
    from pace_async.runtime.start.new_task import make_task

    target = flags.folder or Path(flags.name)
    if flags.source is not None:
        _init_from(flags, target)
    elif flags.program is not None or flags.evaluate is not None:
        _init_own(flags, target)
    else:
        make_task(flags.name, target, flags.language, flags.kind)
    if flags.as_json:
        files = sorted(file.name for file in target.iterdir())
        document: NewTask = {"task": flags.name, "folder": str(target), "files": files}
        print_json(document)
        return
    where = f"./{target}" if not target.is_absolute() else str(target)
    if flags.program is not None or flags.source is not None:
        tell(f"{target} holds the task; read {target}/task.yaml, whose bounds and limits are guesses, then:")
        model = " --implementer MODEL"
    else:
        tell(f"{target} holds a working task; read {target}/README.md, then:")
        model = ""
    for line in (f"pace task check {where}", f"pace run {where}{model} --candidates 16"):
        tell(f"    {line}")


def _init_own(flags: InitFlags, target: Path) -> None:
    """Make a task of the user's own program and command. Raises UsageError and SeedProgramFails."""
    from pace_async.errors import UsageError
    from pace_async.interface.own_program import Given, make_own_task
    from pace_async.runtime.start.new_task import refuse_name
    from pace_async.task.own_program import own_program

    if flags.program is None or flags.evaluate is None:
        raise UsageError("--program and --evaluate go together: a program, and the command that prints its score.")
    if flags.kind is not None or flags.language != "python":
        raise UsageError("--kind and --language are for the task that ships with pace: leave them out with --program.")
    direction = direction_of(minimize=flags.minimize, maximize=flags.maximize)
    refuse_name(flags.name)
    own = own_program(flags.program, flags.evaluate, flags.include or (), Path.cwd())
    make_own_task(own, target, direction, Given(name=flags.name))


def _init_from(flags: InitFlags, target: Path) -> None:
    """Make a task of a repository. Raises UsageError and SeedProgramFails."""
    from pace_async.errors import UsageError
    from pace_async.interface.repository_task import make_repository_task
    from pace_async.runtime.start.new_task import refuse_name

    if flags.evaluate is None or flags.program is not None or flags.include or flags.kind is not None:
        raise UsageError("--from goes with --evaluate, and not with --program, --include or --kind.")
    direction = direction_of(minimize=flags.minimize, maximize=flags.maximize)
    refuse_name(flags.name)
    assert flags.source is not None
    task = make_repository_task(
        flags.name,
        flags.source,
        target,
        flags.evaluate,
        direction,
        revision=flags.revision,
        change=flags.change or (),
        show=flags.show or (),
        hide=flags.hide or (),
    )
    if not flags.as_json:
        tell(f"commit {task.revision[:12]} scores {task.score:.6g}")
        for reason in task.left_out[:MOST_LEFT_OUT]:
            tell(f"left out: {on_one_line(reason)}")
        if (more := len(task.left_out) - MOST_LEFT_OUT) > 0:
            tell(f"left out: {more} more")
