"""What people put into a run while it searches."""

from collections.abc import Mapping
from dataclasses import dataclass

from pace_async.events.literals import Subject

GIVEN = 9_000_000
"""Ideas of people are numbered from here on, and those of rollouts below it."""
MARKS: Mapping[str, tuple[str, ...]] = {"idea": ("pin", "veto"), "candidate": ("pin", "ban")}
"""What a person may say of an idea, and of a candidate. The last word counts, and an empty one takes it back."""


@dataclass(frozen=True, slots=True)
class IdeaGiven:
    """A person's idea was taken in from the inbox: `entry` is its row there. `after`: the newest lease then, 0 before
    the first. `text` is sound and has a bounded length. The run takes each entry in once."""

    entry: int
    text: str
    after: int
    at: float

    @property
    def number(self) -> int:
        """The idea's one number for the run's life."""
        return GIVEN + self.entry


@dataclass(frozen=True, slots=True)
class ProgramGiven:
    """A lease opened for a program that was given to the run, by a person or from an earlier run, and is in its inbox
    as `entry`: it is evaluated as it is. The run takes each entry in once. `about` says what it is, in one sound line,
    or is empty."""

    lease: int
    entry: int
    program: str
    about: str
    at: float

    @property
    def experiment(self) -> str:
        """What stands in place of an experiment."""
        return self.about or "A program that was given to the run."


@dataclass(frozen=True, slots=True)
class Steered:
    """A person's word was taken in from the inbox, where it is `entry`: of the idea or the candidate of this `number`
    its mark, empty if it has none any more, or the person's whole page, which is seen once the group of that number has
    ended, with 0 at once. `after` as in `IdeaGiven`. The run takes each entry in once."""

    entry: int
    subject: Subject
    number: int
    text: str
    after: int
    at: float
