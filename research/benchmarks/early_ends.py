"""Measures what the rules of `evaluation.prune` save and what they cost, on learning curves.

    python research/benchmarks/early_ends.py --record 18 --curves docs/results/early_ends.csv
    python research/benchmarks/early_ends.py --curves docs/results/early_ends.csv
    python research/benchmarks/early_ends.py --curves docs/results/early_ends.csv --simulate
    python research/benchmarks/early_ends.py --task prism

`--record` trains variants of kuairec's seed program on its synthetic data and scores each after every epoch. Without it
the rules decide on curves, all of which are known to their end, so that what a stop cost is known too. Three sets:

recorded   those of the file, in an order drawn anew for each seed: candidates that do not improve with the search
search     curves of the same form, whose last scores rise as those of a search do, because programs have parents
crossing   the same, but half of the programs learn late, so that curves cross: what no rule can foresee

Two evaluations run at once (evaluation.slots), so an evaluation is compared with those that had ended when it began.
Printed for each rule: the share of evaluation seconds saved, each epoch taken as equally long, the best score found
less that of the run of the same seed that stops none, and false stops: how many of the stopped ones would have been a
new best at their place, and of how many such. Means over the seeds, with a 95 % interval.

`--simulate` compares the saved share with what `pace simulate` predicts: from the curves of the same run, and from
those of the run of the same seed that stops none, as far as that is known beforehand. There the task's own program is
evaluated before the others, as in a run, and its seconds do not count, because it is never stopped.

`--task` decides on the values of a bundled task's own scorer after its first outputs (`so_far`): each seed is a search
of 160 candidates by uniform edits of the catalogue that stops none, as in search_rules.py, in the order in which its
candidates ended. A margin is in shares of the distance of the task's bounds there, and each output is equally long.
"""

import argparse
import base64
import csv
import importlib.util
import random
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, cast

import numpy as np

from pace_async.configure import resolve
from pace_async.evaluate.pruning import Reports, Rules, bar_of
from pace_async.events import Curve
from pace_async.fitness import fitness_of
from pace_async.implement.catalogue import load_catalogue
from pace_async.population.reading.curves import NEWEST
from pace_async.search.state import Member
from pace_async.simulate.curves import Curves, Pruning
from pace_async.simulate.durations import Durations
from pace_async.simulate.predict import Scenario, measure
from pace_async.task import load_task
from research.benchmarks.bench_runs import catalogue_task, positive, seeds_of, stats
from research.benchmarks.catalogue_scores import curves_of
from research.benchmarks.search_rules import Problem, by_catalogue, searched

EPOCHS, SLOTS, CANDIDATES, USERS = 16, 2, 200, 200
GAINS, GAIN, LOSS = 0.3, 0.002, 0.02
"""Of a search: how many programs score more than their parents, and by how much they score more or less, on average."""
NEW_FORM = 0.1
"""How many programs have a curve of another form than their parent."""
NOISE = 0.002
"""Standard deviation of a value in the middle of a curve."""
LEAST_FORM = 0.02
"""Recorded curves that end lower are no form for others."""
FITNESS = fitness_of("maximize", 0.05, 0.30)
CHANGES: dict[str, tuple[float, ...]] = {
    "HEADS": (1, 2, 4),
    "HARMONICS": (1, 2, 4),
    "EXPANSION": (1, 2, 4),
    "DROPOUT": (0.0, 0.1, 0.2, 0.3, 0.5),
    "RATE": (0.001, 0.002, 0.004, 0.008, 0.016),
    "NEGATIVES": (32, 128, 512),
}
"""Constants of the seed program, each drawn from these values. The last two are not in its evolve block."""
RULES = {
    "median": Rules("median"),
    "median, from epoch 4": Rules("median", warmup=4),
    "median, margin 0.005": Rules("median", margin=0.005),
    "asha, 1/4": Rules("asha"),
    "asha, 1/2": Rules("asha", factor=2),
}
TASK_RULES = {
    "median": Rules("median"),
    "median, from output 8": Rules("median", warmup=8),
    "median, margin 0.05": Rules("median", margin=0.05),
    "asha, 1/4": Rules("asha", warmup=2),
    "asha, 1/2": Rules("asha", warmup=2, factor=2),
}


