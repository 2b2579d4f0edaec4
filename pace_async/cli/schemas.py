"""pace schema: the JSON Schema of what a command prints with --json."""

from typing import Any

import typer

from pace_async.cli.output import print_json

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(
    command: list[str] | None = typer.Argument(
        None, help="A command without `pace`, such as status or task check [default: all commands].", metavar="COMMAND"
    ),
) -> None:
    """Print the JSON Schema of what a command prints with --json. Without a command: of each, by its name.

    Programs may rely on the keys that are required. Further keys may be added. `pace schema error` has what a command
    with --json prints on standard error where it fails.

    Example: pace schema status

    Example: pace schema task check
    """
    from pace_async.cli.documents import DOCUMENTS

    if not command:
        print_json({name: schema_of(name) for name in DOCUMENTS})
        return
    name = " ".join(command).removeprefix("pace ")
    if name not in (*DOCUMENTS, "error"):
        from difflib import get_close_matches

        from pace_async.errors import UsageError

        near = get_close_matches(name, DOCUMENTS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"these have: {', '.join(DOCUMENTS)}."
        raise UsageError(f"No command {name!r} prints JSON: {hint}")
    print_json(schema_of(name))


def schema_of(name: str) -> dict[str, Any]:
    """The schema of one command, or of an error."""
    from pkgutil import resolve_name

    from pydantic import TypeAdapter

    from pace_async.cli.documents import DOCUMENTS, ERROR

    title = "an error of pace --json" if name == "error" else f"pace {name} --json"
    adapter = TypeAdapter(resolve_name(DOCUMENTS.get(name, ERROR)))
    return {"$schema": DIALECT, **adapter.json_schema(mode="serialization"), "title": title}
