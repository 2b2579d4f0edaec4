"""Whether a checkpoint holds only finite numbers, read from its bytes: a float is finite unless all its exponent bits
are set. Tensors of integers and booleans are finite. Loads one tensor at a time and needs no torch."""

from pathlib import Path

import numpy as np

from pace_async.weights import tensors

_EXPONENT: dict[str, tuple[str, int]] = {
    "F64": ("<u8", 0x7FF0000000000000),
    "F32": ("<u4", 0x7F800000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
}


def first_not_finite(folder: Path) -> str | None:
    """Name of the first tensor that holds NaN or an infinity, over every safetensors file of a checkpoint."""
    for file in sorted(folder.glob("*.safetensors")):
        for name, dtype, _, data in tensors(file):
            word, exponent = _EXPONENT.get(dtype, ("", 0))
            if word and bool(np.any((np.frombuffer(data, dtype=word) & exponent) == exponent)):
                return name
    return None
