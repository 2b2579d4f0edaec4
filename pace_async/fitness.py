"""How the scores of a run compare, and how far one has come. Pure.

A `Fitness` alone knows whether a higher or a lower score is better. Whatever ranks programs, chooses the best, measures
a gain or says one of these in words asks the fitness of its task (`TaskSpec.fitness`) or run (`RunHeader.fitness`).
`OneNumber` is the usual kind: one number, its direction, and the bounds of its task. `SeveralAims` is that of a task
with several objectives: its one number is what they come to, and programs have costs besides (see `aims`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Literal, Protocol, TypeVar

from pace_async.aims import Aim, Costs, costs_of, value_of

Direction = Literal["maximize", "minimize"]
DIRECTIONS: tuple[Direction, ...] = ("maximize", "minimize")


class ScoredItem(Protocol):
    """What is ranked: something that belongs to a candidate and has its score."""

    @property
    def candidate(self) -> int: ...
    @property
    def score(self) -> float | None: ...


S = TypeVar("S", bound=ScoredItem)


class Fitness(Protocol):
    """Compares the scores of one task. Scores, gains and bounds are in the task's own unit. Another kind says how it
    differs from one number in what it overrides."""

    @property
    def name(self) -> str:
        """As `direction` in task.yaml, rows and documents."""
        ...

    @property
    def in_words(self) -> str:
        """Which scores are better: a clause without a full stop."""
        ...

    @property
    def told(self) -> str:
        """The same as models are told it: a sentence, or several."""
        return f"{self.in_words.capitalize()}."

    @property
    def worse_bound(self) -> float:
        """The score of no progress."""
        ...

    @property
    def goal(self) -> float:
        """The better bound: the score with the full reward."""
        ...

    @property
    def aims(self) -> Sequence[Aim]:
        """The objectives, none where a score is one number of the task's own."""
        return ()

    def costs(self, metrics: Mapping[str, float]) -> Costs:
        """The costs of a program with these metrics. Empty without objectives."""
        return costs_of(self.aims, metrics)

    def score_of(self, costs: Costs, weights: Sequence[float] | None = None) -> float:
        """The score of these costs, by default with equal weights of the objectives. Only where there are some."""
        return value_of(costs, weights)

    def merit(self, score: float) -> float:
        """A number that is higher for a better score. The merit of a merit is the score."""
        ...

    def better(self, a: float, b: float) -> bool:
        """Whether score `a` is strictly better than `b`."""
        ...

    def gain(self, score: float, over: float) -> float:
        """How much better a score is than `over`, below 0 if it is worse."""
        ...

    def ratio(self, score: float, known: float) -> float:
        """A score as a share of a known one, more than 1 if it is better. Both are above 0."""
        ...

    def reaches(self, score: float, limit: float) -> bool:
        """Whether a score is at least as good as `limit`."""
        return not self.better(limit, score)

    def progress(self, score: float) -> float:
        """u(y) in [0, 1]: how far a score lies from the worse bound towards the better one."""
        return self.covered(self.worse_bound, score)

    def covered(self, start: float, score: float) -> float:
        """The share in [0, 1] of the way from `start` to the goal that a score has come. 1 if `start` is at the goal or
        beyond."""
        whole = self.gain(self.goal, start)
        return min(1.0, max(0.0, self.gain(score, start) / whole)) if whole > 0 else 1.0

    def best(self, scores: Iterable[float]) -> float:
        """The best of at least one score."""
        return max(scores, key=self.merit)

    def ranked(self, things: Iterable[S]) -> list[S]:
        """Those that have a score, the best first and of equal ones the older candidate."""
        scored = [(-self.merit(thing.score), thing.candidate, thing) for thing in things if thing.score is not None]
        return [thing for _, _, thing in sorted(scored, key=itemgetter(0, 1))]


@dataclass(frozen=True, slots=True)
class OneNumber(Fitness):
    """A score that is one number: the higher the better, or the lower."""

    higher: bool
    lower: float
    upper: float

    @property
    def name(self) -> Direction:
        return "maximize" if self.higher else "minimize"

    @property
    def in_words(self) -> str:
        return "higher is better" if self.higher else "lower is better"

    @property
    def worse_bound(self) -> float:
        return self.lower if self.higher else self.upper

    @property
    def goal(self) -> float:
        return self.upper if self.higher else self.lower

    def merit(self, score: float) -> float:
        return score if self.higher else -score

    def better(self, a: float, b: float) -> bool:
        return a > b if self.higher else a < b

    def gain(self, score: float, over: float) -> float:
        return score - over if self.higher else over - score

    def ratio(self, score: float, known: float) -> float:
        return score / known if self.higher else known / score


@dataclass(frozen=True, slots=True)
class SeveralAims(OneNumber):
    """The one number that several objectives come to."""

    aims: tuple[Aim, ...]  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def in_words(self) -> str:
        return f"higher is better, of what {len(self.aims)} objectives come to"

    @property
    def told(self) -> str:
        aims = "; ".join(aim.in_words for aim in self.aims)
        return (
            f"There are {len(self.aims)} objectives: {aims}. The score is what they come to, higher is better: 1 where "
            "each is at its better end, and low where one of them is far from it. Every program counts that no other "
            "one surpasses in all objectives, so different trade-offs are wanted."
        )


def ranks_above(
    fitness: Fitness, a: tuple[float, float | None], b: tuple[float, float | None], *, by_confirmed: bool
) -> bool:
    """Whether `a`, a score and the confirmed one, stands strictly above `b`. `by_confirmed`: a confirmed score counts
    before the other, and any before none."""
    if by_confirmed and a[1] != b[1]:
        return b[1] is None or (a[1] is not None and fitness.better(a[1], b[1]))
    return fitness.better(a[0], b[0])


@lru_cache(maxsize=256)
def fitness_of(direction: str, lower: float, upper: float, aims: tuple[Aim, ...] = ()) -> Fitness:
    """The fitness of a task or run with this direction, these bounds and these objectives."""
    higher = direction == "maximize"
    return SeveralAims(higher, lower, upper, aims) if aims else OneNumber(higher, lower, upper)
