"""Measures what a run's journal costs: processor time and bytes a candidate, with a journal and without, in turns.

    python scripts/benchmarks/bench_journal.py               # 1,000 synthetic candidates, three turns
    python scripts/benchmarks/bench_journal.py --candidates 100 --turns 1
    python scripts/benchmarks/bench_journal.py --resume 10000    # processor time of what a resume reads

The facts are those of whole rollouts with programs of some 10,000 characters, each different: of an advisor that reads
a catalogue, of a model that is asked over the network, and of a trained advisor with long answers. The database is in
memory, so no disk is measured. With `--resume` it is a file, and its run that of `large_population`. It is folded once
with its snapshots, for their cost. Then what a resume reads is read from the last snapshot, from all facts and, without
a journal, from the rows, in turns, and the rows give it a journal again.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from sqlalchemy import Connection, delete

from pace_async.events import (
    Advised,
    AdvisorCall,
    Evaluated,
    EvaluationAttempted,
    Fact,
    IdeaNote,
    ImplementerCalled,
    ImplementerReserved,
    ImplementerTry,
    LeaseOpened,
    Purpose,
    RunHeader,
    TokenSpan,
)
from pace_async.observe.followed import Followed
from pace_async.observe.history import as_followed
from pace_async.population.checking import import_journal
from pace_async.population.connect import Place, engine, locate
from pace_async.population.memory import MemoryPopulation
from pace_async.population.models import BlobRow, JournalRow, SnapshotRow
from pace_async.population.reading.following import taken_up
from pace_async.population.reading.journal import entries_of
from pace_async.population.reading.load import header_of, load_record
from pace_async.population.reading.replay import rules_of_run
from pace_async.population.writing.write_snapshots import snapshot_kept, snapshots_removed
from pace_async.runtime.run.snapshots import Snapshots
from pace_async.state.apply import apply
from pace_async.state.run_state import RunState, Terms
from pace_async.task import load_task
from scripts.benchmarks.large_population import fill

HEADER = RunHeader(
    *("bench", "eplb", "bench", 0, "none", "tiny", "embedded", "catalog", "none", 128, 8, 2, 20, 0.0, 1.0),
    direction="maximize",
)
PROGRAM = load_task("eplb").program.splitlines(keepends=True)
CALLS: dict[str, tuple[tuple[Purpose, int, int], ...]] = {
    "catalogue": (("propose", 600, 40), ("assess", 600, 40), ("select", 600, 40)),
    "asked": (),
    "trained": (("propose", 14_400, 8_000), ("assess", 7_200, 2_000), ("select", 7_200, 2_000)),
}
"""Purpose, prompt tokens and completion tokens of each call."""
LARGEST_IMPORT = 10_000
"""Candidates of the largest run that is given a journal, which takes 3 ms for each."""
IN_TOTAL = {"catalogue": 1.0, "asked": 1.0, "trained": 0.06}
"""The share of the candidates that is made, because long answers take long to draw."""


def program_of(lease: int) -> str:
    """The program of a candidate: the task's own with a dozen other lines."""
    draw, lines = random.Random(lease), list(PROGRAM)
    for _ in range(12):
        lines[draw.randrange(len(lines))] = f"    value_{draw.randrange(10**6)} = compute({draw.random()})\n"
    return "".join(lines)


def _tokens(count: int, draw: random.Random) -> tuple[int, ...]:
    return tuple(min(int(draw.expovariate(1 / 9000)), 150_000) for _ in range(count))


def _call(purpose: Purpose, prompt: int, completion: int, draw: random.Random) -> AdvisorCall:
    made = _tokens(completion, draw)
    logprobs = tuple(-draw.expovariate(2) for _ in made)
    text = "An idea helps because of this.\n" * 4
    return AdvisorCall(purpose, _tokens(prompt, draw), made, logprobs, (TokenSpan(0, 0, len(made)),), text, seconds=1.5)


def commits_of(kind: str, lease: int) -> Iterator[tuple[Fact, ...]]:
    """The commits of one rollout."""
    draw, program, island = random.Random(lease), program_of(lease), lease % 4 + 1
    calls = tuple(_call(*shape, draw) for shape in CALLS[kind])
    yield (LeaseOpened(lease, island, 2, 0, 1.0),)
    if kind == "asked":
        question = f"{program}\n{program[:3000]}"
        calls = (AdvisorCall("propose", (), (), (), (), f"analysis {lease} " * 300, 9.0, question),)
        yield (ImplementerReserved(2 * lease, lease, "model", 0.1, 1.0, "advisor"),)
        yield (
            ImplementerCalled(
                *(lease, "model", "ok", 5000, 500, 0.01, 9.0, 1.0, 2 * lease), role="advisor", answered=calls[0]
            ),
        )
    ideas = tuple(IdeaNote(2 * lease + n, f"an idea that says in one sentence what to try, {n}", False) for n in (0, 1))
    yield (Advised(lease, island, 0, calls, ideas, 2 * lease, "Sort in two levels and keep ties stable.\n" * 4, 2.0),)
    if kind != "catalogue":
        tried = ImplementerTry(1, "model", "ok", "", program, None)
        yield (ImplementerReserved(2 * lease + 1, lease, "model", 0.1, 1.0),)
        yield (ImplementerCalled(lease, "model", "ok", 5000, 500, 0.01, 9.0, 1.0, 2 * lease + 1, tried),)
    yield (EvaluationAttempted(lease, "full", 0, 1, "ok", 1.5, 0.1, 1.0, 2.5, "", True),)
    score, metrics = 0.4 + lease * 1e-6, {"balance": 0.5, "speed": 0.25}
    yield (
        Evaluated(lease, island, 0, program, f"{lease:032x}", "ok", "", score, 1.0, metrics, 1.5, False, None, 3000.0),
    )


