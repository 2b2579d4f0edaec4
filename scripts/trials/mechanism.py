"""By which moves a run wins: shares of useful moves over the candidates of runs, and entropy, as Markdown.

    python scripts/trials/mechanism.py RUN RUN ... --parts 5

A move is useful if its program is better than its parent. The rows of a part are the candidates between two equal
numbers. An edit of `columnar` names a column and a kind (`column2 runs_coder to rice`), so a kind of site is the
mechanism without the column. Runs of one name up to its last dash are an arm.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scripts.benchmarks.bench_runs import connect, positive
from scripts.trials.page import joined

MOVES = """
select c.score > p.score, c.outcome, e.description
from candidates c
left join candidates p on p.candidate = c.parent
left join experiments e on e.lease = c.lease
where c.lease is not null order by c.at, c.candidate"""


@dataclass(frozen=True, slots=True)
class Move:
    """One candidate: whether it is better than its parent, its outcome, and its kind of site, empty if it names
    none."""

    useful: bool
    outcome: str
    kind: str


@dataclass(frozen=True, slots=True)
class Moves:
    """A run's moves in the order of their ends, and the nats a token of each trained group."""

    moves: Sequence[Move]
    entropy: Sequence[float]

    def part(self, number: int, of: int) -> Sequence[Move]:
        """The moves of one of equal parts, counted from 0."""
        return self.moves[number * len(self.moves) // of : (number + 1) * len(self.moves) // of]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--parts", type=positive, default=5)
    parser.add_argument("--candidates", type=positive, help="the first so many of each run")
    chosen = parser.parse_args()
    arms: dict[str, list[Moves]] = {}
    for run in chosen.runs:
        arms.setdefault(run.name.rpartition("-")[0] or run.name, []).append(moves_of(run, chosen.candidates))
    sys.stdout.write(joined([over_time(arms, chosen.parts), by_kind(arms)]))
    return 0


def moves_of(run: Path, candidates: int | None = None) -> Moves:
    """The moves of a run, the first so many if asked."""
    database = connect(run)
    rows = database.execute(MOVES).fetchall()[:candidates]
    nats = database.execute("select entropy from groups where state = 'trained' order by group_number").fetchall()
    return Moves(
        [Move(bool(useful), outcome, kind_of(description or "")) for useful, outcome, description in rows],
        [float(entropy) for (entropy,) in nats if entropy is not None],
    )


def kind_of(description: str) -> str:
    """The kind of site that an experiment changes: `runs_coder` of "column2 runs_coder to rice from store."."""
    words = description.split()
    return words[1] if len(words) > 2 and words[2] == "to" else ""


def over_time(arms: dict[str, list[Moves]], parts: int) -> Iterator[str]:
    """Shares of useful, unparsed and unchanged moves in each part of the runs, and the entropy of their groups."""
    yield f"| arm | runs | |{''.join(f' part {number + 1} |' for number in range(parts))}"
    yield f"|---|---|---|{'---|' * parts}"
    for arm, runs in arms.items():
        pieces = [[move for run in runs for move in run.part(number, parts)] for number in range(parts)]
        lines = {
            "useful": [_share([move.useful for move in piece]) for piece in pieces],
            "unparsed": [_share([move.outcome == "unparsed" for move in piece]) for piece in pieces],
            "unchanged": [_share([move.outcome == "unchanged" for move in piece]) for piece in pieces],
            "nats a token": [_nats(runs, number, parts) for number in range(parts)],
        }
        for name, cells in lines.items():
            if any(cells):
                yield f"| {arm} | {len(runs)} | {name} | {' | '.join(cells)} |"


def by_kind(arms: dict[str, list[Moves]]) -> Iterator[str]:
    """For each kind of site the share of all moves that went there in the first and the last third, and which share of
    those was useful."""
    yield "| kind of site | arm | moves, first third | moves, last third | useful, first third | useful, last third |"
    yield "|---|---|---|---|---|---|"
    kinds = sorted({move.kind for runs in arms.values() for run in runs for move in run.moves} - {""})
    for kind in kinds:
        for arm, runs in arms.items():
            ends = [[move for run in runs for move in run.part(number, 3)] for number in (0, 2)]
            there = [[move for move in end if move.kind == kind] for end in ends]
            went = [_share([move.kind == kind for move in end]) for end in ends]
            useful = [_share([move.useful for move in moves]) for moves in there]
            yield f"| {kind} | {arm} | {' | '.join((*went, *useful))} |"


def _share(values: Sequence[bool]) -> str:
    return f"{np.mean(values):.3f}" if values else ""


def _nats(runs: Sequence[Moves], number: int, parts: int) -> str:
    pieces = [
        run.entropy[number * len(run.entropy) // parts : (number + 1) * len(run.entropy) // parts] for run in runs
    ]
    every = [nats for piece in pieces for nats in piece]
    return f"{np.mean(every):.3f}" if every else ""


if __name__ == "__main__":
    sys.exit(main())