def recorded_curve(changes: dict[str, float]) -> Curve:
    """The score after each epoch of the seed program with these constants."""
    task = load_task("kuairec")
    sys.path.insert(0, str(task.folder))
    spec = importlib.util.spec_from_file_location("kuairec_evaluator", task.folder / "evaluator.py")
    assert spec is not None and spec.loader is not None
    evaluator: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(evaluator)
    settings = {**task.spec.settings, "data": "synthetic", "users": USERS}
    [instance] = evaluator.instances(0, settings)
    program: Any = types.ModuleType("program")
    exec(compile(task.program, "initial.py", "exec"), program.__dict__)
    program.__dict__.update(changes)
    values = list[float]()
    batches, train = program.batches, program.train

    def trained(model: Any, items: Any, times: Any, lengths: Any, catalogue: int, epochs: int) -> None:
        def scored() -> None:
            scores = program.ranking(model, items, times, lengths, catalogue)
            model.train()
            text = base64.b64encode(scores.cpu().numpy().tobytes()).decode()
            values.append(evaluator.score([instance], [text], 0, settings)["score"])

        begun = iter(range(epochs))

        def of_epoch(lengths: Any, shuffled: bool) -> Any:
            if shuffled and next(begun) > 0:
                scored()
            return batches(lengths, shuffled)

        program.batches = of_epoch
        train(model, items, times, lengths, catalogue, epochs)
        scored()

    program.train = trained
    program.recommend(instance)
    return tuple(enumerate(values, 1))


def record(amount: int, path: Path) -> None:
    """Add the curves of so many variants to the file, those that it has already left out."""
    import torch

    torch.set_num_threads(1)
    known = sum(1 for _ in path.open()) - 1 if path.exists() else 0
    for number in range(max(0, known), amount):
        draw = random.Random(number)
        changes = {name: draw.choice(values) for name, values in CHANGES.items()} if number else {}
        curve = recorded_curve(changes)
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if number == 0:
                writer.writerow(["candidate", *(f"epoch_{epoch}" for epoch in range(1, EPOCHS + 1))])
            writer.writerow([number, *(f"{value:.5f}" for _, value in curve)])


def read(path: Path) -> list[Curve]:
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [tuple(enumerate(map(float, row[1:]), 1)) for row in rows]


@dataclass(slots=True)
class Run:
    """A run under one rule, or none. `finals` are the last values of all candidates, by their place, `stopped` the
    places of those that were stopped."""

    finals: list[float] = field(default_factory=list[float])
    stopped: set[int] = field(default_factory=set[int])
    epochs: int = 0
    curves: list[Curve] = field(default_factory=list[Curve])

    @property
    def saved(self) -> float:
        return 1.0 - self.epochs / sum(map(len, self.curves))

    @property
    def best(self) -> float:
        return max(final for place, final in enumerate(self.finals) if place not in self.stopped)

    @property
    def bests(self) -> list[int]:
        """The places that would have been a new best if nothing had been stopped."""
        return [place for place, final in enumerate(self.finals) if final > max(self.finals[:place], default=-1.0)]

    @property
    def false_stops(self) -> int:
        return len(self.stopped.intersection(self.bests))


Programs = Callable[[int, list[int]], Curve]
"""The whole curve of the candidate at a place, from the places of those that have a score when it begins."""


