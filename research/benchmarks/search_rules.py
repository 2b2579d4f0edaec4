"""Compares the rules of choosing parents in a simulation of the search alone.

    python research/benchmarks/search_rules.py --seeds 0-7
    python research/benchmarks/search_rules.py --task txn_scheduling --rules "alone,migration 0.5,migration 1"

There are no models and no processes. The decisions are those of a run (`search.parents`, the fold of an island). Scores
are exact: those of the task's own evaluator for the catalogue's programs, without a sandbox. As many rollouts are in
flight as there are islands, and each ends next with the same probability. Each tries one edit of the catalogue, drawn
uniformly, as with the local server of bench_rivals.py. Scores are kept in --memo, so a second run is faster. The script
prints for each run the best score, and the evaluations to 95 % of the way from the seed program to the best score of
any run (the budget if it did not get there).
"""

import argparse
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pace_async.config import SearchConfig
from pace_async.configure import resolve
from pace_async.implement.catalogue import Catalogue, load_catalogue
from pace_async.search.islands import after_evaluation, first_island
from pace_async.search.parents import choose_migrant, fitter, parent_of
from pace_async.search.state import Member, rules_of
from pace_async.task import Task, TaskSpec, split_block
from research.benchmarks.bench_runs import (
    NEAR,
    catalogue_task,
    difference,
    known_names,
    made_folder,
    positive,
    seeds_of,
    spread,
)
from research.benchmarks.catalogue_scores import Score, scorer_of
from research.rivals.catalogue_moves import moves

RULES: Mapping[str, Mapping[str, str]] = {
    "migration 1": {},
    "migration 0.5": {"migration": "0.5"},
    "migration 0.1": {"migration": "0.1"},
    "alone": {"migration": "0"},
    "tournament of all": {"tournament_size": "64", "tournament_pool": "1"},
    "alone with puct": {"migration": "0", "parents": "puct"},
    "alone with map_elites": {"migration": "0", "parents": "map_elites"},
    "alone with top_k": {"migration": "0", "parents": "top_k"},
}
"""The settings of `search` that differ from the defaults."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="circle_packing")
    parser.add_argument("--rules", default=",".join(RULES), help="by comma")
    parser.add_argument("--seeds", default="0-7", help="first-last")
    parser.add_argument("--candidates", type=positive, default=160)
    parser.add_argument("--islands", type=positive, default=8)
    parser.add_argument("--memo", type=Path, default=Path("runs/search_rules.db"))
    chosen = parser.parse_args()
    task = catalogue_task(chosen.task)
    assert task.catalogue_path is not None
    rules, seeds = known_names(chosen.rules, RULES, "rule"), seeds_of(chosen.seeds)
    made_folder(chosen.memo.parent)
    catalogue, score = load_catalogue(task.catalogue_path), scorer_of(task, chosen.memo)
    curves: dict[str, list[list[float]]] = {}
    for name in rules:
        settings = {f"search.{key}": value for key, value in RULES[name].items()}
        search = resolve(None, settings, environment={}).search
        curves[name] = [
            simulated(task, catalogue, score, search, seed, chosen.islands, chosen.candidates) for seed in seeds
        ]
        sys.stderr.write(f"{name}: {len(curves[name])} searches\n")
    print(report(curves, score(task.program) or 0.0))
    return 0


def simulated(
    task: Task, catalogue: Catalogue, score: Score, search: SearchConfig, seed: int, islands: int, candidates: int
) -> list[float]:
    """Best so far after each evaluation of one search by uniform edits."""
    return searched(task.spec, Problem(task.program, score, by_catalogue(catalogue)), search, seed, islands, candidates)


def by_catalogue(catalogue: Catalogue) -> Callable[[str, random.Random], str]:
    """Changes a program by an edit of the catalogue, drawn uniformly."""

    def change(program: str, draw: random.Random) -> str:
        before, block, after = split_block(program)
        return before + draw.choice(moves(block, catalogue)) + after

    return change


def _unheard(parent: Member, program: str, value: float | None) -> None:
    """The default of `Problem.ended`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What a simulated search changes. `change` makes a program of its parent's, `ended` is told each score."""

    start: str
    score: Score
    change: Callable[[str, random.Random], str]
    ended: Callable[[Member, str, float | None], None] = _unheard


def searched(
    spec: TaskSpec, problem: Problem, search: SearchConfig, seed: int, islands: int, candidates: int
) -> list[float]:
    """Best so far after each evaluation of one search that maximises."""
    draw = random.Random(seed)
    rules = rules_of(search, spec.fitness)
    start = Member(0, problem.start, problem.score(problem.start) or spec.bounds.lower)
    there = [first_island(number, start) for number in range(islands)]
    elites: dict[int, Member] = {}
    flying: list[tuple[int, Member, str]] = []

    def take_off(number: int) -> None:
        migrant = choose_migrant(
            elites,
            there[number],
            spec.fitness,
            draw,
            probability=search.migration,
            size=search.tournament_size,
        )
        parent = migrant or parent_of(there[number], search, draw)
        flying.append((number, parent, problem.change(parent.program, draw)))

    for number in range(islands):
        take_off(number)
    best, curve = start.score, list[float]()
    while len(curve) < candidates:
        number, parent, program = flying.pop(draw.randrange(len(flying)))
        value = problem.score(program)
        problem.ended(parent, program, value)
        member = None if value is None else Member(len(curve) + 1, program, value)
        there[number] = after_evaluation(
            there[number], parent=parent.candidate, idea=None, trial=None, member=member, rules=rules
        )
        elites[number] = fitter(spec.fitness, elites.get(number), there[number].members[0])
        best = max(best, elites[number].score)
        curve.append(best)
        take_off(number)
    return curve


def report(curves: Mapping[str, list[list[float]]], seed_score: float) -> str:
    """The table, and the differences from the first rule, in Markdown."""
    mark = seed_score + NEAR * (max(curve[-1] for every in curves.values() for curve in every) - seed_score)
    figures = {
        name: (
            [curve[-1] for curve in every],
            [float(sum(best < mark for best in curve[:-1]) + 1) for curve in every],
        )
        for name, every in curves.items()
    }
    lines = ["| rule | searches | best | evaluations to 95 % |", "|---|---|---|---|"]
    for name, (best, soon) in figures.items():
        lines.append(f"| {name} | {len(best)} | {spread(best)} | {spread(soon)} |")
    (first, (best, soon)), *others = figures.items()
    lines += ["", "| difference (95 % interval, Welch) | best | evaluations to 95 % |", "|---|---|---|"]
    for name, (theirs, late) in others:
        lines.append(f"| {first} − {name} | {difference(best, theirs)} | {difference(soon, late)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
