"""Writes docs/commands.md from the commands themselves.

python scripts/documentation/docs_commands.py           write the page
python scripts/documentation/docs_commands.py --check   exit code 1 if the page is not what would be written
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.main

from pace_async.cli.main import app
from scripts.documentation.docs_page import written

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
HEAD = """\
# Commands

Written by `python scripts/documentation/docs_commands.py` from the commands themselves; `pace COMMAND --help` has it.

RUN is a run's folder or its name under `./runs`; in brackets it may be left out, and the latest run is meant.
TASK is a task's folder or name. `--json` prints one JSON document for programs: its keys are a promise, and new ones
may come. `pace schema COMMAND` prints its JSON Schema. With it, an error is one JSON document
on standard error, with `error`, `message`, `exit_code` and `notes`, and standard output stays empty.

`pace --install-completion` lets your shell complete commands, flags, runs under `./runs` and tasks.
`pace --version` prints the versions of pace, Python and the packages that matter most.

| exit code | means |
|---|---|
| 0 | done |
| 1 | something failed, or `pace doctor` or `pace db check` found something |
| 2 | a mistake in the command, the configuration or a task: one sentence says which; \
`pace config validate` and `pace task check` end so, too, where they found one |
| 3 | stopped by its budget |
| 4 | another process drives the run |
| 5 | the task's seed program fails its own evaluator |
| 6 | gave up: an engine, a learner or every provider stayed down |
| 130 | interrupted, after draining |
"""


_WORDS = {int: "N", float: "X", Path: "FILE"}


def commands(command: Any = None, name: str = "pace", above: Any = None) -> Iterator[tuple[str, Any]]:
    """Every command that does something: (name as typed, command). `above`: the context of the command it belongs to,
    whose names for help it has."""
    command = typer.main.get_command(app) if command is None else command
    context = typer.Context(command, parent=above, **command.context_settings)
    if hasattr(command, "commands"):
        for key, inner in command.commands.items():
            yield from commands(inner, f"{name} {key}", context)
    else:
        command.get_help(context)  # some write a part of their help when they are asked for it
        yield name, command


def examples(command: Any) -> list[str]:
    """The examples of the help, as typed."""
    return re.findall(r"^\s*Example: (.+)$", command.help or "", re.MULTILINE)


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_section(name, command) for name, command in commands())])


def _section(name: str, command: Any) -> str:
    words = re.sub(r"^\s*Example: .+$\n?", "", command.help or "", flags=re.MULTILINE)
    about = "\n\n".join(" ".join(part.split()) for part in words.split("\n\n") if part.strip())
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join([name, *(_metavar(one) for one in arguments)])
    shown = "\n".join(examples(command))
    parts = [f"## `{usage}`\n", f"{about}\n", f"```\n{shown}\n```\n"]
    rows = [_row(one) for one in command.params if one.name != "help"]
    if rows:
        parts.append("| | |\n|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def _metavar(argument: Any) -> str:
    word = argument.metavar or argument.name.upper()
    return word if argument.required or word.startswith("[") else f"[{word}]"


def _row(parameter: Any) -> str:
    name, default = _name(parameter), parameter.default
    given = isinstance(default, int | float | str) and not isinstance(default, bool)
    said = [(parameter.help or "").strip(), f"Default: `{default}`." if given else ""]
    return f"| `{name}` | {' '.join(part for part in said if part)} |\n"


def _name(parameter: Any) -> str:
    """The parameter as typed, with its value."""
    if parameter.param_type_name == "argument":
        return _metavar(parameter).strip("[]")
    name = ", ".join(parameter.opts)
    if parameter.secondary_opts:
        return f"{name} / {', '.join(parameter.secondary_opts)}"
    annotation = parameter.type_descriptor.annotation
    if get_origin(annotation) is Literal:
        return f"{name} {'|'.join(get_args(annotation))}".replace("|", "\\|")
    if parameter.is_flag:
        return name
    return f"{name} {parameter.metavar or _WORDS.get(annotation, 'VALUE')}".replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(written(PAGE, page(), sys.argv))
