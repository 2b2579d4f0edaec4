"""Engines for tests: their words are given, whatever samples their tokens."""

from dataclasses import replace

from pace_async.advise.base import Completion, Engine, PromptTooLong
from pace_async.errors import InfrastructureFault
from pace_async.events import TokenSpan
from pace_async.search.draws import derive
from pace_async.simulate.stages import _answer

PROMPT_IDS = 12


ANSWER_IDS = 8


class WordsOfItsOwn:
    """An `Engine` whose tokens another one samples, and which reads words of its own out of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._prompts: dict[tuple[int, ...], str] = {}
        self._answers: dict[tuple[int, ...], str] = {}

    async def encode(self, text: str) -> tuple[int, ...]:
        ids = tuple(derive(at, text) % 256 for at in range(PROMPT_IDS))
        self._prompts[ids] = text
        return ids

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        return self._answers[token_ids]

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        room = min(max_tokens, ANSWER_IDS)
        answer = await self._engine.generate(prompt_ids, max_tokens=room, temperature=temperature, seed=seed)
        self._answers[answer.token_ids] = _answer(self._prompts[prompt_ids], derive(seed, str(answer.token_ids)))
        return replace(answer, finish="stop" if room == ANSWER_IDS else "length")


class ScriptedEngine:
    """An engine whose tokens are bytes and whose answers are given."""

    def __init__(self, *answers: str, context: int = 10_000, version: int = 0) -> None:
        self.answers = list(answers)
        self.version = version
        self.context = context
        self.prompts: list[str] = []
        self.seeds: list[int] = []

    async def encode(self, text: str) -> tuple[int, ...]:
        self.prompts.append(text)
        return tuple(text.encode())

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        return bytes(token_ids).decode()

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        if len(prompt_ids) > self.context:
            raise PromptTooLong(len(prompt_ids), self.context)
        if not self.answers:
            raise InfrastructureFault("engine_down")
        self.seeds.append(seed)
        ids = tuple(self.answers.pop(0).encode())
        ids, finish = (ids, "stop") if len(ids) <= max_tokens else (ids[:max_tokens], "length")
        return Completion(ids, (-1.0,) * len(ids), (TokenSpan(self.version, 0, len(ids)),), finish)