def run(program: Programs, candidates: int, rules: Rules | None, *, alone: bool = False) -> Run:
    """Evaluate so many candidates, SLOTS at once. `alone`: the first, which is the task's own program, ends before the
    others begin, as in a run of pace."""
    made, free = Run(), [0] * SLOTS
    ended = list[tuple[int, Curve]]()  # when, and what it reported
    for place in range(candidates):
        now = heappop(free)
        before = [before for before, (at, _) in enumerate(ended) if at <= now]
        curve = program(place, [one for one in before if one not in made.stopped])
        heard = curve
        if rules is not None and place > 0:
            known = [(ended[one][1], one not in made.stopped) for one in before[-NEWEST:]]
            reports = Reports(bar_of(rules, known, FITNESS))
            for step, value in curve[:-1]:  # after the last epoch there is nothing to stop
                reports.add(step, value)
                if reports.missed is not None:
                    made.stopped.add(place)
                    heard = reports.curve
                    break
        made.finals.append(curve[-1][1])
        made.curves.append(curve)
        made.epochs += len(heard)
        ended.append((now + len(heard), heard))
        heappush(free, now + len(heard))
        if place == 0 and alone:
            free = [len(heard)] * SLOTS
    return made


def recorded(curves: Sequence[Curve], seed: int) -> Programs:
    """The curves in an order of this seed, the seed program's first."""
    order = [0, *random.Random(seed).sample(range(1, len(curves)), len(curves) - 1)]
    return lambda place, known: curves[order[place]]


def search(forms: Sequence[Curve], seed: int, late: float = 0.0) -> Programs:
    """Curves with the form of recorded ones. A program scores a little more or less than its parent, the best of three
    known ones, and has its form but where it is a NEW_FORM. A share of them comes `late`: the share of its score that
    it has is cubed."""
    finals, form = [forms[0][-1][1]], [forms[0]]

    def program(place: int, known: list[int]) -> Curve:
        draw = random.Random(f"{seed} {place}")
        if place > 0:
            parent = max(draw.choices(known or [0], k=3), key=lambda one: finals[one])
            gains, other, new = draw.random() < GAINS, draw.choice(forms), draw.random() < NEW_FORM
            step = draw.expovariate(1 / GAIN) if gains else -draw.expovariate(1 / LOSS)
            finals.append(min(0.3, max(0.0, finals[parent] + step)))
            form.append(other if new else form[parent])
        power = 3 if draw.random() < late else 1
        shares = ((epoch, max(0.0, value / form[place][-1][1]) ** power) for epoch, value in form[place])
        return tuple(
            (epoch, finals[place] * share + (epoch < EPOCHS) * draw.gauss(0, NOISE)) for epoch, share in shares
        )

    return program


def interval(values: Sequence[float], digits: int = 1, scale: float = 100.0) -> str:
    """Mean with a 95 % interval."""
    found, test = np.array(values) * scale, cast("Any", stats)
    half = test.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / len(found) ** 0.5
    return f"{found.mean():.{digits}f} [{found.mean() - half:.{digits}f}, {found.mean() + half:.{digits}f}]"


def sets_of(curves: Sequence[Curve], length: int) -> dict[str, tuple[Callable[[int], Programs], int]]:
    """Each set of curves: the programs of a seed, and how many candidates there are."""
    forms = [curve for curve in curves if curve[-1][1] > LEAST_FORM]
    return {
        "recorded": (lambda seed: recorded(curves, seed), len(curves)),
        "search": (lambda seed: search(forms, seed), length),
        "crossing": (lambda seed: search(forms, seed, 0.5), length),
    }


def table(curves: Sequence[Curve], seeds: range, length: int = CANDIDATES) -> Iterator[str]:
    """The lines of the result, from searches of so many candidates."""
    yield "| curves | rule | seconds saved, % | best − best without stops, thousandths | stopped, % | false stops |"
    yield "|---|---|---|---|---|---|"
    for name, (of_seed, candidates) in sets_of(curves, length).items():
        whole = [run(of_seed(seed), candidates, None) for seed in seeds]
        for rule, rules in RULES.items():
            runs = [run(of_seed(seed), candidates, rules) for seed in seeds]
            gaps = [ours.best - theirs.best for ours, theirs in zip(runs, whole, strict=True)]
            stopped, false = sum(len(each.stopped) for each in runs), sum(each.false_stops for each in runs)
            bests = sum(len(each.bests) for each in runs)
            cells = (
                *(name, rule, interval([each.saved for each in runs])),
                *(interval(gaps, 2, 1000.0), f"{100 * stopped / candidates / len(runs):.0f}"),
                f"{false} of {stopped}, {false} of {bests} bests",
            )
            yield f"| {' | '.join(cells)} |"


