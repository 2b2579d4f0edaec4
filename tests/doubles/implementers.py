"""Implementers for tests, the chats that they ask, and a ledger that can be read."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from pace_async.events import ImplementerCalled
from pace_async.providers.base import ChatAnswer
from pace_async.providers.prices import Price

MODEL = "openai/scripted"


EXPERIMENT = re.compile(r"(?:Experiment: |# Specification\n`+text\n)add (\d+)")
"""The experiment of a question without and with a context."""
PRICE = Price.per_million(1.0, 1.0)


Write = Callable[[str, int], str]
"""The answer to a question, given the number that its experiment names."""


@dataclass(slots=True)
class ScriptedChat:
    """A model that answers as `write` says."""

    write: Write
    model: str = MODEL
    cost_usd: float = 0.001
    price: Price | None = PRICE
    questions: list[str] = field(default_factory=list[str])

    async def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, timeout_s: float) -> ChatAnswer:
        await anyio.lowlevel.checkpoint()
        question = messages[-1]["content"]
        self.questions.append(question)
        number = int(EXPERIMENT.findall(question)[-1])
        return ChatAnswer(self.write(question, number), "stop", False, 100, 10, self.cost_usd, 1.0)


@dataclass(slots=True)
class PlainLedger:
    """Keeps every entry, without a limit."""

    calls: list[ImplementerCalled] = field(default_factory=list[ImplementerCalled])
    reserved: dict[int, float] = field(default_factory=dict[int, float])
    faults: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def reserve(self, lease: int, model: str, usd: float) -> int:
        number = len(self.reserved) + 1
        self.reserved[number] = usd
        return number

    async def settle(self, call: ImplementerCalled) -> None:
        self.calls.append(call)

    async def fault(self, kind: str, detail: str, lease: int | None) -> None:
        self.faults.append((kind, detail))

    @property
    def outcomes(self) -> list[str]:
        return [call.outcome for call in self.calls]
