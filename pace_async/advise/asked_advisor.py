"""An advisor behind litellm: a model that is asked over the network. It learns nothing.

Its prompts and its answers are texts. So a call has no token ids, no log-probabilities and no weight version, and the
lease counts as sampled by version 0, the given advisor. Prices, bills, retries, pauses and keys are those of
implementers (`providers`). Every call is in the ledger under the role of the advisor.

Invariant: an answer that ended by itself is committed together with its cost. A further try of the same rollout, in
this process or after a resume, asks only the questions that have no such answer yet. That is sound because version 0
never changes, and because an answer is used only for a question that is the same word for word.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Literal

import anyio

from pace_async.advise.base import Prompt, PromptTooLong
from pace_async.answers import after_thinking
from pace_async.config import Config
from pace_async.errors import CandidateFault, InfrastructureFault
from pace_async.events import AdvisorCall
from pace_async.providers.base import ADVISOR, Caller, CallLedger, ChatAnswer, Share
from pace_async.providers.bill import billed
from pace_async.providers.chat import Chat, open_chats
from pace_async.providers.pool import CallLimits, ModelPool, ModelQuestion
from pace_async.providers.redact import holds_secret
from pace_async.registry.advisors import asked_model
from pace_async.thinking import answer_proper

SYSTEM = (
    "You propose experiments to a program search. Answer in exactly the lines that are asked for, as plain text, and "
    "write nothing else."
)


class AskedAdvisor:
    """Implements `advise.base.Advisor`. `requests` caps the calls in flight."""

    def __init__(self, chat: Chat, ledger: CallLedger, config: Config, caller: Caller = ADVISOR) -> None:
        limits = CallLimits.of(config.advisor, config.faults)
        self._chat = chat
        self._caller = caller
        self._end_of_thinking = config.advisor.end_of_thinking
        self._ledger = ledger
        self._pool = ModelPool((Share(chat.model, 1.0),), ledger, config.seed, limits, caller)
        requests = config.advisor.requests
        self._room = anyio.CapacityLimiter(requests) if requests is not None else nullcontext()

    async def ask(self, prompt: Prompt) -> tuple[AdvisorCall, Literal["stop", "length"]]:
        messages = ({"role": "system", "content": prompt.system or SYSTEM}, {"role": "user", "content": prompt.text})

        async def once(_model: str, timeout_s: float) -> ChatAnswer:
            limit = prompt.max_tokens
            async with billed(self._chat, self._ledger, self._caller, prompt.lease, messages, limit) as bill:
                answer = bill.answer = await self._chat.ask(messages, max_tokens=limit, timeout_s=timeout_s)
                if holds_secret(answer.text):
                    raise InfrastructureFault("secret_in_answer", "the answer holds the value of a secret variable")
                if answer.refused:
                    raise CandidateFault("refusal", "it refused")
                if answer.finish != "length":
                    bill.answered = self._call(prompt, answer)
                return answer

        try:
            async with self._room:
                answer = await self._pool.answer(ModelQuestion(prompt.lease, once))
        except CandidateFault as fault:
            if fault.kind == "prompt_too_long":
                raise PromptTooLong(len(prompt.text) // 4, None) from None
            raise CandidateFault("unparsed", f"{prompt.purpose} was not answered: {fault}") from None
        return self._call(prompt, answer), "length" if answer.finish == "length" else "stop"

    def _call(self, prompt: Prompt, answer: ChatAnswer) -> AdvisorCall:
        text = after_thinking(answer_proper(answer.text), self._end_of_thinking)
        return AdvisorCall(prompt.purpose, (), (), (), (), text, seconds=answer.seconds, prompt=prompt.text)


@asynccontextmanager
async def open_asked_advisor(
    config: Config, ledger: CallLedger, caller: Caller = ADVISOR
) -> AsyncGenerator[AskedAdvisor]:
    """The advisor that `advisor.model` names, ready for use. It is closed when the context ends."""
    async with open_chats([asked_model(config.advisor.model)], config.advisor.of_calls()) as chats:
        yield AskedAdvisor(chats[0], ledger, config, caller)
