"""Whether a checkpoint holds only finite numbers, read from its bytes: a float is finite unless all its exponent bits
are set. Tensors of integers and booleans are finite. Needs no torch."""

import numpy as np

_EXPONENT: dict[str, tuple[str, int]] = {
    "F64": ("<u8", 0x7FF0000000000000),
    "F32": ("<u4", 0x7F800000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
}


def is_finite(dtype: str, data: bytes) -> bool:
    """Whether a tensor's raw bytes, of a type in safetensors' spelling, hold finite numbers only."""
    word, exponent = _EXPONENT.get(dtype, ("", 0))
    return not word or not bool(np.any((np.frombuffer(data, dtype=word) & exponent) == exponent))
