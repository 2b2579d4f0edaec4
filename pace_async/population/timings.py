"""Durations of a run's stages, to explain its speed and to simulate it in another shape.

Values only: a command that is refused at once loads this module and no database library.
"""

from dataclasses import dataclass

ROLLOUTS_TIMED = 256
"""How many of the newest rollouts give the speed of a run."""
CALLS_COUNTED = 64
"""How many of the newest calls over the network tell whether a service answers."""


@dataclass(frozen=True, slots=True)
class RolloutTimes:
    """One complete rollout in seconds: `whole` from its lease to its score, `evaluation` with its tries on fresh
    instances, `since_answer` from the last answer of a model to the score, the wait for an evaluation slot included."""

    whole: float
    evaluation: float
    since_answer: float

    @property
    def waited(self) -> float:
        """The wait for a slot: the time since the last answer without the evaluation."""
        return max(0.0, self.since_answer - self.evaluation)


@dataclass(frozen=True, slots=True)
class Timings:
    """The stages of a run. `rollouts` are the newest that were not interrupted, oldest first, and `busy` the thread
    seconds of all that are complete, of an interrupted one those since the last resume. `candidates` counts all except
    the task's own program. `learning` and `push` are the seconds of the last step and push, 0 before. `driven` is the
    time in which a process drove the run, in seconds. `answers` says of each of the newest calls over the network,
    oldest first, whether it got an answer."""

    candidates: int
    busy: float
    rollouts: tuple[RolloutTimes, ...]
    learning: float
    push: float
    driven: float
    answers: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedSeconds:
    """Durations of stages. `evaluations` is by lease. `own` is the evaluation of the task's own program, 0 if it has
    none. `fresh` has (candidate, number of the seed, seconds) for each try on fresh instances, in their order. The
    others are means."""

    evaluations: tuple[tuple[int, float], ...]
    own: float
    fresh: tuple[tuple[int, int, float], ...]
    advising: float
    implementing: float
    learning: float
    pushing: float
