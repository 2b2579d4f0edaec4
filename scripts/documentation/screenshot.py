"""A picture of a finished run: replays its journal through the same view and layout that the screen uses.

    python scripts/documentation/screenshot.py runs/NAME                     run.svg, the last frame
    python scripts/documentation/screenshot.py runs/NAME --candidates 90     the frame when 90 candidates were complete

The SVG contains its text as text and loads no font from the network. Every figure in it was measured.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console, Group
from rich.terminal_theme import TerminalTheme

from pace_async.baseline import beside_of
from pace_async.errors import UsageError
from pace_async.interface.opening import open_run
from pace_async.observe.followed import Followed
from pace_async.observe.layout import frame
from pace_async.observe.model import RunView
from pace_async.task import best_known

CALM = TerminalTheme(
    (24, 28, 34),
    (214, 219, 226),
    [
        (24, 28, 34),
        (224, 108, 117),
        (134, 194, 116),
        (222, 184, 104),
        (108, 160, 220),
        (190, 140, 210),
        (92, 184, 196),
        (214, 219, 226),
    ],
)
FORMAT = """\
<svg class="{unique_id}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: "Fira Code", "DejaVu Sans Mono", Menlo, Consolas, monospace; \
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-family: arial, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""


def replay(run: Path) -> Iterator[tuple[float, RunView]]:
    """(time, the view just after it) for each fact of the run in this folder."""
    with open_run(str(run)) as (_, reader):
        followed = Followed(reader.header())
        for entry in reader.facts():
            followed.take(entry.fact)
            yield entry.at, followed.view


def moment(run: Path, candidates: int | None) -> tuple[float, RunView]:
    """(time, view) when `candidates` were complete, or at the end. Raises SystemExit if the run ends before."""
    last: tuple[float, RunView] | None = None
    for at, view in replay(run):
        last = at, view
        if candidates is not None and view.candidates >= candidates:
            return last
    if last is None:
        raise SystemExit(f"{run} holds no facts: give the folder of a run.")
    if candidates is not None:
        raise SystemExit(f"{run} ends after {last[1].candidates} candidates: ask for fewer than {candidates}.")
    return last


def picture(view: RunView, now: float, columns: int, rows: int) -> str:
    """The frame as SVG."""
    console = Console(
        file=StringIO(), width=columns, height=rows, record=True, force_terminal=True, color_system="truecolor"
    )
    console.print(Group(*frame(view, now, columns, rows)))
    return console.export_svg(title=f"pace run {view.header.task}", theme=CALM, code_format=FORMAT, unique_id="pace")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="A picture of a run as SVG.")
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--output", type=Path, default=Path("run.svg"), help="where to write it")
    parser.add_argument("--candidates", type=int, help="show the run as it was after this many candidates")
    parser.add_argument("--columns", type=int, default=112)
    parser.add_argument("--rows", type=int, default=34)
    chosen = parser.parse_args(arguments)
    try:
        at, view = moment(chosen.run, chosen.candidates)
    except UsageError as error:
        raise SystemExit(str(error)) from None
    known = replace(view, best_known=best_known(view.header), beside=beside_of(view.header, view.seed_score))
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(picture(known, at, chosen.columns, chosen.rows), encoding="utf-8")
    print(f"{chosen.output}: {view.candidates} candidates, {view.groups} groups")


if __name__ == "__main__":
    main(sys.argv[1:])
