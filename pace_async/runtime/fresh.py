"""A score that would be a new best is confirmed on fresh instances before its program may be a parent, the best, or
training data.

The seeds are the run's, so the task's own program is scored once for each and no more; no score of the run comes from
them, and what a program says or how it fails there reaches nobody who writes programs. Cheap: a claim ends with the
first try that bears it out, and new bests are rare. A resume makes no try again whose end was remembered.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from pace_async.config import Config
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.base import Evaluation, Evaluator
from pace_async.events import FreshScore
from pace_async.search.draws import derive
from pace_async.search.fresh import bears_out
from pace_async.search.state import Member
from pace_async.task import Task

Remember = Callable[[tuple[FreshScore, ...]], Awaitable[None]]


async def _nothing(tries: tuple[FreshScore, ...]) -> None:
    """Remember no tries: a crash costs them again."""


def fresh_seeds(config: Config) -> tuple[int, ...]:
    """The seeds of a run, in the order in which they are tried; none is the hidden set's."""
    drawn = (derive(config.seed, "fresh", number) for number in range(1, config.evaluation.fresh_seeds + 2))
    return tuple(seed for seed in drawn if seed != config.evaluation.seed)[: config.evaluation.fresh_seeds]


@dataclass(slots=True)
class FreshInstances:
    """Tries claims out for one run. `own` is the task's own program with its score on the hidden instances; `known` its
    scores on fresh ones so far, by seed."""

    evaluator: Evaluator
    task: Task
    own: Member
    seeds: Sequence[int]
    known: dict[int, float | None] = field(default_factory=dict[int, float | None])
    _one: anyio.Lock = field(default_factory=anyio.Lock)

    @classmethod
    def of(
        cls, config: Config, task: Task, evaluator: Evaluator, own: Member, known: Mapping[int, float | None]
    ) -> "FreshInstances":
        """Those that a configuration asks for."""
        return cls(evaluator, task, own, fresh_seeds(config), dict(known))

    async def confirmed(
        self, program: str, found: Evaluation, *, earlier: Sequence[FreshScore] = (), remember: Remember = _nothing
    ) -> tuple[Evaluation, tuple[FreshScore, ...]]:
        """The evaluation as it may be believed, and the tries: unchanged where one of them holds, else "suspicious",
        without a score. `earlier` tries, none of which held, are not made again; before each `remember` is told of
        those so far. Raises InfrastructureFault."""
        tries = list(earlier)
        if found.score is None:
            return found, ()
        for seed in self.seeds[len(tries) :]:
            await remember(tuple(tries))
            tries.append(await self._try(program, found.score, seed))
            if tries[-1].held:
                return found, tuple(tries)
        if not tries:
            return found, ()
        return (
            Evaluation("suspicious", None, found.seconds, self._words(tries), cascade=found.cascade),
            tuple(tries),
        )

    async def _try(self, program: str, claimed: float, seed: int) -> FreshScore:
        own = await self._own_score(seed)
        found = await self._evaluate(program, seed)
        bounds, direction = self.task.spec.bounds, self.task.spec.direction
        held = found.score is not None and bears_out(
            claimed, self.own.score, found.score, own, direction=direction, lower=bounds.lower, upper=bounds.upper
        )
        return FreshScore(seed, claimed, found.outcome, found.score, own, held, found.seconds)

    async def _own_score(self, seed: int) -> float | None:
        async with self._one:
            if seed not in self.known:
                self.known[seed] = (await self._evaluate(self.task.program, seed)).score
            return self.known[seed]

    async def _evaluate(self, program: str, seed: int) -> Evaluation:
        found = await self.evaluator.evaluate(program, seed)
        if found.outcome == "infrastructure_error":
            raise InfrastructureFault("evaluation", found.detail)
        return found

    def _words(self, tries: Sequence[FreshScore]) -> str:
        """One line for the row. The advisor is shown outcomes and never these numbers."""
        scores = ", ".join(tried.outcome if tried.score is None else f"{tried.score:.6g}" for tried in tries)
        return f"claimed {tries[0].claimed:.6g}, which fresh instances do not bear out: {scores}"
