"""An implementer whose answers need repairs and whose service fails, and what the rows of its answers must fulfil."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pace_async.errors import InfrastructureFault
from pace_async.providers.chat import ChatAnswer
from tests.doubles.implementers import ScriptedChat
from tests.support.scripted_runs import block

UNEVEN = "select lease from implementer_tries group by lease having count(*) <> max(number)"
UNPAID = """select (select count(*) from implementer_tries) - (select count(*) from implementer_calls
                 where role = 'implementer' and outcome not in ('helper_died', 'cancelled'))"""


@dataclass(slots=True)
class Failing(ScriptedChat):
    """The service fails at the calls with these numbers, from 1."""

    fails: frozenset[int] = frozenset()
    calls: int = 0

    async def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, timeout_s: float) -> ChatAnswer:
        self.calls += 1
        if self.calls in self.fails:
            raise InfrastructureFault("helper_died", f"call {self.calls}")
        return await ScriptedChat.ask(self, messages, max_tokens=max_tokens, timeout_s=timeout_s)


def clumsy(question: str, number: int) -> str:
    """The first answer holds no code, the second a program that fails, the third one that works."""
    if "could not be used" in question:
        return block(f"start = wrong + {number}")
    return block(f"start = {number}") if "was tried out" in question else "no code"
