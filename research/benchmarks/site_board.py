"""A task whose program is a table of settings at sites, as a board: the score of any settings, and the best known ones.

Scores are those of the task's own evaluator, without a sandbox, because the programs are ours: the seed program with
other settings.
"""

import importlib.util
import random
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from pace_async.advise.catalogue_wording import menu
from pace_async.implement.catalogue import load_catalogue
from pace_async.task import Task
from research.benchmarks.bench_runs import refuse

Values = tuple[str, ...]
"""The option at each target, in the order of the catalogue."""
Move = tuple[int, str]
"""A target and its new option."""
KEPT = 100_000
"""Scores that are kept at once."""


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
    def parts(self) -> Sequence[str]:
        """Of each target: its site, and the first word of its mechanism where there are several."""
        return [re.sub(r" ((\w+?)_\w+|\w+)$", r" \2", target).strip() for target in self.targets]

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
        """Options that are not texts."""
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
    """An iterated local search: each part of the program is drawn again and improved by itself, and kept if better."""
    draw = random.Random(board.seed)
    best = _improved(board, board.start, range(len(board.targets)))
    for part in [*dict.fromkeys(board.parts)] * rounds:
        places = [place for place, one in enumerate(board.parts) if one == part]
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
