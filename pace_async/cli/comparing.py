"""pace diff: the difference of two candidates' programs."""

from typing import TYPE_CHECKING, Any

import typer

from pace_async.cli.candidates import WHICH, find_candidate, without_run
from pace_async.cli.output import JSON_OPTION, RUN_ARGUMENT, colours, print_json, tell
from pace_async.interface.opening import open_run
from pace_async.outside import printable

if TYPE_CHECKING:
    from pace_async.cli.documents import Diff, DiffSide

_COLOURS = {"file": {"bold": True}, "hunk": {"fg": "cyan"}, "removed": {"fg": "red"}, "added": {"fg": "green"}}


def diff(
    run: str | None = RUN_ARGUMENT,
    a: str | None = typer.Argument(None, help=f"From: {WHICH}, or parent: that of B [default: seed].", metavar="[A]"),
    b: str | None = typer.Argument(None, help=f"To: {WHICH} [default: best].", metavar="[B]"),
    as_json: bool = JSON_OPTION,
) -> None:
    """How the program of candidate B differs from that of candidate A: by default, the best from the seed program.

    Example: pace diff circle_packing-1

    Example: pace diff circle_packing-1 parent best

    Example: pace diff 3 best
    """
    from pace_async.report.difference import count_changes, difference

    run, a, b = without_run(run, a, b)
    with open_run(run) as (_, reader):
        second = find_candidate(reader, b or "best")
        first = _parent(reader, second) if a == "parent" else find_candidate(reader, a or "seed")
    lines = difference(_program(first), _program(second), _title(first), _title(second))
    added, removed = count_changes(lines)
    if as_json:
        text = "".join(f"{line.text}\n" for line in lines)
        document: Diff = {"a": _side(first), "b": _side(second), "added": added, "removed": removed, "diff": text}
        print_json(document)
        return
    if not lines:
        tell(f"{_title(first)} and {_title(second)} are the same program")
    coloured = colours()
    for line in lines:
        style: dict[str, Any] = _COLOURS.get(line.kind, {}) if coloured else {}
        text = printable(line.text)
        typer.echo(typer.style(text, **style) if style else text, color=coloured)


def _parent(reader: Any, candidate: dict[str, Any]) -> dict[str, Any]:
    from pace_async.errors import UsageError

    if candidate["parent"] is None:
        raise UsageError(f"Candidate {candidate['candidate']} has no parent: it is the task's own program.")
    return reader.show(candidate["parent"])


def _program(candidate: dict[str, Any]) -> str:
    from pace_async.errors import UsageError

    if candidate["program"] is None:
        raise UsageError(
            f"Candidate {candidate['candidate']} has no program ({candidate['outcome']}): `pace show` says why."
        )
    return candidate["program"]


def _title(candidate: dict[str, Any]) -> str:
    name = "seed program" if candidate["candidate"] == 0 else f"candidate {candidate['candidate']}"
    return f"{name} ({candidate['outcome'] if candidate['score'] is None else format(candidate['score'], '.10g')})"


def _side(candidate: dict[str, Any]) -> "DiffSide":
    return {"candidate": candidate["candidate"], "score": candidate["score"], "outcome": candidate["outcome"]}
