"""Measures what repeats of noisy scores are worth: whole runs under virtual time, at equal evaluations.

    python research/benchmarks/repeats.py --seeds 0-9

The runtime is that of a run, on simulated stages. A program has a quality in [0, 1), from START on. Its child covers
a share of what is left, normal with mean -STEP and deviation STEP, so one child in six is better. A score is the
quality and normal noise, new for each evaluation. Each run has --evaluations, repeats counted. The table has the
quality of the best program at the end, by its score as the run knows it, the share of evaluations that were repeats,
and the difference to the runs of the same seeds without repeats, means with a 95 % interval.
"""

import argparse
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pace_async.configure import resolve
from pace_async.evaluate.base import Evaluation, EvaluationRequest
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.population.memory import MemoryPopulation
from pace_async.runtime.start.supervisor import drive
from pace_async.search.state import Member
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.durations import Durations
from pace_async.simulate.runs import FAULTLESS, TINY_TASK, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import SimulatedEvaluator, World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from pace_async.task import Task
from research.benchmarks.bench_runs import difference, positive, seeds_of, spread

START, STEP = 0.3, 0.1
NOISES = (0.01, 0.03, 0.1)
ARMS: Mapping[str, Mapping[str, object]] = {
    "off": {},
    "new bests": {"evaluation.repeats": 3},
    "new bests and parents": {"evaluation.repeats": 3, "evaluation.repeats_for": "parents"},
    "the same, at most .2": {
        "evaluation.repeats": 3,
        "evaluation.repeats_for": "parents",
        "evaluation.repeats_budget": 0.2,
    },
}
TASK = replace(
    TINY_TASK, program=f"quality = {START}\n", spec=TINY_TASK.spec.model_copy(update={"deterministic": False})
)


def quality(program: str) -> float:
    return float(program.split()[2])


@dataclass
class Changing:
    """An implementer whose programs are a little better or worse than their parents."""

    seed: int

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        draw, left = random.Random(f"{self.seed} {experiment.lease}"), 1.0 - quality(parent.program)
        return ImplementedProgram(
            f"quality = {1.0 - left * (1.0 - draw.gauss(-STEP, STEP))!r}\nlease = {experiment.lease}\n"
        )


class Noisy(SimulatedEvaluator):
    """Scores with noise. `ended` is told each evaluation."""

    ended: Callable[[], None]
    noise: float

    async def run(self, request: EvaluationRequest) -> Evaluation:
        found = await super().run(request)
        one = request.id
        draw = random.Random(f"{request.seed} {one.lease} {one.attempt}")
        self.ended()
        return replace(found, outcome="ok", score=quality(request.program) + draw.gauss(0.0, self.noise))


@dataclass(frozen=True, slots=True)
class Found:
    best: float
    repeats: float


def run(arm: str, noise: float, seed: int, evaluations: int, folder: Path) -> Found:
    settings = {"seed": seed, "evaluation.seed": seed, "evaluation.fresh_seeds": 0, "learner.objective": "none"}
    config = resolve(None, {**settings, "stop.candidates": evaluations, **ARMS[arm]}, environment={})
    world = World(seed=seed, durations=Durations(seed, 60.0, 0.6, None, 3.0, 2.0, 0.2))
    population, made, found = MemoryPopulation(header_of(config, TASK), with_journal=True), 0, list[Found]()

    async def process() -> None:
        world.serve(0, None)
        await population.commit(replace(seed_program(TASK), score=START))
        simulated = SimulatedRun(config, TASK, VirtualClock(), world, folder, FAULTLESS, Bytes(), watched=False)
        core = simulated.core(population.load(), population)
        evaluator = Noisy(world, 0.0, 1.0, 0)
        core.stages = replace(core.stages, evaluator=evaluator, implementer=Changing(seed))

        def ended() -> None:
            nonlocal made
            made += 1
            if made == evaluations and core.state.best is not None:
                share = (made - core.state.evaluated) / made
                found.append(Found(quality(core.state.best.program), share))
                core.stop("candidates")

        evaluator.ended, evaluator.noise = ended, noise
        await drive(core)

    run_virtually(process)
    return found[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-9", help="first-last")
    parser.add_argument("--evaluations", type=positive, default=200)
    chosen = parser.parse_args()
    print("| noise | measured again | repeats, % | quality of the best | less that without repeats |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for noise in NOISES:
            without: list[float] = []
            for arm in ARMS:
                runs = [run(arm, noise, seed, chosen.evaluations, Path(folder)) for seed in seeds_of(chosen.seeds)]
                best = [each.best for each in runs]
                without = without or best
                repeats = sum(each.repeats for each in runs) / len(runs)
                print(
                    f"| {noise} | {arm} | {100 * repeats:.0f} | {spread(best)} | {difference(best, without)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
