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
from pace_async.events import GIVEN_UP, AdvisorCall, ImplementerCalled, ImplementerTry, NotesPage
from pace_async.providers.base import Caller, CallLedger, ChatAnswer
from pace_async.providers.chat import Chat
from pace_async.providers.failures import CallFailed


@dataclass(slots=True)
class Bill:
    """What the call brought so far: the body of `billed` sets it. `tried` is an implementer's answer if there is one to
    keep, `answered` an advisor's, `notes` a page of notes."""

    answer: ChatAnswer | None = None
    tried: ImplementerTry | None = None
    answered: AdvisorCall | None = None
    notes: NotesPage | None = None


@asynccontextmanager
async def billed(
    chat: Chat,
    ledger: CallLedger,
    caller: Caller,
    lease: int,
    messages: Sequence[Mapping[str, str]],
    max_tokens: int,
) -> AsyncGenerator[Bill]:
    """The body makes one call. Its exception names the outcome, and passes. Raises BudgetReached before the body if the
    call does not fit."""
    worst = chat.price.worst_case(messages, max_tokens) if chat.price is not None else 0.0
    number = await ledger.reserve(lease, chat.model, worst)
    began = time.perf_counter()
    bill, outcome, cost = Bill(), GIVEN_UP, worst
    try:
        yield bill
        outcome, cost = "ok", 0.0
    except CallFailed as failure:
        outcome, cost = failure.kind, failure.cost_usd(worst)
        bill.answer = failure.answer or bill.answer
        raise
    except (CandidateFault, InfrastructureFault) as fault:
        outcome, cost = fault.kind, 0.0
        raise
    finally:
        answer = bill.answer
        if answer is not None:
            cost = worst if answer.cost_usd is None else answer.cost_usd
        with anyio.CancelScope(shield=True):
            await ledger.settle(
                ImplementerCalled(
                    lease=lease,
                    model=chat.model,
                    outcome=outcome,
                    prompt_tokens=answer.prompt_tokens if answer is not None else 0,
                    completion_tokens=answer.completion_tokens if answer is not None else 0,
                    cost_usd=cost,
                    seconds=time.perf_counter() - began,
                    at=time.time(),
                    reservation=number,
                    tried=bill.tried,
                    role=caller.role,
                    answered=bill.answered,
                    notes=bill.notes,
                )
            )
