"""The edit of an advisor that writes the code itself (`advisor.role: end_to_end`): read, and made into a program.

An answer is read before it becomes the rollout's experiment, so one that has no edit ends the rollout as any answer
that cannot be parsed. A program is then made of it as of a model's first answer. There is no repair: a second answer
would earn the reward of the first one's tokens.
"""

from typing import Any

from pace_async.context.texts import one_line
from pace_async.errors import CandidateFault
from pace_async.implement.answers import in_helper_or_fault, made_of
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.implement.edits import WholeBlock, parse
from pace_async.implement.model_maker import refuse_longer
from pace_async.programs.languages import language_of
from pace_async.programs.text import SEARCH
from pace_async.search.state import Member
from pace_async.task import Task
from pace_async.thinking import answer_proper

LONGEST_TITLE = 200
"""Characters of the sentence under which an edit is remembered."""
_FENCES = ("```", "~~~")
_MARKS = "#*>- \t"
"""What Markdown puts before a sentence, or around it."""


class AdvisorEdit:
    """Implements `implement.base.Implementer`: an experiment's description is the advisor's whole answer."""

    def __init__(self, task: Task) -> None:
        del task

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        spec = task.spec
        program = await made_of(experiment.description, parent.program, spec.language, spec.entry)
        refuse_longer(program, spec.longest_program)
        return ImplementedProgram(program)


async def read_edit(answer: str, parent: str, language: str) -> str:
    """The title of the edit that an answer has. Raises CandidateFault("unparsed") for an answer without one, and
    InfrastructureFault if no process is available to read it."""
    try:
        return str((await in_helper_or_fault(titled, answer, parent, language))["title"])
    except CandidateFault as fault:
        raise CandidateFault("unparsed", fault.detail) from None


def titled(answer: str, parent: str, language: str) -> dict[str, Any]:
    """Runs in another process: the title, or why the answer has no edit."""
    try:
        return {"title": title_of(answer, parent, language)}
    except CandidateFault as fault:
        return {"kind": fault.kind, "detail": fault.detail}


def title_of(answer: str, parent: str, language: str) -> str:
    """The first line before the edit that says something, else the first line of the edit that is not in the parent.
    Raises CandidateFault for an answer that is no edit."""
    edit = parse(answer, language_of(language))
    for line in answer_proper(answer).split("\n"):
        if line.rstrip() == SEARCH or line.startswith(_FENCES):
            break
        if any(character.isalnum() for character in line):
            return _title_of(line.strip(_MARKS))
    if isinstance(edit, WholeBlock):
        written = edit.text.split("\n")
    else:
        written = [line for each in edit for line in (each.replace or each.search)]
    known = {line.strip() for line in parent.split("\n")}
    new = (line for line in written if line.strip() and line.strip() not in known)
    return _title_of(next(new, next((line for line in written if line.strip()), "an empty block")))


def _title_of(line: str) -> str:
    return one_line("".join(each if each.isprintable() else " " for each in line), LONGEST_TITLE)
