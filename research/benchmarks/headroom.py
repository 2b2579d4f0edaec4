"""Measures what learning could gain on a task whose catalogue has sites: the same search, with choices that know more.

    python research/benchmarks/headroom.py --task columnar --tables 0-9
    python research/benchmarks/headroom.py --task expression_passes --arms "none (menu),bandit (menu),informed (menu)"

There are no models. The decisions are those of a run (`search_rules.searched`), the scores those of the task's own
evaluator, without a sandbox. One search of each arm a table (`evaluation.seed`), with the table's number as its seed. A
site's kind is its name without the number. Arms:

none         uniform over all edits that change the parent
bandit       Thompson sampling over kind × option, as `--advisor bandit` (`pace_async/search/edit_bandit.py`)
oracle       a fixed policy over kind × option: in proportion to the mean gain of the option at sites of the kind
broad_bandit over kind × option alone; the first word of mechanisms such as `gradient_second` belongs to the kind
informed     a fixed policy too: by the value of the option minus the value of the present one at sites of the kind,
             both measured on other tables, so it knows nothing of this one
clairvoyant  scores every edit of the parent and takes the best that no one has tried
… (menu)     the same among what one prompt of `--advisor reader` offers, a random part of the edits

Printed: the share of the way from the seed program to the best known one, which an iterated local search finds offline;
evaluations to the mark; each arm minus none, paired by table, with a 95 % interval.
"""

import argparse
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np

from pace_async.config import SearchConfig
from pace_async.search.edit_bandit import Results, choose_edit, with_try
from pace_async.search.state import Member
from pace_async.task import Task, load_task
from research.benchmarks.bench_runs import catalogue_task, known_names, positive, seeds_of, spread, stats
from research.benchmarks.search_rules import Problem, searched
from research.benchmarks.site_board import Board, Move, Values, best_known, changed

ARMS = ("none", "bandit", "oracle", "clairvoyant", "none (menu)", "bandit (menu)", "oracle (menu)")
MORE_ARMS = ("broad_bandit", "broad_bandit (menu)", "informed", "informed (menu)", "clairvoyant (menu)")
ISLANDS = 8
MARK = 0.5
HALF_WAY = 16
"""Programs from which the oracle's gains are taken."""
MOST_TRIED = 100
"""Edits of one program that the clairvoyant looks at, the best ones."""
OTHERS = (900, 901)
"""Tables on which the values of the informed policy are measured: none of a search."""
COMPARED = 4
"""Programs in which all options of a target are compared, on each of them."""
ROUNDS_ELSEWHERE = 1
"""Of the search for the best known program of each of them."""
TEMPERATURE = 0.1
"""Of the informed policy, as a share of what the best option is worth."""


class Chooser:
    """The arm `none`: a uniform choice."""

    def __init__(self, board: Board, best: Values) -> None:
        self.board = board

    def choose(self, values: Values, moves: list[Move], draw: random.Random) -> Move:
        return draw.choice(moves)

    def ended(self, before: Values, after: Values, gained: bool) -> None:
        """The results of a choice."""


class Bandit(Chooser):
    """The rule of `--advisor bandit`."""

    def __init__(self, board: Board, best: Values) -> None:
        super().__init__(board, best)
        self.results: Results = {}
        self.kinds = board.kinds

    def choose(self, values: Values, moves: list[Move], draw: random.Random) -> Move:
        return choose_edit(moves, lambda move: (self.kinds[move[0]], move[1]), self.results, draw)

    def ended(self, before: Values, after: Values, gained: bool) -> None:
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                self.results = with_try(self.results, (self.kinds[place], new), gained=gained)


class BroadBandit(Bandit):
    """Thompson sampling over kind × option, whatever the mechanism. The first word of several belongs to the kind."""

    def __init__(self, board: Board, best: Values) -> None:
        super().__init__(board, best)
        self.kinds = [re.sub(r"\d+(?= )", "", f"{part} ") for part in board.parts]


