"""Evaluators that sleep: simulated, or a program that sleeps in the sandbox. The n-th call sleeps the n-th duration."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from pace_async import config
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationRequest, evaluate
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.evaluate.local import LocalEvaluator
from pace_async.simulate.durations import Durations
from pace_async.task import Task, load_task

SPEC = """name: nap
background: >-
  {background}
coding_requirements: >-
  {requirements}
direction: maximize
bounds: {{lower: 0.0, upper: 1.0}}
program: initial.py
evaluator: evaluator.py
entry: nap
timeout_s: 60
memory_mb: 512
deterministic: false
"""
SCORER = """
def instances(seed):
    return [0]


def score(instances, outputs):
    return {"score": 0.5 if outputs == ["slept"] else 0.0}
"""
NAP = """

def nap(instance):
    import time

    time.sleep(SECONDS)
    return "slept"
"""


@dataclass
class SleepingEvaluator(InTaskEvaluator):
    """Simulated: sleeps, and scores 0.5."""

    durations: Durations
    calls: int = 0

    async def run(self, request: EvaluationRequest) -> Evaluation:
        self.calls += 1
        seconds = self.durations.evaluation(self.calls)
        await anyio.sleep(seconds)
        return Evaluation("ok", 0.5, seconds)


@dataclass
class SandboxedSleeper(InTaskEvaluator):
    """Real: the candidate is launched in the sandbox, receives the time to sleep, and its answer is scored. `seconds`
    counts only the sleep."""

    evaluator: LocalEvaluator
    durations: Durations
    calls: int = 0

    async def run(self, request: EvaluationRequest) -> Evaluation:
        self.calls += 1
        seconds = self.durations.evaluation(self.calls)
        program = f"{request.program}\nSECONDS = {seconds!r}\n"
        found = await evaluate(self.evaluator, replace(request, program=program))
        return replace(found, seconds=seconds)


def napping(folder: Path) -> Task:
    """A task that looks like circle_packing to a model, so prompts, edits and imports are real. Its program sleeps."""
    real = load_task("circle_packing")
    requirements = real.spec.coding_requirements.replace("\n", " ")
    folder.mkdir()
    (folder / "task.yaml").write_text(SPEC.format(background=real.spec.background.strip(), requirements=requirements))
    (folder / "initial.py").write_text(real.program + NAP)
    (folder / "evaluator.py").write_text(SCORER)
    return load_task(str(folder))


@asynccontextmanager
async def sandboxed(task: Task, durations: Durations, slots: int) -> AsyncGenerator[SandboxedSleeper]:
    """The evaluator of a run, opened as in a run, with one slot for every thread."""
    async with open_evaluator(task, config.EvaluationConfig(slots=slots)) as evaluator:
        yield SandboxedSleeper(evaluator, durations)
