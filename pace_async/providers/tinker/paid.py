"""The service's tokens in the ledger: questions, sampled tokens, and tokens of training.

Invariant: what a call may cost is reserved before it and closed once after it: with the cost of the tokens that it had,
with nothing if the service was not reached or refused, and with the whole reservation if neither is known.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Self

from pace_async.config.tinker import TinkerConfig
from pace_async.errors import InfrastructureFault
from pace_async.providers.base import CallLedger
from pace_async.providers.bill import reserved

UNCHARGED = ("service_unreachable", "service_refused", "engine_unreachable", "engine_refused")
"""Faults after which nothing is owed, by the name of the service and by that of an engine in front of it."""


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """USD a token."""

    prompt: float = 0.0
    sampled: float = 0.0
    trained: float = 0.0

    @classmethod
    def of(cls, config: TinkerConfig) -> Self:
        """A server of the user's own without prices costs nothing here."""
        return cls(*((price or 0.0) / 1e6 for price in config.prices))


@dataclass(slots=True)
class Tokens:
    """What a call had. `first` are tokens of the question, or those read before a step. `second` are those sampled, or
    trained."""

    first: int = 0
    second: int = 0


@dataclass(frozen=True, slots=True)
class TokenMeter:
    """Pays for the calls on one model."""

    ledger: CallLedger
    model: str
    prices: TokenPrices

    def sampling(self, lease: int, prompt: int, longest: int) -> AbstractAsyncContextManager[Tokens]:
        """The body samples one answer of at most `longest` tokens and sets what it had. Raises BudgetReached."""
        return self._paid(lease, self.model, Tokens(prompt, longest), (self.prices.prompt, self.prices.sampled))

    def training(self, lease: int, tokens: int) -> AbstractAsyncContextManager[Tokens]:
        """The body reads a group of so many tokens and trains on them, or not, and sets what it had."""
        price = self.prices.trained
        return self._paid(lease, f"{self.model} (training)", Tokens(tokens, tokens), (price, price))

    @asynccontextmanager
    async def _paid(self, lease: int, model: str, most: Tokens, price: tuple[float, float]) -> AsyncGenerator[Tokens]:
        worst = most.first * price[0] + most.second * price[1]
        async with reserved(self.ledger, lease, model, worst, "advisor") as call:
            had = Tokens()
            try:
                yield had
                call.outcome, call.cost_usd = "ok", had.first * price[0] + had.second * price[1]
            except InfrastructureFault as fault:
                call.outcome, call.cost_usd = fault.kind, 0.0 if fault.kind in UNCHARGED else worst
                raise
            finally:
                call.prompt_tokens, call.completion_tokens = had.first, had.second