class Oracle(Chooser):
    """Draws an edit in proportion to the mean gain of its option at sites of its kind. The gains are those from
    programs half-way: each target has its option in the seed program or in the best known one, at random."""

    def __init__(self, board: Board, best: Values) -> None:
        super().__init__(board, best)
        draw, gains = random.Random(board.seed), dict[tuple[str, str], list[float]]()
        for _ in range(HALF_WAY):
            values = tuple(draw.choice(pair) for pair in zip(board.start, best, strict=True))
            begun = board.score(values)
            for place, option in board.moves(values):
                gain = max(0.0, board.score(changed(values, (place, option))) - begun)
                gains.setdefault((board.kinds[place], option), []).append(gain)
        self.means = {cell: float(np.mean(every)) for cell, every in gains.items()}

    def choose(self, values: Values, moves: list[Move], draw: random.Random) -> Move:
        weights = [self.means.get((self.board.kinds[place], option), 0.0) + 1e-9 for place, option in moves]
        return draw.choices(moves, weights)[0]


class Informed(Chooser):
    """Softmax over the value of the new option at sites of the kind minus the value of the present one there."""

    def __init__(self, board: Board, best: Values) -> None:
        super().__init__(board, best)
        self.worth = worth_on(board.task.reference, OTHERS)
        self.scale = TEMPERATURE * max(self.worth.values())

    def choose(self, values: Values, moves: list[Move], draw: random.Random) -> Move:
        def worth(place: int, option: str) -> float:
            return self.worth[self.board.kinds[place], option]

        gains = np.array([worth(place, option) - worth(place, values[place]) for place, option in moves])
        return draw.choices(moves, np.exp((gains - gains.max()) / self.scale).tolist())[0]


@cache
def worth_on(task: str, tables: Sequence[int]) -> Mapping[tuple[str, str], float]:
    """What each option is worth at a kind: the mean, over programs between the seed program and the best known one, of
    the score less the mean score of all options there."""
    found: dict[tuple[str, str], list[float]] = {}
    for table in tables:
        board, draw = Board(load_task(task), table), random.Random(table)
        best = best_known(board, ROUNDS_ELSEWHERE)
        for place in [*range(len(board.targets))] * COMPARED:
            share = draw.random()
            values = tuple(
                late if draw.random() < share else early for early, late in zip(board.start, best, strict=True)
            )
            scores = {
                option: board.score(changed(values, (place, option))) for option in board.options[board.targets[place]]
            }
            for option, score in scores.items():
                found.setdefault((board.kinds[place], option), []).append(score - float(np.mean([*scores.values()])))
    return {cell: float(np.mean(every)) for cell, every in found.items()}


class Clairvoyant(Chooser):
    """Takes the best edit whose program has not been tried."""

    def __init__(self, board: Board, best: Values) -> None:
        super().__init__(board, best)
        self.tried: set[Values] = set()
        self.ranked: dict[tuple[Values, *tuple[Move, ...]], list[Values]] = {}

    def choose(self, values: Values, moves: list[Move], draw: random.Random) -> Move:
        here = (values, *moves)
        if here not in self.ranked:
            every = [changed(values, move) for move in moves]
            self.ranked[here] = sorted(every, key=self.board.score, reverse=True)[:MOST_TRIED]
        left = [after for after in self.ranked[here] if after not in self.tried] or self.ranked[here]
        self.tried.add(left[0])
        place = next(place for place, option in enumerate(left[0]) if option != values[place])
        return place, left[0][place]


CHOOSERS = {
    "none": Chooser,
    "bandit": Bandit,
    "broad_bandit": BroadBandit,
    "oracle": Oracle,
    "informed": Informed,
    "clairvoyant": Clairvoyant,
}


