"""One call in the ledger, whatever its outcome.

Invariant: a reservation is committed before the call and closed exactly once after it. It is closed with the real cost
if that is known, and with the whole reservation if the charge cannot be known (a hang, a cut stream, a cancelled call).
"""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from pace_async.errors import CandidateFault, InfrastructureFault
from pace_async.events import GIVEN_UP, AdvisorCall, IdeasLeft, ImplementerCalled, ImplementerTry, NotesPage, Role
from pace_async.providers.base import Caller, CallLedger, ChatAnswer
from pace_async.providers.chat import Chat
from pace_async.providers.failures import CallFailed


@dataclass(slots=True)
class Bill:
    """How a call ended, as its row says. Until that is known it counts as given up, at its whole reservation. `answer`
    is what a chat said. `tried` is an implementer's answer if there is one to keep, `answered` an advisor's, `beside` a
    page of notes, or ideas that leave."""

    cost_usd: float
    outcome: str = GIVEN_UP
    prompt_tokens: int = 0
    completion_tokens: int = 0
    answer: ChatAnswer | None = None
    tried: ImplementerTry | None = None
    answered: AdvisorCall | None = None
    beside: NotesPage | IdeasLeft | None = None


@asynccontextmanager
async def reserved(
    ledger: CallLedger, lease: int, model: str, worst: float, role: Role = "implementer"
) -> AsyncGenerator[Bill]:
    """The body makes one call, which may cost `worst` USD, and sets how it ended. Raises BudgetReached before the body
    if the call does not fit."""
    number = await ledger.reserve(lease, model, worst)
    began, bill = time.perf_counter(), Bill(worst)
    try:
        yield bill
    finally:
        with anyio.CancelScope(shield=True):
            await ledger.settle(
                ImplementerCalled(
                    lease=lease,
                    model=model,
                    outcome=bill.outcome,
                    prompt_tokens=bill.prompt_tokens,
                    completion_tokens=bill.completion_tokens,
                    cost_usd=bill.cost_usd,
                    seconds=time.perf_counter() - began,
                    at=time.time(),
                    reservation=number,
                    tried=bill.tried,
                    role=role,
                    answered=bill.answered,
                    notes=bill.beside if isinstance(bill.beside, NotesPage) else None,
                    left=bill.beside if isinstance(bill.beside, IdeasLeft) else None,
                )
            )


@asynccontextmanager
async def billed(
    chat: Chat,
    ledger: CallLedger,
    caller: Caller,
    lease: int,
    messages: Sequence[Mapping[str, str]],
    max_tokens: int,
) -> AsyncGenerator[Bill]:
    """The body makes one call and sets what it brought. Its exception names the outcome, and passes. Raises as
    `reserved`."""
    worst = chat.price.worst_case(messages, max_tokens) if chat.price is not None else 0.0
    async with reserved(ledger, lease, chat.model, worst, caller.role) as bill:
        try:
            yield bill
            bill.outcome, bill.cost_usd = "ok", 0.0
        except CallFailed as failure:
            bill.outcome, bill.cost_usd = failure.kind, failure.cost_usd(worst)
            bill.answer = failure.answer or bill.answer
            raise
        except (CandidateFault, InfrastructureFault) as fault:
            bill.outcome, bill.cost_usd = fault.kind, 0.0
            raise
        finally:
            if (answer := bill.answer) is not None:
                bill.prompt_tokens, bill.completion_tokens = answer.prompt_tokens, answer.completion_tokens
                bill.cost_usd = worst if answer.cost_usd is None else answer.cost_usd
