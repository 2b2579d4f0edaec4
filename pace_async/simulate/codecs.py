"""Tokens for simulated engines: what a text becomes, and back."""

import struct
from typing import Protocol

_NUMBER, _WORDS = struct.Struct("<Q"), struct.Struct("<4H")


class Codec(Protocol):
    """Token ids of a text. Every id is in [0, 65536)."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids."""
        ...

    def decode(self, token_ids: tuple[int, ...]) -> str:
        """The text that was encoded."""
        ...


class Bytes:
    """A token is a byte. Nothing is remembered."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return bytes(token_ids).decode(errors="replace")


class Handles:
    """A text is four tokens, the number of texts before it: for timing, where long prompts would only cost time. It is
    remembered until it is decoded, which it can be once."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, ...], str] = {}
        self._count = 0

    def encode(self, text: str) -> tuple[int, ...]:
        ids = _WORDS.unpack(_NUMBER.pack(self._count))
        self._count += 1
        self._texts[ids] = text
        return ids

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return self._texts.pop(token_ids)
