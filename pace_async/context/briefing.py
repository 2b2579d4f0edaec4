"""What the implementer gets besides the parent: why, the programs that the specification names, and what failed before.

Pure. Made again on a resume from the committed advice and the state.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pace_async.context.beside import beside
from pace_async.context.figures import digits_for, score_text
from pace_async.context.practice import practice_levels
from pace_async.context.questions import Frame, Prompts, RenderedQuestion
from pace_async.context.rows import Row
from pace_async.context.sections import Levels
from pace_async.context.table import line_of, list_levels
from pace_async.context.texts import answer_length_text, limits_text, measured_text, one_line, task_text
from pace_async.context.value import failed_on, program_of
from pace_async.programs.folding import changed_names, folded, mentioned_in, names_in
from pace_async.programs.languages import PYTHON
from pace_async.programs.outline import differing
from pace_async.search.state import Island, Member
from pace_async.state.pools import view_of
from pace_async.state.run_state import RunState

MOST_NAMED = 4
"""Programs that a specification may bring along."""
LEAST_SAVED = 800
"""Characters that folding has to save."""
HIDDEN = (
    " A line that ends in `hidden` stands for code that is not needed: keep it, redefine it, or drop it if unused (an "
    "edit's new lines leave it out)."
)
EVERYTHING = frozenset({"all", "everything", "entire", "whole"})
"""Words of a specification that needs the whole program."""
_NUMBER = r"#?[0-9]{1,9}(?!\.?[0-9])"
_NAMED = re.compile(rf"\bcandidates?\s+({_NUMBER}(?:\s*(?:,|and|or|,\s*and)\s*{_NUMBER})*)", re.IGNORECASE)
_NEEDS = re.compile(r"^[\s>*_#`-]*(?:\d+[.)]\s*)?[*_`]*Needs[*_`]*\s*:(.*)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Briefing:
    """See the module. `missing` are candidates that the specification names and whose programs are not kept, or have no
    score."""

    prompts: Prompts
    reasoning: str
    named: tuple[Member, ...] = ()
    missing: tuple[int, ...] = ()
    failed: tuple[Row, ...] = ()
    specification: str = ""

    def render(
        self, program: Levels, parent: Member, values: Mapping[str, Any], *, begun: bool = False
    ) -> RenderedQuestion:
        """The question, around the text of the program that is to be changed, which is another than the parent's where
        it is `begun`. `values` are those of the templates."""
        spec = self.prompts.task.spec
        digits = self.digits(parent)

        def whole(text: str) -> Levels:
            return lambda level: text if level == 0 else None

        def named(level: int) -> str | None:
            return self._named_programs(parent, digits, whole=level == 0) if level <= 1 else None

        levels: dict[str, Levels] = {
            "task": whole(task_text(spec)),
            "limits": whole(limits_text(spec, self.prompts.around)),
            "measured": whole(measured_text(spec)),
            "named": named,
            "failed": self._failed(digits),
            "program": program,
            "practice": whole("") if begun else practice_levels(parent.practice),
        }
        longest = answer_length_text(self.prompts.answer_tokens.get("implement"))
        extra = {**values, "reasoning": one_line(self.reasoning), "answer_length": longest}
        frame = Frame(self.prompts.templates, ("implementer_system", "implement"), extra)
        return frame.within(levels, self.prompts.budget)

    def digits(self, parent: Member) -> int:
        """Significant digits that tell the scores in the question apart."""
        return digits_for([parent.score, *(member.score for member in self.named)])

    def seen(self, program: str, specification: str) -> str:
        """The program as its author sees it: without what the specification does not need, if it says what it needs."""
        needs = needed(specification)
        if needs is None or self.prompts.task.spec.language != PYTHON or self.prompts.task.spec.has_folder:
            return program
        others = [(member.program, wanted_of(program, member.program, specification)) for member in self.named]
        whole = [other for other, names in others if not names]
        needs |= changed_names(program, whole).union(*(names for _, names in others))
        excerpt = folded(program, needs, mentioned_in(specification))
        return excerpt if len(program) - len(excerpt) >= LEAST_SAVED else program

    def page(self, parent: Member) -> str:
        """The same as a file for an author who works in a folder, without the task and the program."""
        digits = self.digits(parent)
        parts = {
            "How a program is scored": measured_text(self.prompts.task.spec),
            "Why": one_line(self.reasoning),
            "Programs that the experiment may use": self._named_programs(parent, digits, whole=True),
            "Failed on this program and its ancestors": self._failed(digits)(0) or "",
        }
        return "\n\n".join(f"# {name}\n\n{text}" for name, text in parts.items() if text) + "\n"

    def _named_programs(self, parent: Member, digits: int, *, whole: bool) -> str:
        parts = [
            f"Candidate {member.candidate}, score {score_text(member.score, digits)}"
            + (f", {self._beside(member, parent)}" if whole else ": its text is left out.")
            for member in self.named
        ]
        parts += [f"Candidate {candidate}: its program is not kept." for candidate in self.missing]
        return "\n\n".join(parts)

    def _beside(self, member: Member, parent: Member) -> str:
        names = wanted_of(parent.program, member.program, self.specification)
        return beside(member.program, parent, self.prompts.task.spec, names)

    def _failed(self, digits: int) -> Levels:
        return list_levels([line_of(row, digits) for row in self.failed])


def briefing_of(
    prompts: Prompts,
    state: RunState,
    island: Island,
    parent: Member,
    specification: str,
    reasoning: str,
    idea: str = "",
) -> Briefing:
    """The briefing for a decided experiment. Programs are named by its specification or by its idea."""
    members, missing = list[Member](), list[int]()
    for candidate in named_candidates(f"{specification}\n{idea}"):
        if candidate == parent.candidate or candidate > state.last_lease:
            continue  # "candidate 5, 600 steps" names no candidate 600
        member = program_of(state, island, candidate)
        if member is None:
            missing.append(candidate)
        else:
            members.append(member)
    failed = failed_on(view_of(state, island), parent, prompts.task.spec)
    return Briefing(prompts, reasoning, tuple(members[:MOST_NAMED]), tuple(missing[:MOST_NAMED]), failed, specification)


def without_needs(specification: str) -> str:
    """The specification without its lines `Needs: ...`, which say what its author is shown."""
    return _NEEDS.sub("", specification).strip("\n")


def needed(specification: str) -> frozenset[str] | None:
    """Names in the lines `Needs: ...`: the functions of the parent that the author has to see. None if it has to see
    all of them, as without such a line."""
    lines = _NEEDS.findall(specification)
    names = names_in(" ".join(lines))
    return names if lines and names.isdisjoint(EVERYTHING) else None


def wanted_of(program: str, other: str, specification: str) -> frozenset[str]:
    """Names that the specification has, or needs, of functions and tables that the other program has in other words.
    None if it needs all of the program, or names no such function: then all that differs is wanted."""
    needs = needed(specification)
    return frozenset() if needs is None else differing(program, other, needs | names_in(specification))


def named_candidates(text: str) -> list[int]:
    """The numbers in `candidate 17` or `candidates 3, 5 and 8`, each once, in their order."""
    numbers = (int(number) for match in _NAMED.finditer(text) for number in re.findall(r"[0-9]+", match[1]))
    return list(dict.fromkeys(numbers))
