"""Measures what learning could gain on a task whose catalogue has sites: the same search, with choices that know more.

    python scripts/benchmarks/headroom.py --task columnar --tables 0-9

There are no models. The decisions are those of a run (`search_rules.searched`), the scores those of the task's own
evaluator, without a sandbox. One search of each arm a table (`evaluation.seed`), with the table's number as its seed. A
site's kind is its name without the number. Arms:

none         uniform over all edits that change the parent
bandit       Thompson sampling over kind × option: how often an edit made a program better than its parent
oracle       a fixed policy over kind × option: in proportion to the mean gain of the option at sites of the kind
clairvoyant  scores every edit of the parent and takes the best that no one has tried
… (menu)     the same among what one prompt of `--advisor reader` offers, a random part of the edits

Printed: the share of the way from the seed program to the best known one, which an iterated local search finds offline;
evaluations to the mark; each arm less none, paired by table, with a 95 % interval.
"""

import argparse
import importlib.util
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from pace_async.advise.catalogue_wording import menu
from pace_async.config import SearchConfig
from pace_async.implement.catalogue import load_catalogue
from pace_async.search.state import Member
from pace_async.task import Task
from scripts.benchmarks.bench_runs import catalogue_task, known_names, positive, refuse, seeds_of, spread, stats
from scripts.benchmarks.search_rules import Problem, searched

Values = tuple[str, ...]
"""The option at each target, in the order of the catalogue."""
Move = tuple[int, str]
"""A target and its new option."""
ARMS = ("none", "bandit", "oracle", "clairvoyant", "none (menu)", "bandit (menu)", "oracle (menu)")
ISLANDS = 8
MARK = 0.5
HALF_WAY = 16
"""Programs from which the oracle's gains are taken."""
MOST_TRIED = 100
"""Edits of one program that the clairvoyant looks at, the best ones."""
KEPT = 100_000
"""Scores that are kept at once."""
BEGUN = (0.3, 2.7)
"""Successes and failures that the bandit begins with."""


@dataclass(frozen=True)
class Board:
    """A task's catalogue on the table of one seed. A target is a mechanism at a site."""

    task: Task
    seed: int
    scores: dict[Values, float] = field(default_factory=dict[Values, float])

    @cached_property
    def options(self) -> Mapping[str, Values]:
        """The options of each target, as the advisor names it."""
        assert self.task.catalogue_path is not None
        targets = load_catalogue(self.task.catalogue_path).targets
        return {name: tuple(map(str, one.options)) for name, one in targets.items()}

    @cached_property
    def targets(self) -> Sequence[str]:
        return tuple(self.options)

    @cached_property
    def kinds(self) -> Sequence[str]:
        """Of each target: the kind of its site, and its mechanism."""
        return [re.sub(r"\d+(?= )", "", target) for target in self.targets]

    @cached_property
    def evaluator(self) -> Any:
        sys.path.insert(0, str(self.task.folder))  # as the scorer does
        name = f"{self.task.name}_evaluator"
        spec = importlib.util.spec_from_file_location(name, self.task.folder / self.task.spec.evaluator)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    @cached_property
    def program(self) -> dict[str, Any]:
        """What the seed program defines."""
        namespace: dict[str, Any] = {"__name__": "candidate"}
        exec(self.task.program, namespace)
        return namespace

    @cached_property
    def chosen(self) -> dict[str, Any]:
        """The table of the seed program that holds the settings."""
        name = self.targets[0].replace(" ", "_")
        tables = [cast("dict[str, Any]", one) for one in self.program.values() if isinstance(one, dict) and name in one]
        return tables[0] if tables else refuse("the seed program has no dictionary of settings")

    @cached_property
    def start(self) -> Values:
        return tuple(str(self.chosen[target.replace(" ", "_")]) for target in self.targets)

    def score(self, values: Values) -> float:
        """That of the seed program with these settings."""
        if values not in self.scores:
            types = {str(value): value for value in self._written}
            for target, value in zip(self.targets, values, strict=True):
                self.chosen[target.replace(" ", "_")] = types.get(value, value)
            instances = self.evaluator.instances(self.seed)
            outputs = [self.program[self.task.spec.entry](one) for one in instances]
            if len(self.scores) >= KEPT:
                self.scores.clear()
            self.scores[values] = float(self.evaluator.score(instances, outputs, self.seed)["score"])
        return self.scores[values]

    @cached_property
    def _written(self) -> list[Any]:
        """Options that are no texts."""
        assert self.task.catalogue_path is not None
        every = load_catalogue(self.task.catalogue_path).mechanisms
        return [option for one in every for option in one.options if not isinstance(option, str)]

    def moves(self, values: Values) -> list[Move]:
        """Every edit that changes these settings."""
        return [
            (place, option)
            for place, target in enumerate(self.targets)
            for option in self.options[target]
            if option != values[place]
        ]

    def offered(self, values: Values, draw: random.Random) -> list[Move]:
        """Those of one prompt of the advisor that reads catalogues."""
        offers = menu(self.options, dict(zip(self.targets, values, strict=True)), draw)
        place = {target: number for number, target in enumerate(self.targets)}
        return [(place[offer.name], option) for offer in offers for option in offer.options]


