"""Evaluators for tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import anyio
import anyio.lowlevel

from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Evaluator, Limits, evaluate
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.evaluate.local import LocalEvaluator
from pace_async.search.draws import derive
from pace_async.task import FULL

HIDDEN = "evaluator.py, line 7"
LIMITS = Limits(60.0, 512, 1 << 20)
_leases = count(1)


def request(
    program: str, seed: int = 0, stage: str = FULL, *, lease: int | None = None, attempt: int = 1
) -> EvaluationRequest:
    """A request with an identity of its own, unless `lease` says which."""
    identity = EvaluationId("test", next(_leases) if lease is None else lease, stage, attempt)
    return EvaluationRequest(identity, program, seed, LIMITS)


async def scored(evaluator: Evaluator, program: str, seed: int = 0, stage: str = FULL) -> Evaluation:
    """One evaluation with an identity of its own, and with the limits of the task where the evaluator is a real one."""
    asked = request(program, seed, stage)
    if isinstance(evaluator, LocalEvaluator):
        asked = replace(asked, limits=Limits.of(evaluator.task.spec, stage))
    return await evaluate(evaluator, asked)


class Judge(InTaskEvaluator):
    """A program with the word `wrong` raises, one with `slow` times out, and one with `trips` makes the evaluator
    itself fail. Any other has a score."""

    def __init__(self) -> None:
        self.programs: list[str] = []

    async def run(self, request: EvaluationRequest) -> Evaluation:
        await anyio.lowlevel.checkpoint()
        program = request.program
        self.programs.append(program)
        if "wrong" in program:
            return Evaluation("candidate_error", None, 1.0, "NameError: name 'wrong' is not defined (line 2)")
        if "trips" in program:
            return Evaluation("invalid_score", None, 1.0, "KeyError: 'x'", evaluator_error=f"{HIDDEN}: KeyError: 'x'")
        if "slow" in program:
            return Evaluation("timeout", None, 1.0, "stopped after 1.0 s")
        return Evaluation("ok", (derive(request.seed, program) % 1000) / 1000, 1.0)


@dataclass
class Held(InTaskEvaluator):
    """Answers `until` calls at once, the others when it is let go. `all_wait` is set when `threads` calls wait."""

    inner: Evaluator
    until: int
    threads: int
    waiting: int = 0
    let_go: anyio.Event = field(default_factory=anyio.Event)
    all_wait: anyio.Event = field(default_factory=anyio.Event)
    calls: int = 0

    async def run(self, request: EvaluationRequest) -> Evaluation:
        self.calls += 1
        if self.calls > self.until and not self.let_go.is_set():
            self.waiting += 1
            if self.waiting == self.threads:
                self.all_wait.set()
            await self.let_go.wait()
        return await evaluate(self.inner, request)


@dataclass
class StageScores(InTaskEvaluator):
    """Gives each stage of a cascade the given evaluation."""

    scores: Mapping[str, Evaluation]
    asked: list[str] = field(default_factory=list[str])

    async def run(self, request: EvaluationRequest) -> Evaluation:
        self.asked.append(request.stage)
        return self.scores[request.stage]


@dataclass
class OutcomeOfSeed(InTaskEvaluator):
    """Each seed has its outcome, or the score 1 without one. The program `own` has no score."""

    outcomes: Mapping[int, str]
    calls: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    async def run(self, request: EvaluationRequest) -> Evaluation:
        self.calls.append((request.program, request.seed))
        outcome = self.outcomes.get(request.seed, "ok")
        score = 1.0 if outcome == "ok" and request.program != "own" else None
        return Evaluation(outcome, score, 1.0, "detail")  # pyright: ignore[reportArgumentType]
