"""Implementers for tests, the chats that they ask, and a ledger that can be read."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from pace_async.errors import StageFault
from pace_async.events import ImplementerCalled
from pace_async.implement.notes_writer import NotesWriter
from pace_async.providers.base import NOTES, ChatAnswer, Share
from pace_async.providers.prices import Price
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.recorder import BudgetLedger

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
class NotesChat:
    """A model that writes a page of notes, or says that all but the newest ideas leave a pool and the oldest that stays
    gets new words. That takes `seconds`. Equal questions get equal answers. Call n (from 1)
    fails with `faults[n]`, if there is one."""

    seconds: float = 0.0
    faults: Mapping[int, StageFault] = field(default_factory=dict[int, StageFault])
    model: str = MODEL
    price: Price | None = PRICE
    questions: list[str] = field(default_factory=list[str])

    async def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, timeout_s: float) -> ChatAnswer:
        self.questions.append(messages[-1]["content"])
        number = len(self.questions)
        await anyio.sleep(self.seconds)
        if number in self.faults:
            raise self.faults[number]
        told = hashlib.sha256(self.questions[-1].encode()).hexdigest()[:8]
        if "# The pool of ideas" in self.questions[-1]:
            numbers = re.findall(r"^Idea (\d+) \(", self.questions[-1], re.MULTILINE)
            (stay,) = re.findall(r"and (\d+) may stay", self.questions[-1])
            leave, kept = ", ".join(numbers[: -int(stay)]), numbers[-int(stay)]
            return ChatAnswer(
                f"Leave: {leave}\nIdea {kept}: as {told} says", "stop", False, 100, 10, 0.001, self.seconds
            )
        text = f"Worked:\nwhat {told} says\nFailed:\nthe rest\nOpen:\nmore"
        return ChatAnswer(text, "stop", False, 100, 10, 0.001, self.seconds)

    def writer(self, core: Core) -> NotesWriter:
        """A writer of the run's notes that asks this model, and pays from the run's budget."""
        ledger = BudgetLedger(core.recorder, core.stages.clock, core.config.stop.budget, NOTES)
        return NotesWriter((Share(MODEL, 1.0),), {MODEL: self}, ledger, core.config.seed, core.config.implementer)


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
