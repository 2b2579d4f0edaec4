"""What people have said of ideas and candidates, and their page. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pace_async.events import Steered


@dataclass(frozen=True, slots=True)
class Steering:
    """The marks of ideas and of candidates (`events.people.MARKS`) by number, the latest said last."""

    ideas: Mapping[int, str] = field(default_factory=dict[int, str])

    def after(self, fact: Steered) -> "Steering":
        """With one more word."""
        return replace(self, ideas=_marked(self.ideas, fact))

    def pinned(self) -> list[int]:
        """Ideas that come first, in the order in which they were pinned."""
        return [number for number, mark in self.ideas.items() if mark == "pin"]

    def vetoed(self) -> list[int]:
        """Ideas that are not to be tried, the latest veto last."""
        return [number for number, mark in self.ideas.items() if mark == "veto"]


NOTHING_SAID = Steering()


def _marked(marks: Mapping[int, str], fact: Steered) -> dict[int, str]:
    others = {number: mark for number, mark in marks.items() if number != fact.number}
    return {**others, fact.number: fact.text} if fact.text else others
