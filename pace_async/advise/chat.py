"""How a question is put to a chat model: through the chat template that its folder has.

The engine renders the template, because template and tokenizer must belong to the same model. A question is one message
of the user, and what the template ends with asks for the answer. Everything that is sampled then is the answer and is
trained. What stands before its last end-of-thinking mark is thinking and is not parsed.

Invariant: a question is data. The spelling of a special token inside it, such as one that ends a turn, becomes ordinary
tokens, as in a prompt without a template.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio

from pace_async.config.advisor import END_OF_THINKING, AdvisorConfig
from pace_async.errors import InfrastructureFault, UsageError

Message = dict[str, str]
_CONTENTS = ("A", "7")
"""Two contents without a common token. What is the same around both is the template's."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """`arguments` are given to the template. `end_of_thinking` is the mark before the answer proper."""

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    end_of_thinking: str = END_OF_THINKING


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How text becomes tokens. `special_ids` are the tokens that mean more to the model than their spelling. `chat` is
    how questions are put to it, None for prompts without a template."""

    special_ids: Collection[int] = ()
    chat: ChatFormat | None = None


PLAIN_TEXT = TextFormat()
"""For a model without special tokens and without a template."""


def chat_format_of(advisor: AdvisorConfig, folder: Path) -> ChatFormat | None:
    """How questions are put to the model in `folder`, None for prompts without a template. Raises UsageError if a
    template is wanted and there is none."""
    if not uses_template(advisor, folder):
        return None
    switch = advisor.thinking
    arguments = {} if switch is None else {"enable_thinking": switch, "thinking": switch}  # the two names in use
    return ChatFormat(arguments, advisor.end_of_thinking)


def uses_template(advisor: AdvisorConfig, folder: Path) -> bool:
    """Whether questions go through a chat template. Raises UsageError."""
    if advisor.chat_template is False:
        return False
    has_template = template_of(folder) is not None
    if advisor.chat_template and not has_template:
        raise UsageError(f"advisor.chat_template is true and {folder} has no chat template: leave the setting out.")
    return has_template


def thinks(advisor: AdvisorConfig, folder: Path) -> bool:
    """Whether answers are expected to hold thinking: the template knows the mark, and it is not switched off."""
    template = template_of(folder)
    return advisor.thinking is not False and template is not None and advisor.end_of_thinking in template


def template_of(folder: Path) -> str | None:
    """The chat template of a model's folder, from its own file or from the tokenizer's configuration. Of several by
    name the default one."""
    own = folder / "chat_template.jinja"
    if own.is_file():
        return own.read_text("utf-8")
    for name in ("chat_template.json", "tokenizer_config.json"):
        file = folder / name
        template: Any = json.loads(file.read_text("utf-8")).get("chat_template") if file.is_file() else None
        if isinstance(template, list):
            templates = cast("list[dict[str, str]]", template)
            template = next((entry["template"] for entry in templates if entry["name"] == "default"), None)
        if isinstance(template, str):
            return template
    return None


@dataclass(frozen=True, slots=True)
class Frame:
    """Tokens that the template puts before and after a question. `end` are the tokens that end an answer's turn."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    end: tuple[int, ...]


class ChatTemplate:
    """The template as an engine applies it. `render` gives the tokens of messages, with the beginning of an answer if
    it is asked for. `data` gives the tokens of a text that is data."""

    def __init__(
        self,
        render: Callable[[Sequence[Message], bool], Awaitable[tuple[int, ...]]],
        data: Callable[[str], Awaitable[tuple[int, ...]]],
        special_ids: Collection[int],
    ) -> None:
        self._render = render
        self._data = data
        self._special = frozenset(special_ids)
        self._frame: Frame | None = None
        self._one = anyio.Lock()

    async def question(self, text: str) -> tuple[int, ...]:
        """The tokens of a question, up to where its answer begins."""
        frame = await self.frame()
        tokens = await self._render([_by("user", text)], True)
        if self._marks(tokens) == self._marks((*frame.before, *frame.after)):
            return tokens
        return (*frame.before, *await self._data(text), *frame.after)

    async def frame(self) -> Frame:
        """What the template adds to any question. Raises InfrastructureFault if it changes with the question."""
        async with self._one:
            if self._frame is None:
                one, other = [await self._render([_by("user", text)], True) for text in _CONTENTS]
                before, after = _around(one, other)
                if not before and not after:
                    raise InfrastructureFault("bad_answer", "the chat template adds nothing to a question")
                turns = [
                    await self._render([_by("user", _CONTENTS[0]), _by("assistant", text)], False) for text in _CONTENTS
                ]
                end = next((token for token in _around(*turns)[1] if token in self._special), None)
                self._frame = Frame(before, after, () if end is None else (end,))
            return self._frame

    def _marks(self, tokens: Sequence[int]) -> Counter[int]:
        return Counter(token for token in tokens if token in self._special)


def _by(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def _around(tokens: tuple[int, ...], other: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The longest common beginning, and the longest common end of what is left."""
    start = _common(tokens, other)
    end = _common(tokens[start:][::-1], other[start:][::-1])
    return tokens[:start], tokens[len(tokens) - end :]


def _common(tokens: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(tokens, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(tokens), len(other)))
