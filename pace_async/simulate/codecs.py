"""Tokens for simulated engines: what a text becomes, and back."""

import hashlib
import struct
from typing import Protocol


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
    """A text is four tokens, the first words of its digest: for timing, where long prompts would only cost time. A text
    is remembered until it has been decoded as often as it was encoded."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, ...], tuple[str, int]] = {}

    def encode(self, text: str) -> tuple[int, ...]:
        ids = struct.unpack("<4H", hashlib.sha256(text.encode()).digest()[:8])
        self._texts[ids] = (text, self._texts.get(ids, (text, 0))[1] + 1)
        return ids

    def decode(self, token_ids: tuple[int, ...]) -> str:
        text, uses = self._texts.pop(token_ids)
        if uses > 1:
            self._texts[token_ids] = (text, uses - 1)
        return text
