"""Compares the fronts that the search's selection finds with those of pymoo's NSGA-II, at equal evaluations.

    python research/benchmarks/fronts.py --seeds 0-9            (needs `pip install 'pymoo==0.6.2'`)

There are no models and no processes: the selection is that of a run with several objectives (`search.parents`, the fold
of an island, the front that islands see), and a child is made by the operators of NSGA-II. With `crossover` its second
parent is another program of the front; `mutation` has one parent, as an edit of a model has. `score` is the search
without costs: the same score, and parents by the score alone. The problems are ZDT1 to ZDT3 with few variables. Printed
is the hypervolume up to (1.1, 1.1), mean and standard deviation, its share of NSGA-II's, and the mean difference with
a 95 % interval (Welch's).
"""

import argparse
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from pace_async.aims import Aim
from pace_async.config import SearchConfig
from pace_async.fitness import Fitness, fitness_of
from pace_async.search.front import front_of, hypervolume, with_point
from pace_async.search.islands import after_evaluation, first_island
from pace_async.search.parents import choose_migrant, fitter, parent_of
from pace_async.search.state import Member, rules_of
from research.benchmarks.bench_runs import difference, positive, seeds_of, spread

Point = list[float]
SHAPES: Mapping[str, Callable[[float, float], float]] = {
    "zdt1": lambda f, g: 1 - math.sqrt(f / g),
    "zdt2": lambda f, g: 1 - (f / g) ** 2,
    "zdt3": lambda f, g: 1 - math.sqrt(f / g) - f / g * math.sin(10 * math.pi * f),
}
ARMS = ("crossover", "mutation", "score", "nsga2")
MARK = 1.1
LEAST = -1.0
"""Below the least second objective of ZDT3."""


def values(name: str, x: Sequence[float]) -> tuple[float, float]:
    """The two objectives, both to be small."""
    g = 1 + 9 * sum(x[1:]) / (len(x) - 1)
    return x[0], g * SHAPES[name](x[0], g)


def volume(points: Sequence[tuple[float, float]]) -> float:
    """The area between (0, LEAST) and (MARK, MARK) that the points dominate."""
    box = MARK * (MARK - LEAST)
    return box * hypervolume([(0.0, f1 / MARK, (f2 - LEAST) / (MARK - LEAST)) for f1, f2 in points])


def mutated(x: Point, draw: random.Random, eta: float = 20.0) -> Point:
    """Polynomial mutation: each variable with probability 1/n, at least one."""
    made, chosen = list(x), {draw.randrange(len(x))} | {i for i in range(len(x)) if draw.random() < 1 / len(x)}
    for i in chosen:
        u = draw.random()
        if u < 0.5:
            step = (2 * u + (1 - 2 * u) * (1 - made[i]) ** (eta + 1)) ** (1 / (eta + 1)) - 1
        else:
            step = 1 - (2 * (1 - u) + (2 * u - 1) * made[i] ** (eta + 1)) ** (1 / (eta + 1))
        made[i] = min(1.0, max(0.0, made[i] + step))
    return made


def crossed(x: Point, other: Point, draw: random.Random, eta: float = 15.0) -> Point:
    """One child of simulated binary crossover."""
    made: Point = []
    for a, b in zip(x, other, strict=True):
        u = draw.random()
        beta = (2 * u) ** (1 / (eta + 1)) if u <= 0.5 else (2 * (1 - u)) ** (-1 / (eta + 1))
        sign = draw.choice((1, -1)) if draw.random() < 0.5 else 1
        child = ((1 + sign * beta) * a + (1 - sign * beta) * b) / 2 if draw.random() < 0.5 else a
        made.append(min(1.0, max(0.0, child)))
    return made


