"""What the implementer gets besides the parent: why, the programs that the specification names, and what failed before.

Pure. Made again on a resume from the committed advice and the state.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pace_async.context.figures import digits_for, score_text
from pace_async.context.practice import practice_levels
from pace_async.context.questions import Prompts, Rendered, rendered
from pace_async.context.sections import Levels
from pace_async.context.texts import beside, limits_text, listed, one_line, row_text, task_text
from pace_async.context.value import FAILED, Row, as_told, program_of, view_of
from pace_async.search.results import TriedOut
from pace_async.search.state import Island, Member
from pace_async.state.run_state import RunState

MOST_NAMED = 4
"""Programs that a specification may bring along."""
_NAMED = re.compile(r"\bcandidates?\s+#?([0-9]{1,9}(?:\s*(?:,|and|or|,\s*and)\s*#?[0-9]{1,9})*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Briefing:
    """See the module. `missing` are candidates that the specification names and whose programs are not kept, or have no
    score."""

    prompts: Prompts
    reasoning: str
    named: tuple[Member, ...] = ()
    missing: tuple[int, ...] = ()
    failed: tuple[TriedOut, ...] = ()

    def render(self, program: Levels, parent: Member, values: Mapping[str, Any], *, begun: bool = False) -> Rendered:
        """The question, around the text of the program that is to be changed, which is another than the parent's where
        it is `begun`. `values` are those of the templates."""
        spec = self.prompts.task.spec
        digits = digits_for([parent.score, *(member.score for member in self.named)])

        def whole(text: str) -> Levels:
            return lambda level: text if level == 0 else None

        def named(level: int) -> str | None:
            return self._named(parent, digits, whole=level == 0) if level <= 1 else None

        levels: dict[str, Levels] = {
            "task": whole(task_text(spec)),
            "limits": whole(limits_text(spec, self.prompts.around)),
            "named": named,
            "failed": self._failed(digits),
            "program": program,
            "practice": whole("") if begun else practice_levels(parent),
        }
        extra = {**values, "reasoning": one_line(self.reasoning)}
        return rendered(self.prompts.templates, ("implementer_system", "implement"), levels, self.prompts.budget, extra)

    def page(self, parent: Member) -> str:
        """The same as a file for an author who works in a folder, without the task and the program."""
        digits = digits_for([parent.score, *(member.score for member in self.named)])
        parts = {
            "Why": one_line(self.reasoning),
            "Programs that the experiment may use": self._named(parent, digits, whole=True),
            "What failed before on this program and on what it came from": self._failed(digits)(0) or "",
        }
        return "\n\n".join(f"# {name}\n\n{text}" for name, text in parts.items() if text) + "\n"

    def _named(self, parent: Member, digits: int, *, whole: bool) -> str:
        spec = self.prompts.task.spec
        parts = [
            f"Candidate {member.candidate}, score {score_text(member.score, digits)}"
            + (f", {beside(member.program, parent, spec)}" if whole else ": its text is left out.")
            for member in self.named
        ]
        parts += [f"Candidate {candidate}: its program is not kept." for candidate in self.missing]
        return "\n\n".join(parts)

    def _failed(self, digits: int) -> Levels:
        def line(one: TriedOut) -> Callable[[int], str]:
            return lambda longest: row_text(Row(one, None), digits, longest)

        return listed([line(one) for one in self.failed])


def briefing_of(
    prompts: Prompts, state: RunState, island: Island, parent: Member, specification: str, reasoning: str
) -> Briefing:
    """The briefing for a decided experiment."""
    named, missing = list[Member](), list[int]()
    for candidate in named_candidates(specification):
        if candidate == parent.candidate:
            continue
        member = program_of(state, island, candidate)
        if member is None:
            missing.append(candidate)
        else:
            named.append(member)
    failed = view_of(state, island).failed_from(parent.candidate, FAILED)
    told = tuple(as_told(one, prompts.task.spec) for one in failed)
    return Briefing(prompts, reasoning, tuple(named[:MOST_NAMED]), tuple(missing[:MOST_NAMED]), told)


def named_candidates(text: str) -> list[int]:
    """The numbers in `candidate 17` or `candidates 3, 5 and 8`, each once, in their order."""
    found = [int(number) for match in _NAMED.finditer(text) for number in re.findall(r"[0-9]+", match[1])]
    return list(dict.fromkeys(found))