def of_task(name: str, seeds: range) -> Iterator[str]:
    """The lines of the result on a bundled task's searches."""
    task = catalogue_task(name)
    assert task.catalogue_path is not None
    catalogue, curve = load_catalogue(task.catalogue_path), curves_of(task)
    distance = task.spec.bounds.upper - task.spec.bounds.lower
    search = resolve(None, {}, environment={}).search
    made: list[list[Curve]] = []
    for seed in seeds:
        made.append([curve(task.program)])

        def score(program: str) -> float | None:
            return curve(program)[-1][1] if curve(program) else None

        def ended(parent: Member, program: str, value: float | None) -> None:
            if value is not None:
                made[-1].append(curve(program))

        searched(task.spec, Problem(task.program, score, by_catalogue(catalogue), ended), search, seed, 8, 160)
    yield "| rule | outputs saved, % | stopped, % | false stops | false stops a run |"
    yield "|---|---|---|---|---|"
    for rule, rules in TASK_RULES.items():
        scaled = replace(rules, margin=rules.margin * distance)
        runs = [run(_in_order(of), len(of), scaled, alone=True) for of in made]
        stopped, false = sum(len(each.stopped) for each in runs), sum(each.false_stops for each in runs)
        bests, candidates = sum(len(each.bests) for each in runs) - len(runs), sum(len(of) for of in made)
        shares = interval([each.saved for each in runs]), f"{100 * stopped / candidates:.0f}"
        each_run = interval([each.false_stops for each in runs], 1, 1.0)
        yield f"| {rule} | {' | '.join(shares)} | {false} of {stopped}, {false} of {bests} bests | {each_run} |"


def _in_order(curves: Sequence[Curve]) -> Programs:
    return lambda place, known: curves[place]


def simulated(curves: Sequence[Curve], rules: Rules) -> float:
    """The share of seconds that the simulator predicts to be saved in a run with these curves."""
    even = Durations(0, float(EPOCHS), 0.0, None, generation=0.0, learning=0.0, pause=0.0)
    scenario = Scenario(SLOTS, 2, 0, even, len(curves) - 1, slots=SLOTS, learns=False)
    saved = measure(replace(scenario, pruning=Pruning(rules, Curves(recorded=tuple(curves))))).saved
    assert saved is not None
    return saved


def predictions(curves: Sequence[Curve], seeds: range, length: int = CANDIDATES) -> Iterator[str]:
    """The lines of the comparison with the simulator. The difference is that of the means, relative."""
    yield "| curves | rule | saved, % | predicted, same curves | off by, % | predicted, run without stops | off by, % |"
    yield "|---|---|---|---|---|---|---|"
    for name, (of_seed, candidates) in sets_of(curves, length).items():
        whole = [run(of_seed(seed), candidates, None, alone=True) for seed in seeds]
        for rule, rules in RULES.items():
            runs = [run(of_seed(seed), candidates, rules, alone=True) for seed in seeds]
            real = [each.saved * candidates / (candidates - 1) for each in runs]
            cells = [name, rule, interval(real)]
            for known in (runs, whole):
                found = [simulated(each.curves, rules) for each in known]
                cells += [interval(found), f"{100 * (sum(found) / sum(real) - 1):+.1f}"]
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path)
    parser.add_argument("--task", help="a bundled task with so_far and a catalogue")
    parser.add_argument("--record", type=positive, help="curves that the file is to have")
    parser.add_argument("--simulate", action="store_true", help="compare with the simulator")
    parser.add_argument("--seeds", type=seeds_of, default=range(10))
    given = parser.parse_args()
    if (given.task is None) == (given.curves is None):
        parser.error("give --curves or --task")
    if given.task is not None:
        for line in of_task(given.task, given.seeds):
            print(line, flush=True)
        return
    if given.record:
        record(given.record, given.curves)
        return
    for line in (predictions if given.simulate else table)(read(given.curves), given.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
