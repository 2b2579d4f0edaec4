"""An advisor that answers each purpose with a given text."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pace_async.advise.base import Prompt, PromptTooLong
from pace_async.events import AdvisorCall


@dataclass
class Answers:
    """Answers each purpose with its text. A question of over `longest` characters is too long."""

    texts: dict[str, str | Callable[[str], str]]
    longest: int = 10**9
    known: bool = True
    asked: list[Prompt] = field(default_factory=list[Prompt])

    async def ask(self, prompt: Prompt) -> tuple[AdvisorCall, Literal["stop", "length"]]:
        size = len(prompt.whole)
        if size > self.longest:
            raise PromptTooLong(size, self.longest - 1000 if self.known else None)
        self.asked.append(prompt)
        text = self.texts[prompt.purpose]
        said = text if isinstance(text, str) else text(prompt.text)
        return AdvisorCall(prompt.purpose, (), (), (), (), said, seconds=1.0, prompt=prompt.text), "stop"
