"""Measures `pace web`: the tree in a real browser, and what each page of a long run costs.

    python scripts/benchmarks/bench_web.py             # makes both populations in a temporary folder
    python scripts/benchmarks/bench_web.py --tree FOLDER --pages FOLDER  # runs that an earlier call kept with --keep

The tree: `large_population` of 10,000 candidates, whole and at the level shown first. First paint and the drawing of
the tree are the browser's own marks, after the beginning of the navigation. Frames are those that its compositor drew
while the pointer dragged and the wheel turned, from the browser's trace. The wheel turns once a frame, by a script in
the page: sent from outside it turned some 30 times a second. The browser draws in software: no card.

The pages: a population of 100,000, each page asked of a new server in this process, so nothing is kept from an earlier
answer, and with rare garbage collections, as `pace web` has them. Processor time counts, because it says nearly the
same on a busy machine. The exit code is 1 if a limit is missed.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
from playwright.sync_api import Browser, Page
from starlette.testclient import TestClient

from pace_async.gc_freeze import rare_collections
from pace_async.population.reading.reader import Reader, open_readonly
from pace_async.web.app import application
from pace_async.web.runs import OpenRun
from scripts.benchmarks.large_population import fill
from tests.support.browsers import opened, served

FIRST_PAINT_MS, FRAMES_A_SECOND, PAGE_S = 1000.0, 30.0, 1.0
STEPS = 120
"""Moves of the pointer, and turns of the wheel, in one measurement."""
WHEEL = """async steps => {
    const place = {clientX: 500, clientY: 420, bubbles: true, cancelable: true};
    for (let step = 0; step < steps; step++) {
        const turn = new WheelEvent("wheel", {deltaY: step % 60 < 30 ? -40 : 40, ...place});
        document.elementFromPoint(500, 420).dispatchEvent(turn);
        await new Promise(requestAnimationFrame);
    }
}"""
PAGES = (
    *("", "/candidates", "/candidates?sort=score", "/candidates?sort=cost_usd", "/candidates?sort=staleness&page=50"),
    *("/candidates?where=score+%3E+0.5+and+island+%3D+3", "/tree", "/tree.json", "/tree.json?most=20000", "/islands"),
    *("/learner", "/learner?by=hours", "/spend", "/machines", "/candidate/3"),
)
LEVELS = ("", "?most=20000")


def pages(folder: Path) -> Iterator[tuple[str, float, int]]:
    """(page, CPU seconds, bytes) of each page."""
    with rare_collections(), open_readonly(folder / "population.db") as reader:
        for page in (*PAGES, "/compare"):
            path = page if page == "/compare" else f"/run/run{page}"
            yield page or "/", *_asked(reader, path)


def _asked(reader: Reader, path: str) -> tuple[float, int]:
    """CPU seconds and bytes of one answer: the lesser of two servers' times, since the first one warms the process."""
    times: list[float] = []
    size = 0
    for _ in range(2):
        app = application(
            {"run": OpenRun(reader)}, token=None, hosts=frozenset(("testserver",)), stopping=anyio.Event()
        )
        client = TestClient(app)
        began = time.process_time()
        answer = client.get(path)
        times.append(time.process_time() - began)
        if answer.status_code != 200:
            raise SystemExit(f"{path} answers {answer.status_code}: {answer.text[:200]}")
        size = len(answer.content)
    return min(times), size


def tree(address: str, browser: Browser, level: str) -> dict[str, float]:
    """Milliseconds to the first paint and to the tree, nodes, and frames a second while it is dragged and zoomed."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(120_000)
    page.goto(address)
    page.goto(f"{address.split('?')[0]}/tree{level}")
    page.locator("#count").get_by_text("candidates").wait_for()
    page.wait_for_timeout(500)
    marks = page.evaluate("performance.getEntriesByName('tree drawn').map((mark) => mark.startTime)")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint').map((mark) => mark.startTime)")
    nodes = page.evaluate("paceTree.view().nodes")
    found: dict[str, float] = {"first paint, ms": painted[0], "tree drawn, ms": marks[0], "nodes": nodes}
    for name, act in (("drag", _drag), ("zoom", _zoom), ("near", _drag)):
        if name == "near":
            page.mouse.wheel(0, -1200)
        found[f"{name}, frames/s"], found[f"{name}, CPU ms a frame"] = _frames(browser, page, act)
    page.close()
    return found


def _drag(page: Page) -> None:
    page.mouse.move(400, 400)
    page.mouse.down()
    for step in range(STEPS):
        page.mouse.move(400 + 3 * (step % 60), 400 - 2 * (step % 60))
    page.mouse.up()


def _zoom(page: Page) -> None:
    page.evaluate(WHEEL, STEPS)


def _frames(browser: Browser, page: Page, act: Callable[[Page], None]) -> tuple[float, float]:
    """Frames a second that the compositor drew while `act` went on, and the CPU milliseconds that one frame took in the
    page and in its drawing threads, from the browser's trace."""
    kinds = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline.frame"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        browser.start_tracing(page=page, path=path, categories=kinds)
        act(page)
        browser.stop_tracing()
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    drawn = sorted(event["ts"] for event in events if event["name"] == "DrawFrame")
    if len(drawn) < 3:
        return 0.0, 0.0
    worked = sum(
        event.get("tdur", 0) for event in events if event["name"] in ("RunTask", "ThreadControllerImpl::RunTask")
    )
    return (len(drawn) - 1) / ((drawn[-1] - drawn[0]) / 1e6), worked / 1e3 / len(drawn)


def main() -> int:
    """Print a line for each measurement. Returns 1 if one misses its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tree", type=Path, help="a run's folder for the tree")
    parser.add_argument("--pages", type=Path, help="a run's folder for the pages")
    parser.add_argument("--keep", type=Path, help="make the populations here, and leave them")
    chosen = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="pace-web-") as temporary:
        made = chosen.keep or Path(temporary)
        small = chosen.tree or _made(made / "tree" / "run", 10_000)
        large = chosen.pages or _made(made / "pages" / "run", 100_000)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; drawing in software")
        with served(small) as address, opened() as browser:
            for level in LEVELS:
                found = tree(address, browser, level)
                rates = [value for name, value in found.items() if name.endswith("frames/s")]
                missed += found["first paint, ms"] > FIRST_PAINT_MS or min(rates) <= FRAMES_A_SECOND
                print(f"tree{level}: " + ", ".join(f"{name} {value:,.0f}" for name, value in found.items()), flush=True)
        for page, seconds, size in pages(large):
            missed += seconds > PAGE_S
            print(f"{seconds:7.2f} CPU s {size / 1e6:7.2f} MB  {page}", flush=True)
    return int(missed > 0)


def _made(folder: Path, candidates: int) -> Path:
    folder.mkdir(parents=True)
    fill(folder / "population.db", candidates)
    return folder


if __name__ == "__main__":
    sys.exit(main())
