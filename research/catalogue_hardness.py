"""How hard a task is for its catalogue: the gain of each edit, the best pair, and how often uniform choice gets there.

    python research/catalogue_hardness.py circle_packing --memo runs/hardness.db
    python research/catalogue_hardness.py eplb

Runs the task's own programs without a sandbox (they are ours: only catalogue edits of the seed program), in two
processes, and keeps every score in --memo, so it can be interrupted and run again. If scores contain time, it is the
processor time of the calls. A program keeps the score of its first evaluation, as in a run, but the tables of edits
have the median of three. Such tasks are slower, so fewer pairs and seeds are tried by default.

It stays at this path because the README of each bundled task names it. A task's README is part of the task's digest,
and a run resumes only on a task with the same digest.
"""

import argparse
import itertools
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from pace_async.implement.catalogue import Catalogue, MechanismEdit, load_catalogue
from pace_async.programs.compiled import program_hash
from pace_async.search.parents import choose_parent
from pace_async.search.state import Member
from pace_async.task import Task, load_task
from research.benchmarks.catalogue_scores import edited, scorer_of

STEPS = (0.6, 0.75, 0.9)  # of the way between the task's bounds: the scores to be reached
CANDIDATES = 160
REPEATS = 3


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", default="circle_packing", metavar="TASK")
    parser.add_argument("--memo", type=Path, default=Path("runs/hardness.db"))
    parser.add_argument("--seeds", type=int, help="searches [20, or 8 where scores contain time]")
    parser.add_argument("--pairs", type=int, help="pairs tried [all, or 200 at random where scores contain time]")
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    task = load_task(chosen.task)
    fixed = task.spec.deterministic
    if task.catalogue_path is None:
        sys.stderr.write(f"{task.name} has no catalogue\n")
        return 2
    catalogue = load_catalogue(task.catalogue_path)
    chosen.memo.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        _edits(task, catalogue, chosen.memo, pool, chosen.pairs or (None if fixed else 200))
        _uniform(task, chosen.memo, pool, chosen.seeds or (20 if fixed else 8))
    return 0


def _edits(task: Task, catalogue: Catalogue, memo: Path, pool: ProcessPoolExecutor, most: int | None) -> None:
    singles = list(catalogue.edits())
    pairs = [pair for pair in itertools.combinations(singles, 2) if pair[0].assigned != pair[1].assigned]
    tried = f"{len(pairs)} pairs"
    if most is not None and most < len(pairs):
        pairs, tried = random.Random(0).sample(pairs, most), f"{most} of {tried} tried"
    (seed,) = _scores(task, [()], memo, pool)
    alone = _scores(task, [(edit,) for edit in singles], memo, pool)
    together = _scores(task, pairs, memo, pool)
    print(f"seed program {seed:.4f}; {len(catalogue.mechanisms)} mechanisms, {len(singles)} edits, {tried}")
    print("\nwhat each mechanism's edits give alone")
    for assigned in (name for mechanism in catalogue.mechanisms for name in mechanism.assigned):
        found = [
            f"{edit.option}: {'fails' if score is None else format(score, '.4f')}"
            for edit, score in zip(singles, alone, strict=True)
            if edit.assigned == assigned
        ]
        print(f"  {assigned:<12}{'  '.join(found)}")
    ranked = [(score, pair) for score, pair in zip(together, pairs, strict=True) if score is not None]
    ranked.sort(key=lambda found: task.spec.fitness.merit(found[0]), reverse=True)
    print("\nbest pairs")
    for score, pair in ranked[:3]:
        print(f"  {score:.4f}  {', '.join(f'{edit.assigned} {edit.option}' for edit in pair)}")


def _uniform(task: Task, memo: Path, pool: ProcessPoolExecutor, seeds: int) -> None:
    fitness = task.spec.fitness
    levels = [fitness.worse_bound + step * (fitness.goal - fitness.worse_bound) for step in STEPS]
    print(f"\nshare of {seeds} seeds in which {CANDIDATES} uniformly random edits reach a score")
    for islands in (8, 1):
        best = list(pool.map(partial(_search, task, memo, islands), range(seeds)))
        reached = [sum(fitness.reaches(score, level) for score in best) / seeds for level in levels]
        shares = ", ".join(f"{level:.3g}: {share:.2f}" for level, share in zip(levels, reached, strict=True))
        print(f"  {islands} island{'s' if islands > 1 else ''}: {shares}; best {min(best):.4f} to {max(best):.4f}")


def _search(task: Task, memo: Path, islands: int, seed: int) -> float:
    """The best of one search: islands in turn, parents by tournament, edits uniform over mechanism, then option."""
    assert task.catalogue_path is not None
    catalogue, draw = load_catalogue(task.catalogue_path), random.Random(seed)
    score = scorer_of(task, memo)
    begun = score(task.program)
    assert begun is not None, "the seed program scores"
    first = Member(0, task.program, begun)
    members = [[first] for _ in range(islands)]
    for number in range(CANDIDATES):
        mine = members[number % islands]
        parent = choose_parent(task.spec.fitness.ranked(mine), draw, size=2, pool=4)
        mechanism = draw.choice(catalogue.mechanisms)
        option = draw.choice(mechanism.options)
        site = draw.choice(mechanism.sites) if mechanism.sites else None
        program = edited(parent.program, [MechanismEdit(mechanism.name, option, site)])
        value = score(program) if program_hash(program) != program_hash(parent.program) else None
        if value is not None and all(program != known.program for known in mine):
            mine.append(Member(number + 1, program, value))
    return task.spec.fitness.best(member.score for island in members for member in island)


def _scores(
    task: Task, edits: Sequence[Sequence[MechanismEdit]], memo: Path, pool: ProcessPoolExecutor
) -> list[float | None]:
    programs = [edited(task.program, some) for some in edits]
    return list(pool.map(partial(_score_one, task, memo), programs, chunksize=16))


def _score_one(task: Task, memo: Path, program: str) -> float | None:
    return scorer_of(task, memo, 1 if task.spec.deterministic else REPEATS)(program)


if __name__ == "__main__":
    sys.exit(main())