async def _measured(commits: list[tuple[Fact, ...]], candidates: int, *, with_journal: bool) -> tuple[float, float]:
    """Milliseconds of processor time and bytes, both a candidate."""
    population = MemoryPopulation(HEADER, with_journal=with_journal)
    await population.commit(
        Evaluated(0, 0, None, "".join(PROGRAM), "seed", "ok", "", 0.4, 0.0, {}, 0.2, False, None, 1.0)
    )
    begun = time.process_time()
    for facts in commits:
        await population.commit(*facts)
    took = time.process_time() - begun
    [size] = await population.query("select page_count * page_size as bytes from pragma_page_count, pragma_page_size")
    population.close()
    return took / candidates * 1000, size["bytes"] / candidates


def _seconds(do: Callable[[Connection], object], place: Place, purpose: Literal["read", "write"]) -> float:
    """Processor time of one transaction."""
    opened = engine(place, purpose)
    begun = time.process_time()
    with opened.begin() as connection:
        do(connection)
    took = time.process_time() - begun
    opened.dispose()
    return took


def _forget(connection: Connection) -> None:
    connection.execute(delete(JournalRow))
    connection.execute(delete(BlobRow))
    connection.execute(delete(SnapshotRow))


def _read_all(connection: Connection) -> None:
    """What a resume reads: the record and the view."""
    record = load_record(connection, None)
    taken_up(connection, record.run_id, as_followed)


@dataclass(slots=True)
class _Keeper:
    """Keeps snapshots as a running run does, but in the foreground, and has their sizes in bytes."""

    connection: Connection
    sizes: list[int] = field(default_factory=list[int])

    def keep_snapshot(self, seq: int, encode: Callable[[], tuple[bytes, bytes]]) -> None:
        state, view = encode()
        self.sizes.append(len(state) + len(view))
        snapshot_kept(self.connection, 1, seq, 0.0, state, view)


def _keep(place: Place, candidates: int) -> None:
    """Fold the run again and keep its snapshots, and print what that costs."""
    opened, took = engine(place, "write"), 0.0
    with opened.begin() as connection:
        snapshots_removed(connection, 1)
        header = header_of(connection, 1)
        state = RunState(Terms(header.group_size, header.max_staleness, rules_of_run(header)))
        keeper = _Keeper(connection)
        snapshots = Snapshots(keeper, state, Followed(header), 1, 0)
        for entry in entries_of(connection, 1, 1):
            if not isinstance(entry.fact, RunHeader):
                apply(state, entry.fact)
                begun = time.process_time()
                snapshots.after((entry.fact,))
                took += time.process_time() - begun
    opened.dispose()
    print(
        f"{candidates:,} candidates: {len(keeper.sizes)} snapshots, the last of {keeper.sizes[-1]:,} bytes, "
        f"{sum(keeper.sizes) / candidates:,.0f} bytes written and {took / candidates * 1000:.3f} ms a candidate",
        flush=True,
    )


def measure_resume(candidates: int, turns: int) -> None:
    """Print the processor time of what a resume reads, and of giving a run a journal."""
    with TemporaryDirectory() as folder:
        place = locate(Path(folder) / "population.db")
        fill(place, candidates)
        for _ in range(turns):
            _keep(place, candidates)
            kept = _seconds(_read_all, place, "read")
            _seconds(lambda connection: snapshots_removed(connection, 1), place, "write")
            journal = _seconds(_read_all, place, "read")
            print(f"{candidates:,} candidates: from a snapshot in {kept:.2f} s, from all facts in {journal:.2f} s")
            if candidates <= LARGEST_IMPORT:
                _seconds(_forget, place, "write")
                rows = _seconds(_read_all, place, "read")
                made = _seconds(lambda connection: import_journal(connection, 1), place, "write")
                print(
                    f"from the rows in {rows:.2f} s; a journal made of them, and compared, in {made:.1f} s", flush=True
                )


def main() -> None:
    """Print a line for each kind of rollout."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--candidates", type=int, default=1000)
    asked.add_argument("--turns", type=int, default=3)
    asked.add_argument("--resume", type=int)
    given = asked.parse_args()
    if given.resume is not None:
        measure_resume(given.resume, given.turns)
        return
    for kind in CALLS:
        count = max(int(given.candidates * IN_TOTAL[kind]), 1)
        commits = [facts for lease in range(1, count + 1) for facts in commits_of(kind, lease)]
        for _ in range(given.turns):
            (before, rows), (after, all_bytes) = (
                asyncio.run(_measured(commits, count, with_journal=with_journal)) for with_journal in (False, True)
            )
            print(
                f"{kind}: {before:.2f} ms and {rows:,.0f} bytes a candidate, with a journal {after:.2f} ms and "
                f"{all_bytes:,.0f} bytes ({all_bytes / rows:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
