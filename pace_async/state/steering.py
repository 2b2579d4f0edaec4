"""What people have said of ideas and candidates, and their page. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pace_async.events import Steered

PAGES_KEPT = 3
"""Behind a barrier: the one that is seen, one from the end of the group that is made, and one from that of the next."""


@dataclass(frozen=True, slots=True)
class Steering:
    """The marks of ideas and of candidates (`events.people.MARKS`) by number, the latest said last. A pinned candidate
    has no mark any more once a lease builds on it. `pages` are the last ones, each with the group from whose end on it
    is seen, the newest last."""

    ideas: Mapping[int, str] = field(default_factory=dict[int, str])
    candidates: Mapping[int, str] = field(default_factory=dict[int, str])
    pages: tuple[tuple[int, str], ...] = ()

    def after(self, fact: Steered) -> "Steering":
        """With one more word."""
        if fact.subject == "candidate":
            return self.marked(fact.number, fact.text)
        if fact.subject == "note":
            others = (page for page in self.pages if page[0] != fact.number)
            return replace(self, pages=(*others, (fact.number, fact.text))[-PAGES_KEPT:])
        return replace(self, ideas=_marked(self.ideas, fact.number, fact.text))

    def marked(self, candidate: int, mark: str) -> "Steering":
        """With this mark of a candidate, empty for none."""
        return replace(self, candidates=_marked(self.candidates, candidate, mark))

    def pinned(self) -> list[int]:
        """Ideas that come first, in the order in which they were pinned."""
        return [number for number, mark in self.ideas.items() if mark == "pin"]

    def vetoed(self) -> list[int]:
        """Ideas that are not to be tried, the latest veto last."""
        return [number for number, mark in self.ideas.items() if mark == "veto"]

    def page(self, groups: int) -> str:
        """The person's page that is seen once so many groups have ended, empty without one."""
        return next((text for group, text in reversed(self.pages) if group <= groups), "")

    def awaited(self) -> list[int]:
        """Candidates on which the next leases build, one each, in the order in which they were pinned."""
        return [number for number, mark in self.candidates.items() if mark == "pin"]

    def banned(self) -> set[int]:
        """Candidates that count for nothing any more."""
        return {number for number, mark in self.candidates.items() if mark == "ban"}


NOTHING_SAID = Steering()


def _marked(marks: Mapping[int, str], number: int, mark: str) -> dict[int, str]:
    others = {each: known for each, known in marks.items() if each != number}
    return {**others, number: mark} if mark else others
