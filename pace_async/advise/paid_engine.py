"""A served advisor whose tokens cost money: each call is in the ledger, as that of an advisor that is asked."""

from typing import Literal

from pace_async.advise.base import Advisor, Engine, Prompt, PromptTooLong
from pace_async.events import AdvisorCall
from pace_async.providers.tinker.paid import TokenMeter


class PaidAdvisor:
    """Implements `advise.base.Advisor`: asks `advisor`, whose engine is `engine`, and pays by `meter`. The longest
    question and answer together have `context` tokens. A call that is made again is paid again."""

    def __init__(self, advisor: Advisor, engine: Engine, meter: TokenMeter, context: int) -> None:
        self._advisor, self._engine, self._meter, self._context = advisor, engine, meter, context

    async def ask(self, prompt: Prompt) -> tuple[AdvisorCall, Literal["stop", "length"]]:
        asked = await self._engine.encode(prompt.whole)
        if len(asked) >= self._context:  # a prompt that is not sent costs nothing
            raise PromptTooLong(len(asked), self._context)
        if prompt.max_prompt_tokens is not None and len(asked) > prompt.max_prompt_tokens:
            raise PromptTooLong(len(asked), prompt.max_prompt_tokens)
        async with self._meter.sampling(prompt.lease, len(asked), prompt.max_tokens) as had:
            call, finish = await self._advisor.ask(prompt)
            had.first, had.second = len(call.prompt_ids), len(call.completion_ids)
        return call, finish
