"""The corpus of cheats as an implementer writes it, and a run that meets each: the real sandbox, scorer, fresh
instances and database, under the real runtime. Only the advisor is simulated."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pace_async.config import Config
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationRequest, Evaluator, evaluate
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.population.store import Store
from pace_async.runtime.run.fresh import FreshInstances, fresh_seeds
from pace_async.runtime.start.adversarial_programs import CHEATS, ENDLESS
from pace_async.runtime.start.launch import header_of
from pace_async.runtime.start.seed_program import score_seed_program
from pace_async.runtime.start.supervisor import drive
from pace_async.search.state import Member
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import FAULTLESS, SimulatedRun
from pace_async.simulate.stages import World
from pace_async.task import Task
from tests.doubles.clocks import Impatient
from tests.support.changed_stages import change_stages
from tests.support.population_facts import empty_population
from tests.support.simulated_runs import settings

HANG_S = 2.0
OWN = "the task's own program"
HONEST = "honest"
BY_HEART = "by heart"

GRID = """
def pack(instance):
    grid = [[0.1 + 0.2 * i, 0.1 + 0.2 * j, 0.0999] for i in range(5) for j in range(5)]
    return [*grid, [0.2, 0.2, 0.0]]
"""
EVEN = """
def place(instance):
    experts = len(instance["load"][0])
    return [[slot % experts for slot in range(instance["slots"])] for _ in instance["load"]]
"""
"""Twice as good as the program of its task, and honest."""
NEXT_WINDOW = """
def spread(layer):
    slots = [*range(len(layer)), *sorted(range(len(layer)), key=layer.__getitem__)[-32:]]
    ranked = sorted(slots, key=lambda expert: layer[expert] / slots.count(expert))
    return [expert for gpu in range(32) for expert in ranked[gpu::32]]

seen = [window.tolist() for window in _windows(0, 16, 7)]
KNOWN = {tuple(now[0]): [spread(layer) for layer in after] for now, after in zip(seen, seen[1:])}

def place(instance):
    return KNOWN[tuple(instance["load"][0])]
"""
"""Has the answers ready: the trace is the evaluator's own."""


def corpus(task: Task) -> dict[str, str]:
    """Program by name: those that cheat any task, those of this one's folder, one that has memorised the hidden
    instances if they differ from others, and an honest one last."""
    entry = task.spec.entry
    everywhere = {cheat.name: cheat.program(entry) for cheat in (*CHEATS, *ENDLESS)}
    own = {file.stem: file.read_text() for file in sorted((task.folder / "cheats").glob("*.py"))}
    evaluator = (task.folder / task.spec.evaluator).read_text()
    evaluator = evaluator.replace("from expert_load import read_windows\n", "")  # which is not in the sandbox
    knows = {"eplb": {BY_HEART: evaluator + NEXT_WINDOW}, "circle_packing": {}}[task.name]
    honest = {"eplb": EVEN, "circle_packing": GRID}[task.name]
    return {**everywhere, **own, **knows, HONEST: honest}


@dataclass
class Corpus:
    """An implementer that writes program after program, whatever it is asked for, and names it in the row."""

    left: list[tuple[str, str]]

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        name, program = self.left.pop(0)
        return ImplementedProgram(program, mechanism=name)


@dataclass
class Patient(InTaskEvaluator):
    """The task's evaluator, but a program that is known to hang gets seconds only."""

    usual: Evaluator
    endless: set[str] = field(default_factory=set[str])

    async def run(self, request: EvaluationRequest) -> Evaluation:
        if request.program in self.endless:
            request = replace(request, limits=replace(request.limits, seconds=HANG_S))
        return await evaluate(self.usual, request)


async def run_corpus(
    task: Task, folder: Path, programs: Mapping[str, str], **given: object
) -> dict[str, dict[str, Any]]:
    """Run these programs as candidates. Returns by name of the program its row in the database, with its rank among
    those with a score."""
    shape = {"search__threads": 1, "search__migration": 0.0, "stop__candidates": len(programs), **given}
    config: Config = settings(**shape, learner__objective="none", task=task.name)
    tier = await pick_tier(False)
    hangs = {cheat.program(task.spec.entry) for cheat in ENDLESS}
    async with (
        Store.open(empty_population(folder)) as store,
        open_evaluator(task, config.evaluation, tier=tier, log=folder / "log") as usual,
    ):
        await store.create_run(header_of(config, task, "cheats", tier))
        await store.commit(*await score_seed_program(config, task, tier))
        record = await store.load("cheats")
        assert record.run_state.seed_program is not None
        core = SimulatedRun(config, task, Impatient(), World(), folder, FAULTLESS, Bytes(), watched=False).core(
            record, store
        )
        evaluator = Patient(usual, hangs)
        change_stages(core, implementer=Corpus(list(programs.items())), evaluator=evaluator)
        seeds = fresh_seeds(record.secret, config.evaluation.fresh_seeds)
        core.fresh = FreshInstances(evaluator, task, record.run_state.seed_program, seeds, dict(record.own_scores))
        assert await drive(core) == "done"
        rows = await store.query(
            "select c.*, l.rank from candidates c left join leaderboard l on l.candidate = c.candidate"
        )
    return {row["mechanism"] or OWN: dict(row) for row in rows}
