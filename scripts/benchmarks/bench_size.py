"""Measures reading a population of 100,000 candidates: processor time, as a ratio to one of 1,000, and wall clock.

The processor time is that of this process, so a server's own is only in the wall clock. On a busy machine only the
processor time is meaningful.

    python scripts/benchmarks/bench_size.py  # in a temporary folder; exit code 1 if a limit is missed
    python scripts/benchmarks/bench_size.py --db postgresql://USER@HOST/EMPTY --db-small postgresql://USER@HOST/EMPTY2
    python scripts/benchmarks/bench_size.py --db LARGE --db-small SMALL --filled  # those that an earlier call made

Each population is made once (`large_population`). Then each operation is measured on its own connection: the loading of
a resume, without its engine and its learner, `status`, `best`, `report` and every query of docs/sql.md.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from pace_async.observe.history import view_of
from pace_async.observe.ledger import ledger_of_rows
from pace_async.population.connect import Place, locate
from pace_async.population.reading.reader import Reader, open_readonly
from pace_async.population.reading.timings import timings_of
from pace_async.population.store import Store
from pace_async.report.facts import gather
from pace_async.report.page import page
from pace_async.runtime.start.restore import restore
from scripts.benchmarks.large_population import config, fill

DOCUMENT = Path(__file__).parents[2] / "docs" / "sql.md"
SMALL = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """One operation on a population, and its limit in seconds."""

    read: Callable[[Place], object]
    limit: float


def resume(place: Place) -> None:
    """Read what a resume reads before its processes start."""

    async def load() -> None:
        async with Store.open(place, create=False) as store:
            await store.standing()
            record = await store.load()
            restore(record, config())
            await view_of(record, config().stop, store)

    anyio.run(load)


def over_reader(ask: Callable[[Reader], object]) -> Callable[[Place], None]:
    """The question, on a new reader."""

    def read(place: Place) -> None:
        with open_readonly(place) as reader:
            ask(reader)

    return read


def questions() -> Mapping[str, Asked]:
    """The measured operations by name."""
    documented = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    return {
        "resume": Asked(resume, 10.0),
        "status": Asked(
            over_reader(lambda reader: (reader.status(), ledger_of_rows(reader.ask(timings_of), reader.header()))), 1.0
        ),
        "best": Asked(over_reader(lambda reader: reader.best()), 1.0),
        "report": Asked(over_reader(lambda reader: page(gather(reader))), 10.0),
        **{
            " ".join(one.split()): Asked(over_reader(lambda reader, one=one: reader.sql(one)), 2.0)
            for one in documented
        },
    }


def seconds_of(asked: Asked, place: Place) -> tuple[float, float]:
    """Processor time and wall clock in seconds, each the shortest of three."""
    times: list[tuple[float, float]] = []
    for _ in range(3):
        worked, began = time.process_time(), time.perf_counter()
        asked.read(place)
        times.append((time.process_time() - worked, time.perf_counter() - began))
    worked, passed = zip(*times, strict=True)
    return min(worked), min(passed)


def main() -> int:
    """Print a line for each operation. Returns 1 if one exceeds its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--candidates", type=int, default=100_000)
    parser.add_argument("--db", help="an empty database on a server; by default a file in a temporary folder")
    parser.add_argument("--db-small", help="another one")
    parser.add_argument("--filled", action="store_true", help="both databases hold their population already")
    parser.add_argument("--busy", action="store_true", help="hold processor time to the limits, not wall clock")
    chosen = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="pace-size-") as folder:
        large = locate(chosen.db or str(Path(folder) / "large.db"))
        small = locate(chosen.db_small or str(Path(folder) / "small.db"))
        if not chosen.filled:
            fill(small, SMALL)
            fill(large, chosen.candidates)
        print(f"{chosen.candidates:,} candidates beside {SMALL:,}: CPU seconds, ratio, wall-clock seconds, limit")
        for name, asked in questions().items():
            (few, _), (many, passed) = (seconds_of(asked, place) for place in (small, large))
            missed += (many if chosen.busy else passed) > asked.limit
            print(f"{many:8.3f} {many / few:8.1f} {passed:8.3f} {asked.limit:5.0f}  {name[:90]}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
