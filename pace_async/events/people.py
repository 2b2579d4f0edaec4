"""What people put into a run while it searches."""

from dataclasses import dataclass

GIVEN = 9_000_000
"""Ideas of people are numbered from here on, and those of rollouts below it."""


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
