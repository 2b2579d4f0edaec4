"""Whether a checkpoint holds only finite numbers, read from its bytes: a float is finite unless all its exponent bits
are set. Tensors of integers and booleans are finite. Needs no torch."""

import numpy as np

_EXPONENT: dict[str, tuple[str, int]] = {
    "F64": ("<u8", 0x7FF0000000000000),
    "F32": ("<u4", 0x7F800000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
}

_WORDS = 1 << 16
"""Looked at together: as many as a cache holds."""


def is_finite(dtype: str, data: bytes) -> bool:
    """Whether a tensor's raw bytes, of a type in safetensors' spelling, hold finite numbers only."""
    word, exponent = _EXPONENT.get(dtype, ("", 0))
    if not word:
        return True
    numbers = np.frombuffer(data, dtype=word)
    kept = np.empty(_WORDS, dtype=word)
    for start in range(0, len(numbers), _WORDS):
        part = numbers[start : start + _WORDS]
        if np.bitwise_and(part, exponent, out=kept[: len(part)]).max() == exponent:
            return False
    return True
