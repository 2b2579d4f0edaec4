"""One try of one model at one experiment. The ledger records every call, whatever its outcome (`providers.bill`).

Not here: retries, which are the pool's.
"""

import re
from collections.abc import Sequence

from pace_async.errors import CandidateFault, InfrastructureFault
from pace_async.events import ImplementerTry
from pace_async.implement.answers import made_of
from pace_async.implement.base import Experiment, ImplementedProgram, Unusable
from pace_async.implement.edits import UselessProgram
from pace_async.implement.file_answers import globs_of
from pace_async.implement.prompts import messages_for, seen_program
from pace_async.implement.repair import program_to_change
from pace_async.programs.compiled import hash_off_loop
from pace_async.programs.fileset import Program
from pace_async.providers.base import IMPLEMENTER, CallLedger, ChatAnswer
from pace_async.providers.bill import billed
from pace_async.providers.chat import Chat
from pace_async.providers.redact import holds_secret
from pace_async.search.state import Member
from pace_async.task import Task, TaskSpec

LONGEST_DEVIATION = 500
_DEVIATION = re.compile(r"[\s>*_-]*Deviation\s*[*_]*:", re.IGNORECASE)
LONGEST_KEPT = 4000
"""Characters kept of an answer that made no program, or of its edits that were not applied. Its author sees them."""


class ModelMaker:
    """Implements `implement.pool.Maker` by one model, called through a Chat."""

    def __init__(self, chat: Chat, ledger: CallLedger, max_tokens: int) -> None:
        self._chat = chat
        self._ledger = ledger
        self._max_tokens = max_tokens

    async def make(self, task: Task, parent: Member, experiment: Experiment, timeout_s: float) -> ImplementedProgram:
        messages = messages_for(task, parent, experiment)
        limit = self._max_tokens
        async with billed(self._chat, self._ledger, IMPLEMENTER, experiment.lease, messages, limit) as bill:
            wrote = ""
            try:
                answer = bill.answer = await self._chat.ask(messages, max_tokens=limit, timeout_s=timeout_s)
                wrote = answer.text
                program = await program_in(answer, parent, experiment, task.spec)
                refuse_longer(program, task.spec.longest_program)
            except CandidateFault as fault:
                program, text = None, wrote
                if isinstance(fault, UselessProgram):
                    program, text = fault.program, "\n".join([deviation_in(wrote), fault.unapplied]).lstrip()
                bill.tried = self._implementer_try(experiment, fault.kind, fault.detail, program, text)
                raise Unusable(bill.tried) from None
            deviation = deviation_in(wrote) or deviation_before(experiment.tries)
            bill.tried = self._implementer_try(experiment, "ok", deviation, program)
            return ImplementedProgram(program, tried=bill.tried)

    def _implementer_try(
        self, experiment: Experiment, outcome: str, detail: str = "", program: str | None = None, answer: str = ""
    ) -> ImplementerTry:
        number, text = len(experiment.tries) + 1, answer[:LONGEST_KEPT] if answer.strip() else None
        return ImplementerTry(number, self._chat.model, outcome, detail, program, text)


def deviation_in(answer: str) -> str:
    """What the author corrected in the specification, in its own words. Empty if it does not say so."""
    return next((line.strip()[:LONGEST_DEVIATION] for line in answer.split("\n") if _DEVIATION.match(line)), "")


def deviation_before(tries: Sequence[ImplementerTry]) -> str:
    """What the answer that a repair completes said of it: the applied edits of that answer are part of the program."""
    last = tries[-1] if tries else None
    standing = last is not None and last.evaluation is None and last.program is not None
    return deviation_in(last.answer or "") if last is not None and standing else ""


def refuse_longer(program: str, longest: int | None) -> None:
    """Raises CandidateFault for a program that the task calls too long. Its evaluation is spared."""
    size = Program.of(program).characters
    if longest is not None and size > longest:
        raise CandidateFault("program_too_long", f"{size} characters, of {longest} allowed")


async def program_in(answer: ChatAnswer, parent: Member, experiment: Experiment, spec: TaskSpec) -> str:
    """The program that an answer makes of the shown program: the parent, or the program of an earlier try. Raises
    CandidateFault, also if a repair gives the parent back. Raises InfrastructureFault if the answer contains a secret
    of this machine: the service must have echoed it, and the answer is not stored."""
    if holds_secret(answer.text):
        raise InfrastructureFault("secret_in_answer", "the answer holds the value of a secret variable")
    if answer.refused:
        raise CandidateFault("refusal", "the model refused")
    if answer.finish == "length":
        raise CandidateFault("length", "the answer was cut at its longest length")
    if not answer.text.strip():
        raise CandidateFault("empty_answer", "the model wrote nothing")
    view = seen_program(parent, experiment)
    before = program_to_change(parent.program, experiment.tries)
    globs = globs_of(spec.change, spec.hide)
    program = await made_of(answer.text, before, spec.language, spec.entry, view, globs)
    await refuse_parent(program, parent.program, experiment, spec.language)
    return program


async def refuse_parent(program: str, parent: str, experiment: Experiment, language: str) -> None:
    """Raises CandidateFault for a repair that gives the parent back."""
    if experiment.tries and await hash_off_loop(program, language) == await hash_off_loop(parent, language):
        raise CandidateFault("unchanged", "the repaired program does the same as its parent")
