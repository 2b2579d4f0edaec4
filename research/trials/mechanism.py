"""Which moves improve a run: shares of useful moves over the candidates of runs, and entropy, as Markdown.

    python research/trials/mechanism.py RUN RUN ... --parts 5 --plot docs/plots/mechanism.svg

A move is useful if its program is better than its parent. The rows of a part are the candidates between two equal
numbers. An edit of `columnar` names a column and a kind (`column2 runs_coder to rice`), so a kind of site is the
mechanism without the column. Runs of one name up to its numbers are an arm, and the first number is the seed. The last
table compares runs of equal seeds: from which group on the best score of one is ahead of the other's.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from research.benchmarks.bench_runs import connect, positive
from research.trials.page import joined
from research.trials.pictures import Panel, Steps, draw_panels

GROUP = 8
WINDOW = 5
"""Groups whose mean is a point of the picture."""
OTHER = "none"
"""The arm that others are compared with in pairs."""
MOVES = """
select c.score > p.score, c.outcome, e.description, c.score
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
    """A run's moves in the order of their ends, the nats a token of each trained group, and the best score after each
    move."""

    moves: Sequence[Move]
    entropy: Sequence[float]
    best: Sequence[float]

    def part(self, number: int, of: int) -> Sequence[Move]:
        """The moves of one of equal parts, counted from 0."""
        return self.moves[number * len(self.moves) // of : (number + 1) * len(self.moves) // of]

    def useful(self) -> Sequence[float]:
        """The share of useful moves in each window of groups."""
        wide = GROUP * WINDOW
        ends = range(wide, len(self.moves) + 1, GROUP)
        return [float(np.mean([move.useful for move in self.moves[end - wide : end]])) for end in ends]


Arms = dict[str, dict[int, Moves]]
"""The runs of each arm, by seed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--parts", type=positive, default=5)
    parser.add_argument("--candidates", type=positive, help="the first so many of each run")
    parser.add_argument("--plot", type=Path, help="an SVG file of best score, useful moves and entropy")
    chosen = parser.parse_args()
    arms: Arms = {}
    for run in chosen.runs:
        arm, seed = arm_of(run.name)
        arms.setdefault(arm, {})[seed] = moves_of(run, chosen.candidates)
    tables = [over_time(arms, chosen.parts), by_kind(arms), by_kind(arms, stage_of)]
    sys.stdout.write(joined([*tables, ahead(arms)] if OTHER in arms else tables))
    if chosen.plot:
        draw_panels(chosen.plot, panels(arms))
    return 0


def arm_of(name: str) -> tuple[str, int]:
    """Arm and seed of a run's folder: `pace`, 3 of "pace-3" and of "columnar-pace-3-480"."""
    found = re.fullmatch(r"(?:columnar-)?(.+?)-(\d+)(?:-\d+)?", name)
    return (found[1].replace("_", " "), int(found[2])) if found else (name, 0)


def moves_of(run: Path, candidates: int | None = None) -> Moves:
    """The moves of a run, the first so many if asked."""
    database = connect(run)
    [first] = database.execute("select score from candidates where candidate = 0").fetchone()
    rows = database.execute(MOVES).fetchall()[:candidates]
    nats = database.execute("select entropy from groups where state = 'trained' order by group_number").fetchall()
    best = np.maximum.accumulate([first, *(first if score is None else score for *_, score in rows)])[1:]
    return Moves(
        [Move(bool(useful), outcome, kind_of(description or "")) for useful, outcome, description, _ in rows],
        [float(entropy) for (entropy,) in nats if entropy is not None][: candidates and candidates // GROUP],
        [float(score) for score in best],
    )


def kind_of(description: str) -> str:
    """The kind of site that an experiment changes: `runs_coder` of "column2 runs_coder to rice from store."."""
    words = description.split()
    return words[1] if len(words) > 2 and words[2] == "to" else ""


def over_time(arms: Arms, parts: int) -> Iterator[str]:
    """Shares of useful, unparsed and unchanged moves in each part of the runs, and the entropy of their groups."""
    yield f"| arm | runs | |{''.join(f' part {number + 1} |' for number in range(parts))}"
    yield f"|---|---|---|{'---|' * parts}"
    for arm, by_seed in arms.items():
        runs = list(by_seed.values())
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


def stage_of(kind: str) -> str:
    """The stage of a pipeline that a kind of site is: `coder` of `runs_coder`."""
    return kind.rpartition("_")[2]


def by_kind(arms: Arms, name: Callable[[str], str] = str) -> Iterator[str]:
    """For each kind of site, as it is named, the share of all moves that went there in the first and the last third,
    and which share of those was useful."""
    yield "| kind of site | arm | moves, first third | moves, last third | useful, first third | useful, last third |"
    yield "|---|---|---|---|---|---|"
    kinds = sorted({name(move.kind) for runs in arms.values() for run in runs.values() for move in run.moves} - {""})
    for kind in kinds:
        for arm, runs in arms.items():
            ends = [[move for run in runs.values() for move in run.part(number, 3)] for number in (0, 2)]
            there = [[move for move in end if name(move.kind) == kind] for end in ends]
            went = [_share([name(move.kind) == kind for move in end]) for end in ends]
            useful = [_share([move.useful for move in moves]) for moves in there]
            yield f"| {kind} | {arm} | {' | '.join((*went, *useful))} |"


def ahead(arms: Arms) -> Iterator[str]:
    """For each arm and each seed that `none` has too: the group from which on the arm's best score stays ahead."""
    yield f"| ahead of `{OTHER}` to the end | pairs | from group on, by seed | of groups |"
    yield "|---|---|---|---|"
    for arm, runs in arms.items():
        pairs = {seed: (run.best, arms[OTHER][seed].best) for seed, run in runs.items() if seed in arms[OTHER]}
        if arm != OTHER and pairs:
            length = min(len(best) for pair in pairs.values() for best in pair) // GROUP
            since = [_ahead_since(*pair, length) for _, pair in sorted(pairs.items())]
            yield f"| {arm} | {len(pairs)} | {', '.join('never' if n is None else str(n) for n in since)} | {length} |"


def _ahead_since(ours: Sequence[float], theirs: Sequence[float], groups: int) -> int | None:
    """The group, counted from 1, from which on ours is higher until the last one. None if it is not at the end."""
    places = [GROUP * (group + 1) - 1 for group in range(groups)]
    behind = [group for group, place in enumerate(places, start=1) if ours[place] <= theirs[place]]
    last = behind[-1] if behind else 0
    return None if last == groups else last + 1


def panels(arms: Arms) -> Sequence[Panel]:
    """Best score, share of useful moves and entropy over the groups, of each arm."""

    def each(values: Sequence[Sequence[float]], start: int) -> Steps:
        return Steps(start, 1, [one for one in values if len(one)])

    best = {arm: each([run.best[GROUP - 1 :: GROUP] for run in runs.values()], 1) for arm, runs in arms.items()}
    useful = {arm: each([run.useful() for run in runs.values()], WINDOW) for arm, runs in arms.items()}
    nats = {arm: each([run.entropy for run in runs.values()], 1) for arm, runs in arms.items()}
    title = f"useful moves, share of the last {WINDOW} groups"
    return [
        Panel("best score so far", "group", best),
        Panel(title, "group", useful),
        Panel("nats a token", "group", nats),
    ]


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
