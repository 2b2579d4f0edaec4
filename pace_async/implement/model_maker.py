"""One try of one model at one experiment. The ledger records every call, whatever its outcome.

Invariant: a reservation is committed before the call and closed exactly once after it. It is closed with the real cost
if that is known, and with the whole reservation if the charge cannot be known (a hang, a cut stream, a cancelled call).
Not here: retries, which are the pool's.
"""

import time

import anyio

from pace_async.errors import CandidateFault, InfrastructureFault
from pace_async.events import ImplementerCalled, ImplementerTry
from pace_async.implement.answers import made_of
from pace_async.implement.base import CallLedger, Experiment, Implemented, Unusable
from pace_async.implement.chat import Chat, ChatAnswer
from pace_async.implement.edits import NotCompiling
from pace_async.implement.failures import CallFailed
from pace_async.implement.prompts import messages_for
from pace_async.implement.redact import holds_secret
from pace_async.implement.repair import program_to_change
from pace_async.programs.compiled import hash_off_loop
from pace_async.programs.languages import PYTHON
from pace_async.search.state import Member
from pace_async.task import Task

LONGEST_KEPT = 4000
"""Characters kept of an answer that made no program. They are shown to its author."""


class ModelMaker:
    """Implements `implement.pool.Maker` by one model, called through a Chat."""

    def __init__(self, chat: Chat, ledger: CallLedger, max_tokens: int) -> None:
        self._chat = chat
        self._ledger = ledger
        self._max_tokens = max_tokens

    async def make(self, task: Task, parent: Member, experiment: Experiment, timeout_s: float) -> Implemented:
        messages = messages_for(task, parent, experiment)
        price = self._chat.price
        worst = price.worst_case(messages, self._max_tokens) if price is not None else 0.0
        number = await self._ledger.reserve(experiment.lease, self._chat.model, worst)
        began = time.perf_counter()
        outcome, answer, charged, tried = "cancelled", None, None, None
        try:
            answer = await self._chat.ask(messages, max_tokens=self._max_tokens, timeout_s=timeout_s)
            program = await program_in(answer, parent, experiment, task.spec.language)
            outcome, tried = "ok", self._tried(experiment, "ok", program=program)
            return Implemented(program, tried=tried)
        except CallFailed as failure:
            outcome, charged = failure.kind, failure.charged
            raise
        except CandidateFault as fault:
            outcome, charged = fault.kind, False
            program = fault.program if isinstance(fault, NotCompiling) else None
            wrote = answer.text if answer is not None and program is None else ""
            tried = self._tried(experiment, fault.kind, fault.detail, program, wrote)
            raise Unusable(tried) from None
        except InfrastructureFault as fault:
            outcome, charged = fault.kind, False
            raise
        finally:
            cost = worst if charged is None else 0.0
            if answer is not None and answer.cost_usd is not None:
                cost = answer.cost_usd
            elif answer is not None:
                cost = worst
            with anyio.CancelScope(shield=True):
                await self._ledger.settle(
                    ImplementerCalled(
                        lease=experiment.lease,
                        model=self._chat.model,
                        outcome=outcome,
                        prompt_tokens=answer.prompt_tokens if answer is not None else 0,
                        completion_tokens=answer.completion_tokens if answer is not None else 0,
                        cost_usd=cost,
                        seconds=time.perf_counter() - began,
                        at=time.time(),
                        reservation=number,
                        tried=tried,
                    )
                )

    def _tried(
        self, experiment: Experiment, outcome: str, detail: str = "", program: str | None = None, answer: str = ""
    ) -> ImplementerTry:
        number, kept = len(experiment.tries) + 1, answer[:LONGEST_KEPT] if answer.strip() else None
        return ImplementerTry(number, self._chat.model, outcome, detail, program, kept)


async def program_in(answer: ChatAnswer, parent: Member, experiment: Experiment, language: str = PYTHON) -> str:
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
    program = await made_of(answer.text, program_to_change(parent.program, experiment.tries), language)
    if experiment.tries and await hash_off_loop(program, language) == await hash_off_loop(parent.program, language):
        raise CandidateFault("unchanged", "the repaired program does the same as its parent")
    return program
