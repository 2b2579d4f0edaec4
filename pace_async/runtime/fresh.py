"""A score that would be a new best is confirmed on fresh instances before its program may be a parent, the best, or
training data.

The seeds follow from a secret that is drawn when the run begins, so nobody who writes programs can make the instances
beforehand, and no row, event or message names one: outside this file and the evaluator a seed is its number. They are
the run's, so the task's own program is scored once for each and no more; no score of the run comes from them, and what
a program says or how it fails there reaches nobody who writes programs. Cheap: a claim ends with the first try that
bears it out, and new bests are rare. A resume makes no try again whose end was remembered.
"""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from pace_async.errors import InfrastructureFault
from pace_async.evaluate.base import SECRET_SEEDS, Evaluation, Evaluator
from pace_async.events import FreshScore
from pace_async.search.fresh import bears_out
from pace_async.search.state import Member
from pace_async.task import Task

Remember = Callable[[tuple[FreshScore, ...]], Awaitable[None]]


async def _nothing(tries: tuple[FreshScore, ...]) -> None:
    """Remember no tries: a crash costs them again."""


def fresh_seeds(secret: str, count: int) -> tuple[int, ...]:
    """The first `count` seeds of the run with this secret: 128 bits each that nothing but the secret tells, and none
    that a user could set."""
    return tuple(
        SECRET_SEEDS + int.from_bytes(hmac.digest(secret.encode(), f"fresh {number}".encode(), "sha256")[:16])
        for number in range(1, count + 1)
    )


@dataclass(slots=True)
class FreshInstances:
    """Tries claims out for one run. `own` is the task's own program with its score on the hidden instances; `known` its
    scores on fresh ones so far, by the number of the seed, from 1."""

    evaluator: Evaluator
    task: Task
    own: Member
    seeds: Sequence[int] = field(repr=False)
    known: dict[int, float | None] = field(default_factory=dict[int, float | None])
    _one: anyio.Lock = field(default_factory=anyio.Lock)

    async def confirmed(
        self, program: str, found: Evaluation, *, earlier: Sequence[FreshScore] = (), remember: Remember = _nothing
    ) -> tuple[Evaluation, tuple[FreshScore, ...]]:
        """The evaluation as it may be believed, and the tries: unchanged where one of them holds, else "suspicious",
        without a score. `earlier` tries, none of which held, are not made again; before each `remember` is told of
        those so far. Raises InfrastructureFault."""
        tries = list(earlier)
        if found.score is None:
            return found, ()
        for number in range(len(tries) + 1, len(self.seeds) + 1):
            await remember(tuple(tries))
            tries.append(await self._try(program, found.score, number))
            if tries[-1].held:
                return found, tuple(tries)
        if not tries:
            return found, ()
        return (
            Evaluation("suspicious", None, found.seconds, self._words(tries), cascade=found.cascade),
            tuple(tries),
        )

    async def _try(self, program: str, claimed: float, number: int) -> FreshScore:
        own = await self._own_score(number)
        found = await self._evaluate(program, number)
        bounds, direction = self.task.spec.bounds, self.task.spec.direction
        held = found.score is not None and bears_out(
            claimed, self.own.score, found.score, own, direction=direction, lower=bounds.lower, upper=bounds.upper
        )
        return FreshScore(number, claimed, found.outcome, found.score, own, held, found.seconds)

    async def _own_score(self, number: int) -> float | None:
        async with self._one:
            if number not in self.known:
                self.known[number] = (await self._evaluate(self.task.program, number)).score
            return self.known[number]

    async def _evaluate(self, program: str, number: int) -> Evaluation:
        found = await self.evaluator.evaluate(program, self.seeds[number - 1])
        if found.outcome == "infrastructure_error":
            raise InfrastructureFault("evaluation", found.detail)
        return found

    def _words(self, tries: Sequence[FreshScore]) -> str:
        """One line for the row. The advisor is shown outcomes and never these numbers."""
        scores = ", ".join(tried.outcome if tried.score is None else f"{tried.score:.6g}" for tried in tries)
        return f"claimed {tries[0].claimed:.6g}, which fresh instances do not bear out: {scores}"
