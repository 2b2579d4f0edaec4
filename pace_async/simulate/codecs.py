"""Codecs of simulated engines: text to token ids and back."""

import struct
from typing import Protocol

_NUMBER, _WORDS = struct.Struct("<Q"), struct.Struct("<4H")


class Codec(Protocol):
    """Maps text to token ids and back. Every id is in [0, 65536)."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids."""
        ...

    def decode(self, token_ids: tuple[int, ...]) -> str:
        """The encoded text."""
        ...


class Bytes:
    """One token for each byte. Keeps no state."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return bytes(token_ids).decode(errors="replace")


class Handles:
    """A text becomes four tokens, the number of texts before it. For simulations of time, where encoding long prompts
    is wasted work. A text is kept until it is decoded, which works once."""

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
