"""The tokenizer in a model's folder, without transformers and so without torch.

It reads tokenizer.json, and the chat template with the names of the special tokens. A template is a program of the
model's own: it runs in a sandbox of jinja2, with the few functions that transformers gives it.
"""

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

FILE, SETTINGS = "tokenizer.json", "tokenizer_config.json"
_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class TokenizerFile:
    """The tokenizer of a folder. Raises ValueError if it has none that can be read."""

    def __init__(self, folder: Path, template: str | None = None) -> None:
        from tokenizers import Tokenizer

        try:
            self._tokenizer = cast("Any", Tokenizer).from_file(str(folder / FILE))
        except Exception as error:  # the package raises Exception itself
            raise ValueError(f"{folder / FILE} cannot be read ({error})") from None
        self._template = template
        self._words = _words(folder / SETTINGS)

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Text of token ids."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens))

    def chat(self, messages: Sequence[Mapping[str, str]], asks: bool, arguments: Mapping[str, Any]) -> list[int]:
        """Token ids of messages in the chat template. `asks` adds the beginning of an answer. Raises ValueError for
        whatever the template raises."""
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _as_json
        helpers: Any = {"raise_exception": _refuse, "strftime_now": _today}
        environment.globals.update(helpers)
        try:
            template = environment.from_string(self._template or "")
            text = template.render(
                messages=list(messages), add_generation_prompt=asks, tools=None, **{**self._words, **arguments}
            )
        except Exception as error:  # as above
            raise ValueError(f"the chat template cannot be applied: {error}") from None
        return self.encode(text, add_special_tokens=False)


def end_tokens(folder: Path) -> tuple[int, ...]:
    """Ids of the tokens that end an answer, by the model's configuration."""
    for name in ("generation_config.json", "config.json"):
        try:
            configuration: dict[str, Any] = json.loads((folder / name).read_text("utf-8"))
        except (OSError, ValueError):
            continue
        text: dict[str, Any] = configuration.get("text_config") or {}
        ends: Any = configuration.get("eos_token_id", text.get("eos_token_id"))
        if isinstance(ends, int):
            return (ends,)
        if isinstance(ends, list):
            return tuple(int(end) for end in cast("list[int]", ends))
    return ()


def _words(file: Path) -> dict[str, str]:
    """The special tokens that templates name."""
    try:
        settings: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    words = dict[str, str]()
    for name in _NAMED:
        entry: Any = settings.get(name)
        word = cast("dict[str, Any]", entry).get("content") if isinstance(entry, dict) else entry
        if isinstance(word, str):
            words[name] = word
    return words


def _today(form: str) -> str:
    return datetime.datetime.now().strftime(form)


def _as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise ValueError(message)