def curve_of(board: Board, best: Values, arm: str, candidates: int, search: SearchConfig) -> list[float]:
    """Share of the way after each evaluation of one search."""
    name, _, part = arm.partition(" ")
    chooser = CHOOSERS[name](board, best)

    def change(program: str, draw: random.Random) -> str:
        values = tuple(program.split())
        moves = board.offered(values, draw) if part else board.moves(values)
        return " ".join(changed(values, chooser.choose(values, moves, draw)))

    def ended(parent: Member, program: str, value: float | None) -> None:
        chooser.ended(tuple(parent.program.split()), tuple(program.split()), value is not None and value > parent.score)

    problem = Problem(" ".join(board.start), lambda text: board.score(tuple(text.split())), change, ended)
    curve = searched(board.task.spec, problem, search, board.seed, ISLANDS, candidates)
    begun, reach = board.score(board.start), board.score(best)
    return [(score - begun) / (reach - begun) for score in curve]


def _searches(
    task: Task, arms: Sequence[str], candidates: int, search: SearchConfig, rounds: int, seed: int
) -> dict[str, list[float]]:
    """The curve of each arm on one table."""
    board = Board(task, seed)
    best = best_known(board, rounds)
    sys.stderr.write(f"table {seed}: from {board.score(board.start):.4f} to {board.score(best):.4f}\n")
    found: dict[str, list[float]] = {}
    for arm in arms:
        found[arm] = curve_of(board, best, arm, candidates, search)
        shares = ", ".join(f"{found[arm][end - 1]:.4f} after {end}" for end in (480, candidates) if end <= candidates)
        sys.stderr.write(f"table {seed}: {arm} {shares}\n")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="columnar")
    parser.add_argument("--tables", default="0-9", help="first-last: seeds of the evaluation")
    parser.add_argument("--arms", default=",".join(ARMS), help="by comma")
    parser.add_argument("--candidates", default="480,1000", help="after how many to compare, by comma")
    parser.add_argument("--rounds", type=positive, default=4, help="of the search for the best known program")
    parser.add_argument("--jobs", type=positive, default=2)
    parser.add_argument("--migration", type=float, default=1.0)
    chosen = parser.parse_args()
    task, arms = catalogue_task(chosen.task), known_names(chosen.arms, (*ARMS, *MORE_ARMS), "arm")
    ends = [positive(text) for text in chosen.candidates.split(",")]
    search = SearchConfig(migration=chosen.migration)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        tables = list(
            pool.map(partial(_searches, task, arms, max(ends), search, chosen.rounds), seeds_of(chosen.tables))
        )
    curves = {arm: [found[arm] for found in tables] for arm in arms}
    print("\n".join(report(curves, ends)))
    return 0


def report(curves: Mapping[str, Sequence[Sequence[float]]], ends: Sequence[int]) -> Iterator[str]:
    """The table in Markdown. A search that never reaches the mark counts as its whole length."""
    heads = [text for end in ends for text in (f"share after {end}", "less none")]
    yield f"| choice | {' | '.join(heads)} | evaluations to {MARK} |"
    yield "|---" * (len(heads) + 2) + "|"
    for arm, every in curves.items():
        cells = [arm]
        for end in ends:
            gaps = [curve[end - 1] - none[end - 1] for curve, none in zip(every, curves.get("none", ()), strict=False)]
            cells += [spread([curve[end - 1] for curve in every]), "" if arm == "none" or not gaps else paired(gaps)]
        soon = [sum(share < MARK for share in curve[:-1]) + 1 for curve in every]
        missed = sum(curve[-1] < MARK for curve in every)
        cells += [f"{np.mean(soon):.0f}{f' ({missed} never)' if missed else ''}"]
        yield f"| {' | '.join(cells)} |"


def paired(gaps: Sequence[float]) -> str:
    """Mean of paired differences with its 95 % interval."""
    test: Any = stats
    mean = float(np.mean(gaps))
    if len(gaps) < 2:
        return f"{mean:+.3f}"
    half = float(test.t.ppf(0.975, len(gaps) - 1)) * float(np.std(gaps, ddof=1)) / len(gaps) ** 0.5
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


if __name__ == "__main__":
    sys.exit(main())
