"""A moving picture of a finished run: docs/run.png, the terminal and `pace web` beside it as the run went on.

    python -m scripts.documentation.moving_picture runs/NAME

The terminal's frames are replayed from the run's journal, as `screenshot` does it. The tree is what `pace web` shows in
a headless browser: the candidates of the run are put into a copy of its population in the order in which they were
committed, and the page renews itself. The picture is an animated PNG of at most MOST bytes.
"""

import argparse
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from pace_async.baseline import beside_of
from pace_async.observe.model import RunView
from pace_async.task import best_known
from scripts.documentation.screenshot import picture, replay
from tests.support.browsers import opened, served

TARGET = Path(__file__).parents[2] / "docs" / "run.png"
MOST = 1_000_000
WIDTH, TERMINAL, TREE = 880, 420, 530
COLUMNS, ROWS = 112, 26
FRAMES, FRAME_MS, LAST_MS = 16, 700, 4_000
COLOURS = 128


def moments(run: Path) -> Iterator[tuple[float, RunView]]:
    """(time, view) of FRAMES moments, at equal distances of complete candidates, and the last one."""
    every = list(replay(run))
    last = every[-1][1].candidates
    wanted = [round(last * number / FRAMES) for number in range(1, FRAMES)]
    for at, view in every:
        if wanted and view.candidates >= wanted[0]:
            while wanted and view.candidates >= wanted[0]:
                wanted.pop(0)
            yield at, view
    yield every[-1]


def terminal(page: Page, at: float, view: RunView) -> Image.Image:
    """The terminal at a moment."""
    known = replace(view, best_known=best_known(view.header), beside=beside_of(view.header, view.seed_score))
    drawn = picture(known, at, COLUMNS, ROWS)
    page.set_content(f"<style>body{{margin:0;background:#14171b}}svg{{display:block}}</style>{drawn}")
    return _shot(page)


def _shot(page: Page) -> Image.Image:
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def frames(run: Path, browser: Browser) -> Iterator[Image.Image]:
    """Each moment: the terminal, and the tree below it."""
    with tempfile.TemporaryDirectory(prefix="pace-picture-") as folder:
        copy = Path(folder) / "run"
        copy.mkdir()
        population = copy / "population.db"
        with closing(sqlite3.connect(run / "population.db")) as source, closing(sqlite3.connect(population)) as target:
            source.backup(target)
            target.execute("create table later as select * from candidates")
            target.execute("delete from candidates where lease > 0")
            target.commit()
        screen = browser.new_page(viewport={"width": WIDTH, "height": TERMINAL})
        tree = browser.new_page(viewport={"width": WIDTH, "height": TREE}, color_scheme="dark")
        with served(copy) as address:
            tree.goto(address)
            tree.goto(f"{address.partition('?')[0]}/tree")
            for at, view in moments(run):
                with closing(sqlite3.connect(population)) as database, database:
                    database.execute(
                        "insert into candidates select * from later where at <= ? "
                        "and candidate not in (select candidate from candidates)",
                        (at,),
                    )
                    (there,) = database.execute("select count(*) from candidates").fetchone()
                expect(tree.locator("#count")).to_have_text(f"{there} candidates", timeout=60_000)
                tree.get_by_role("button", name="Show all").click()
                tree.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
                whole = Image.new("RGB", (WIDTH, TERMINAL + TREE))
                whole.paste(terminal(screen, at, view), (0, 0))
                whole.paste(_shot(tree), (0, TERMINAL))
                yield whole


def main() -> int:
    """Write the picture. Returns 1 if it would be too large."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a finished run on SQLite")
    parser.add_argument("--output", type=Path, default=TARGET)
    chosen = parser.parse_args()
    with opened() as browser:
        drawn = list(frames(chosen.run, browser))
    palette = drawn[-1].quantize(COLOURS)
    few = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in drawn]
    made = BytesIO()
    lengths = [FRAME_MS] * (len(few) - 1) + [LAST_MS]
    few[0].save(made, "PNG", save_all=True, append_images=few[1:], duration=lengths, loop=0, optimize=True)
    size = len(made.getvalue())
    print(f"{chosen.output}: {len(few)} frames, {size:,} bytes, at most {MOST:,}")
    if size > MOST:
        return 1
    chosen.output.write_bytes(made.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
