"""Measures candidates a second written to the population, losses after kill -9, and the time of a leaderboard.

    python scripts/benchmarks/bench_store.py  # 4,000 candidates, 128 threads; a leaderboard over a million
    python scripts/benchmarks/bench_store.py --rows 0 --least 1000  # exit code 1 below 1,000 candidates a second
    python scripts/benchmarks/bench_store.py --db postgresql://USER@HOST/EMPTY --rows 0

A candidate is a whole rollout of a run: its lease, the advisor's three calls with their tokens, ideas, an experiment
and the evaluation, in three commits. The given number of threads wait for their commits at once, and each commit is
acknowledged when it is on the disk. Then a child does the same until it is killed and prints every acknowledgement. The
acknowledged candidates must be in the database. The leaderboard is read over rows that are written directly into the
tables.
"""

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from pace_async.events import (
    Advised,
    AdvisorCall,
    Evaluated,
    IdeaNote,
    LeaseOpened,
    Purpose,
    RunHeader,
    TokenSpan,
)
from pace_async.population.checking import check_population
from pace_async.population.connect import Place
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store

TOKENS = 120
PROGRAM = "def solve(instance):\n    return [0.5] * 26  # a line of the usual length, as programs have\n" * 30
HEADER = RunHeader(
    *("bench", "circle_packing", "bench", 0, "none", "tiny", "embedded", "catalog", "none", 128, 8, 2, 20, 2.3, 2.636),
    direction="maximize",
)
PURPOSES: tuple[Purpose, ...] = ("propose", "assess", "select")
LEADERBOARD = "select * from leaderboard limit 10"
MILLION = """
WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
INSERT INTO {table} SELECT {columns} FROM numbers JOIN {table} t ON t.lease = 1
"""


def _call(purpose: Purpose) -> AdvisorCall:
    tokens = tuple(range(TOKENS))
    return AdvisorCall(purpose, tokens, tokens, (-1.5,) * TOKENS, (TokenSpan(0, 0, TOKENS),), "Idea 1\n" * 30, 0.5)


CALLS = tuple(_call(purpose) for purpose in PURPOSES)
IDEAS = 3
"""New ones of one rollout."""


async def roll(store: Store, lease: int, island: int, idea: int) -> None:
    """Commit one candidate, from admission to its row, in three commits. Its ideas have IDEAS numbers from `idea`
    on."""
    now = time.time()
    numbers = range(idea, idea + IDEAS)
    ideas = tuple(IdeaNote(number, "spread the circles more evenly along the walls", False) for number in numbers)
    experiment = "Change layout to rings."
    await store.commit(LeaseOpened(lease, island, 2, 0, now))
    await store.commit(Advised(lease, island, 0, CALLS, ideas, ideas[0].number, experiment, now))
    await store.commit(
        Evaluated(
            *(lease, island, 0, PROGRAM, f"{lease:032x}", "ok", "", lease / 1e6, 3.0, {"circles": 26.0}),
            *(0.7, False, "layout", now),
        )
    )


async def begin(where: str | Path | Place) -> None:
    """Create a run with the task's own program."""
    async with Store.open(where) as store:
        await store.create_run(HEADER)
        await store.commit(Evaluated(0, 0, None, PROGRAM, "0", "ok", "", 0.0, 0.0, {}, 0.1, False, None, time.time()))


async def write(where: str, candidates: int, threads: int, *, tell: bool = False) -> tuple[float, float]:
    """Candidates a second, and processor seconds for each. `tell` prints each acknowledged one."""
    async with Store.open(where, create=False) as store:
        record = await store.load()
        first = record.run_state.last_lease + 1
        leases = iter(range(first, first + candidates))

        async def thread(island: int) -> None:
            known = record.run_state.islands.get(island)
            idea = 1 if known is None else known.next_idea
            for lease in leases:
                await roll(store, lease, island, idea)
                idea += IDEAS
                if tell:
                    sys.stdout.write(f"{lease}\n")
                    sys.stdout.flush()

        began, worked = time.perf_counter(), time.process_time()
        async with anyio.create_task_group() as tasks:
            for island in range(1, threads + 1):
                tasks.start_soon(thread, island)
        return candidates / (time.perf_counter() - began), (time.process_time() - worked) / candidates


def lost(where: str, threads: int, rounds: int) -> tuple[int, int]:
    """(acknowledged candidates, lost ones among them) over rounds of a child that is killed while it writes."""
    told: set[int] = set()
    for number in range(rounds):
        command = [sys.executable, __file__, "--child", where, "--threads", str(threads)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
            assert child.stdout is not None
            for _ in range(200 + 150 * number):
                told.add(int(child.stdout.readline()))
            os.killpg(child.pid, signal.SIGKILL)
            told |= {int(line) for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")}
    with open_readonly(where) as reader:
        kept = {int(row["candidate"]) for row in reader.query("select candidate from candidates")}
        assert all(check.ok for check in check_population(reader)), "the record is not sound"
    return len(told), len(told - kept)


def leaderboard(database: Path, rows: int) -> float:
    """Median seconds of eleven leaderboards over `rows` more candidates."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA synchronous=OFF")
    first = connection.execute("select max(lease) + 1 from leases").fetchone()[0]
    with connection:
        for table in ("leases", "candidates"):
            names = [row[1] for row in connection.execute(f"pragma table_info({table})")]
            odd = {"lease": "n", "candidate": "n", "score": "n / 1e6", "merit": "n / 1e6", "program": "'pass'"}
            columns = ", ".join(odd.get(name, f"t.{name}") for name in names)
            connection.execute(MILLION.format(table=table, columns=columns, first=first, last=first + rows - 1))
    connection.close()
    times: list[float] = []
    with open_readonly(database) as reader:
        for _ in range(11):
            began = time.perf_counter()
            assert len(reader.sql(LEADERBOARD).rows) == 10
            times.append(time.perf_counter() - began)
    return sorted(times)[5]


def main() -> int:
    """Print the three figures. Returns 1 if one misses its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--candidates", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=4, help="children killed")
    parser.add_argument("--rows", type=int, default=1_000_000, help="under the leaderboard; 0: none")
    parser.add_argument("--least", type=float, default=0.0, help="candidates a second")
    parser.add_argument("--db", help="an empty database on a server; by default a file in a temporary folder")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        anyio.run(lambda: write(chosen.child, 10**6, chosen.threads, tell=True))
        return 0
    with tempfile.TemporaryDirectory(prefix="pace-bench-") as folder:
        where = chosen.db or str(Path(folder) / "population.db")
        anyio.run(begin, where)
        rate, processor = anyio.run(write, where, chosen.candidates, chosen.threads)
        print(f"{1000 * processor:.2f} ms of processor time for a candidate")
        at_once = f"{chosen.threads} threads, load {os.getloadavg()[0]:.1f}"
        print(f"{rate:,.0f} candidates a second through the store ({at_once})")
        told, missing = lost(where, chosen.threads, chosen.rounds)
        print(f"{missing} of {told:,} acknowledged candidates lost in {chosen.rounds} kills")
        slow = False
        if chosen.rows and not chosen.db:
            seconds = leaderboard(Path(where), chosen.rows)
            slow = seconds > 0.05
            print(f"{1000 * seconds:.1f} ms for a leaderboard over {chosen.rows:,} more candidates")
    return int(rate < chosen.least or missing > 0 or slow)


if __name__ == "__main__":
    sys.exit(main())