def searched(
    name: str, arm: str, seed: int, variables: int, evaluations: int, islands: int, worse: float = 10.0
) -> float:
    """The hypervolume of all that one search of pace tried. `worse` is the worse bound of the second objective."""
    fitness = fitness_of("maximize", 0.0, 1.0, (Aim("f1", False, 0.0, 1.0), Aim("f2", False, LEAST, worse)))
    search, draw = SearchConfig(), random.Random(seed)
    rules, points = rules_of(search, fitness), list[Point]()

    def member(number: int, x: Point) -> Member:
        points.append(x)
        f1, f2 = values(name, x)
        costs = fitness.costs({"f1": f1, "f2": f2})
        return Member(number, str(number), fitness.score_of(costs), costs=() if arm == "score" else costs)

    start = member(0, [draw.random() for _ in range(variables)])
    there = [first_island(number, start) for number in range(islands)]
    elites, front = dict[int, Member](), tuple[Member, ...]()
    for lease in range(1, evaluations):
        number = (lease - 1) % islands
        island = there[number]
        migrant = choose_migrant(
            {n: elite for n, elite in elites.items() if n != number},
            *(island, fitness, draw),
            probability=search.migration,
            size=search.tournament_size,
            front=front,
            pool=search.tournament_pool,
            lease=lease,
        )
        parent = migrant or parent_of(island, search, draw, fitness, lease)
        x = points[parent.candidate]
        if arm != "mutation" and draw.random() < 0.9:
            other = draw.choice(front) if front else parent_of(island, search, draw)
            x = crossed(x, points[other.candidate], draw)
        made = member(lease, mutated(x, draw))
        there[number] = after_evaluation(
            island, parent=parent.candidate, idea=None, trial=None, member=made, rules=rules
        )
        elites[number] = fitter(fitness, elites.get(number), made)
        front = with_point(front, made) if made.costs else front
    return volume(unsurpassed(name, points, fitness))


def unsurpassed(name: str, points: Sequence[Point], fitness: Fitness) -> list[tuple[float, float]]:
    """The values of the front of all points."""
    found = [values(name, x) for x in points]
    things = [
        Member(number, "", 0.0, costs=fitness.costs({"f1": f1, "f2": f2})) for number, (f1, f2) in enumerate(found)
    ]
    return [found[one.candidate] for one in front_of(things)]


def nsga2(name: str, seed: int, variables: int, evaluations: int) -> float:
    """The hypervolume of all that pymoo's NSGA-II tried, with its defaults."""
    from importlib import import_module

    seen = list[tuple[float, float]]()

    def first(x: Any) -> float:
        return float(x[0])

    def second(x: Any) -> float:
        seen.append(values(name, [float(one) for one in x]))
        return seen[-1][1]

    made: Any = import_module("pymoo.problems.functional").FunctionalProblem
    problem = made(variables, [first, second], xl=0.0, xu=1.0)
    algorithm: Any = import_module("pymoo.algorithms.moo.nsga2").NSGA2(pop_size=100)
    minimize: Any = import_module("pymoo.optimize").minimize
    minimize(problem, algorithm, ("n_eval", evaluations), seed=seed)
    return volume(seen[:evaluations])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-9", help="first-last")
    parser.add_argument("--variables", type=positive, default=10)
    parser.add_argument("--evaluations", type=positive, default=2000)
    parser.add_argument("--islands", type=positive, default=8)
    parser.add_argument("--worse", type=float, default=10.0, help="the worse bound of the second objective")
    parser.add_argument("--arms", default=",".join(ARMS), help="by comma")
    chosen = parser.parse_args()
    seeds, size = seeds_of(chosen.seeds), (chosen.variables, chosen.evaluations)
    print("| problem | arm | hypervolume | of NSGA-II | difference |\n|---|---|---|---|---|")
    for name in SHAPES:
        rows: dict[str, list[float]] = {}
        for arm in chosen.arms.split(","):
            if arm == "nsga2":
                rows[arm] = [nsga2(name, seed, *size) for seed in seeds]
            else:
                rows[arm] = [searched(name, arm, seed, *size, chosen.islands, chosen.worse) for seed in seeds]
            sys.stderr.write(f"{name} {arm}: {len(rows[arm])} searches\n")
        for arm, found in rows.items():
            theirs = rows.get("nsga2", [])
            share = f"{mean(found) / mean(theirs):.3f}" if any(theirs) else "–"
            apart = difference(found, theirs) if arm != "nsga2" and len(theirs) > 1 else "–"
            print(f"| {name} | {arm} | {spread(found)} | {share} | {apart} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
