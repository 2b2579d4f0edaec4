"""Weights on disk: written whole or not at all, and digested without loading them.

A complete checkpoint directory holds the file COMPLETE, written last. A digest is sha256 over a tensor's dtype, shape
and raw bytes as safetensors stores them, so the side that wrote a tensor and the side that loaded it can be compared.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

COMPLETE = "COMPLETE"
BASE = "0"
"""What an engine of adapters calls version 0: the weights below all adapters, which requests that name none get."""

TensorBytes = tuple[str, str, tuple[int, ...], bytes]
"""Name, type in safetensors' spelling, shape, raw bytes."""

_LONGEST_HEADER = 100_000_000


def is_complete(folder: Path) -> bool:
    """Whether `folder` was written to its end."""
    return (folder / COMPLETE).is_file()


def write_atomically(folder: Path, write: Callable[[Path], None], mark: str = "") -> None:
    """Let `write` fill a temporary directory, fsync it, mark it complete (with the text `mark`) and rename it to
    `folder`. A half-written directory never has the final name; one that stands already is left as it is."""
    if is_complete(folder):
        return
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    _remove_tree(temporary)
    temporary.mkdir(parents=True)
    write(temporary)
    (temporary / COMPLETE).write_text(mark)
    for file in (*temporary.iterdir(), temporary):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    _remove_tree(folder)
    temporary.rename(folder)
    descriptor = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tensor_digest(dtype: str, shape: tuple[int, ...], data: bytes | memoryview) -> str:
    """32 hex digits. `dtype` in safetensors' spelling (F32, BF16, …)."""
    digest = hashlib.sha256(f"{dtype}{list(shape)}".encode())
    digest.update(data)
    return digest.hexdigest()[:32]


def checkpoint_digests(folder: Path, look: Callable[[str, str, bytes], None] | None = None) -> dict[str, str]:
    """Tensor name to digest, over every safetensors file of a checkpoint, in one reading; `look` is shown the name,
    type and bytes of each on the way. Raises ValueError for a damaged file."""
    digests: dict[str, str] = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, dtype, shape, data in tensors(file):
            if look is not None:
                look(name, dtype, data)
            digests[name] = tensor_digest(dtype, shape, data)
    return digests


def tensors(file: Path) -> Iterator[TensorBytes]:
    """Name, type, shape and raw bytes of each tensor of a safetensors file. Raises ValueError if it is cut short."""
    with file.open("rb") as stream:
        head = stream.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 0 < length <= _LONGEST_HEADER:
            raise ValueError(f"{file} is no safetensors file")
        header = cast("dict[str, Any]", json.loads(stream.read(length)))
        base = 8 + length
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            stream.seek(base + begin)
            data = stream.read(end - begin)
            if len(data) != end - begin:
                raise ValueError(f"{file} is cut short at tensor {name}")
            yield name, entry["dtype"], tuple(entry["shape"]), data


def _remove_tree(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
