"""`python -m scripts.first_hour [CONFIG.yaml] [--write]`: measure what a machine with a card does, and print one table.

A part that fails says why in its row, and the others go on. The exit code is then 1.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import anyio

from pace_async import __version__
from pace_async.children import clean_environment
from pace_async.config import Config
from pace_async.configure import dump, resolve
from pace_async.errors import PaceError
from pace_async.gpus import find_cards, in_words, visible_gpus
from pace_async.learn.settings import TrainerConfig
from pace_async.plan.counted import count_step
from pace_async.plan.needs import shape_of
from pace_async.population.reading.reader import open_readonly
from pace_async.runtime.children.advisor_choice import context_of, with_advisor
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.children.cards import Cards, assigned
from pace_async.task import load_task
from scripts.first_hour.serving import served
from scripts.first_hour.table import NO_CARD, PAGE, Row, in_markdown, rows_of, with_table

Part = Callable[[], list[Row]]


def doctor() -> list[Row]:
    done = subprocess.run([sys.executable, "-m", "pace_async", "doctor"], capture_output=True, text=True, check=False)
    return rows_of("doctor", "yes" if done.returncode == 0 else f"no: exit code {done.returncode}, see `pace doctor`")


def plan(config: Path) -> list[Row]:
    command = [sys.executable, "-m", "pace_async", "plan", str(config), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        raise ValueError((done.stderr.strip().splitlines() or ["pace plan said nothing"])[-1])
    made: dict[str, Any] = json.loads(done.stdout)
    sums = (
        f"{place['name']} {place['needed_bytes'] / 2**30:.1f}"
        + ("" if place["total_bytes"] is None else f" of {place['total_bytes'] / 2**30:.1f}")
        for place in made["places"]
    )
    return rows_of("plan", f"{'yes' if made['fits'] else 'no'}: {', '.join(sums)} GiB")


def step(config: Config, cards: Cards) -> list[Row]:
    folder = advisor_folder(config.advisor.model)
    shape = shape_of(config, str(folder), context_of(config.advisor, folder))
    environment = clean_environment(**({"CUDA_VISIBLE_DEVICES": cards.learner[0]} if cards.learner else {}))
    command = [sys.executable, "-m", "scripts.first_hour.step", shape.to_json(), TrainerConfig.of(config).to_json()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError((done.stderr.strip().splitlines() or ["the step ended without a message"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    memory = NO_CARD
    if found["peak"] is not None:
        peak, count = found["peak"], count_step(shape).peak
        memory = f"{peak / count:.3f} ({peak / 2**30:.1f} over {count / 2**30:.1f} GiB)"
    return rows_of("step", memory, f"{found['tokens'] / found['seconds']:,.0f}")


def modes(config: Path, updates: int) -> list[Row]:
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="pace-first-hour-") as folder:
        for mode in ("--async", "--sync"):
            where = Path(folder) / mode.strip("-")
            command = [sys.executable, "-m", "pace_async", "run", "--config", str(config), mode]
            command += ["--updates", str(updates), "--run-dir", str(where), "--display", "none"]
            began = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ValueError(f"{mode}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
            took[mode] = time.perf_counter() - began
            refuse_untrained(mode, where)
    first, second = took["--async"], took["--sync"]
    return rows_of("modes", f"{first:.0f}, {second:.0f}, {second / first:.2f} ({updates} updates each)")


def refuse_untrained(mode: str, run: Path) -> None:
    """Raises ValueError for a run in which no group was trained: its seconds are not those of learning."""
    with open_readonly(str(run / "population.db")) as reader:
        status = reader.status()
    if not status["groups_trained"]:
        raise ValueError(f"{mode}: no group was trained, and {status['groups_skipped']} were skipped: nothing to time")


def attempted(names: Sequence[str], part: Part) -> list[Row]:
    """The rows of these parts, or why they have none."""
    sys.stderr.write(f"{', '.join(names)} ...\n")
    try:
        return part()
    except (PaceError, OSError, ValueError, ExceptionGroup) as error:
        first: Any = error
        while isinstance(first, ExceptionGroup):
            first = cast("Any", first).exceptions[0]
        why = "failed: " + " ".join(f"{first}".split())[:200]
        return [row for name in names for row in rows_of(name, why)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/first_hour.sh", description=__doc__)
    parser.add_argument("config", nargs="?", type=Path, help="a run's configuration; by default the packaged advisor")
    parser.add_argument("--write", action="store_true", help="write the table into docs/gpu.md")
    parser.add_argument("--updates", type=int, default=8, help="groups that each of the two runs trains")
    parser.add_argument("--samples", type=int, default=96, help="answers whose k3 is measured")
    options = parser.parse_args()
    try:
        config = resolve(options.config)
        config = with_advisor(config, load_task(config.task))
        cards = assigned(config, visible_gpus())
    except PaceError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="pace-first-hour-") as folder:
        whole = Path(folder) / "run.yaml"
        whole.write_text(dump(config), "utf-8")
        parts: dict[tuple[str, ...], Part] = {
            ("doctor",): doctor,
            ("plan",): lambda: plan(whole),
            ("step",): lambda: step(config, cards),
            ("push", "probe", "serve"): lambda: anyio.run(served, config, cards, options.samples),
            ("modes",): lambda: modes(whole, options.updates),
        }
        for names, part in parts.items():
            rows += attempted(names, part)
    sys.stdout.write(in_markdown(rows))
    if options.write:
        where = f"{in_words(find_cards())}, {platform.machine()}, pace {__version__}"
        told = f"`bash scripts/first_hour.sh {options.config or ''}`".replace(" `", "`")
        heading = f"{told} on {datetime.now(UTC):%d %B %Y}: {where}."
        PAGE.write_text(with_table(PAGE.read_text("utf-8"), heading, rows), "utf-8")
    return int(any(row.result.startswith("failed") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