def changed(values: Values, move: Move) -> Values:
    place, option = move
    return (*values[:place], option, *values[place + 1 :])


def best_known(board: Board, rounds: int = 4) -> Values:
    """An iterated local search: each site in turn is drawn anew and improved by itself, and kept if it is not worse."""
    draw = random.Random(board.seed)
    best = _improved(board, board.start, range(len(board.targets)))
    sites = [target.rpartition(" ")[0] for target in board.targets]
    for site in [*dict.fromkeys(sites)] * rounds:
        places = [place for place, one in enumerate(sites) if one == site]
        trial = best
        for place in places:
            trial = changed(trial, (place, draw.choice(board.options[board.targets[place]])))
        trial = _improved(board, trial, places)
        if board.score(trial) > board.score(best):
            best = trial
    return best


def _improved(board: Board, values: Values, places: Sequence[int]) -> Values:
    while True:
        before = values
        for place in places:
            every = [changed(values, (place, option)) for option in board.options[board.targets[place]]]
            values = max([values, *every], key=board.score)
        if values == before:
            return values


Choose = Callable[[Values, list[Move], random.Random], Move]


class Chooser:
    """The arm `none`: a uniform choice."""

    def __init__(self, board: Board, best: Values) -> None:
        self.board = board

    def choose(self, values: Values, moves: list[Move], draw: random.Random) -> Move:
        return draw.choice(moves)

    def ended(self, before: Values, after: Values, gained: bool) -> None:
        """What became of a choice."""


class Bandit(Chooser):
    """Thompson sampling over kind × mechanism × option. A site of the kind is drawn uniformly."""

    def __init__(self, board: Board, best: Values) -> None:
        super().__init__(board, best)
        self.known: dict[tuple[str, str], list[float]] = {}

    def choose(self, values: Values, moves: list[Move], draw: random.Random) -> Move:
        cells: dict[tuple[str, str], list[Move]] = {}
        for place, option in moves:
            cells.setdefault((self.board.kinds[place], option), []).append((place, option))
        drawn = {cell: draw.betavariate(*self.known.get(cell, BEGUN)) for cell in cells}
        return draw.choice(cells[max(drawn, key=lambda cell: drawn[cell])])

    def ended(self, before: Values, after: Values, gained: bool) -> None:
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                self.known.setdefault((self.board.kinds[place], new), list(BEGUN))[not gained] += 1.0


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


class Clairvoyant(Chooser):
    """Takes the best edit whose program has not been tried."""

    def __init__(self, board: Board, best: Values) -> None:
        super().__init__(board, best)
        self.tried: set[Values] = set()
        self.ranked: dict[Values, list[Values]] = {}

    def choose(self, values: Values, moves: list[Move], draw: random.Random) -> Move:
        if values not in self.ranked:
            every = [changed(values, move) for move in moves]
            self.ranked[values] = sorted(every, key=self.board.score, reverse=True)[:MOST_TRIED]
        left = [after for after in self.ranked[values] if after not in self.tried] or self.ranked[values]
        self.tried.add(left[0])
        place = next(place for place, option in enumerate(left[0]) if option != values[place])
        return place, left[0][place]


CHOOSERS = {"none": Chooser, "bandit": Bandit, "oracle": Oracle, "clairvoyant": Clairvoyant}


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
    task: Task, arms: Sequence[str], candidates: int, search: SearchConfig, seed: int
) -> dict[str, list[float]]:
    """The curve of each arm on one table."""
    board = Board(task, seed)
    best = best_known(board)
    sys.stderr.write(f"table {seed}: from {board.score(board.start):.4f} to {board.score(best):.4f}\n")
    return {arm: curve_of(board, best, arm, candidates, search) for arm in arms}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="columnar")
    parser.add_argument("--tables", default="0-9", help="first-last: seeds of the evaluation")
    parser.add_argument("--arms", default=",".join(ARMS), help="by comma")
    parser.add_argument("--candidates", default="480,1000", help="after how many to compare, by comma")
    parser.add_argument("--jobs", type=positive, default=2)
    parser.add_argument("--migration", type=float, default=1.0)
    chosen = parser.parse_args()
    task, arms = catalogue_task(chosen.task), known_names(chosen.arms, ARMS, "arm")
    ends = [positive(text) for text in chosen.candidates.split(",")]
    search = SearchConfig(migration=chosen.migration)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        tables = list(pool.map(partial(_searches, task, arms, max(ends), search), seeds_of(chosen.tables)))
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
