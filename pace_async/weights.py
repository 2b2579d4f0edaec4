"""Weights on disk: written whole or not at all, and digested without loading them.

A complete checkpoint directory holds the file COMPLETE, written last. A digest is sha256 over a tensor's dtype, shape
and raw bytes as safetensors stores them, so the side that wrote a tensor and the side that loaded it can be compared.
Whoever writes a version digests it then (DIGESTS), so that a push need not read it again on its way.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

COMPLETE = "COMPLETE"
DIGESTS = "digests.json"
BASE = "0"
"""What an engine of adapters calls version 0: the weights below all adapters, which requests that name none get."""

TensorBytes = tuple[str, str, tuple[int, ...], bytes]
"""Name, type in safetensors' spelling, shape, raw bytes."""

_LONGEST_HEADER = 100_000_000


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a tensor lies in a safetensors file: `length` bytes from `start`; its type in safetensors' spelling."""

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    length: int


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


def record_digests(folder: Path) -> None:
    """Write down a checkpoint's digests beside it. For whoever wrote it, and has seen that its numbers are finite.
    Raises ValueError for a damaged file."""
    record = {"files": _stamps(folder), "digests": checkpoint_digests(folder)}
    (folder / DIGESTS).write_text(json.dumps(record), "utf-8")


def recorded_digests(folder: Path) -> dict[str, str] | None:
    """What `record_digests` wrote; None where it wrote nothing, or a file has been changed or copied since."""
    try:
        record: dict[str, Any] = json.loads((folder / DIGESTS).read_text("utf-8"))
        return record["digests"] if record["files"] == _stamps(folder) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def tensors(file: Path) -> Iterator[TensorBytes]:
    """Name, type, shape and raw bytes of each tensor of a safetensors file. Raises ValueError if it is cut short."""
    with file.open("rb") as stream:
        for tensor in stored(file):
            stream.seek(tensor.start)
            data = stream.read(tensor.length)
            if len(data) != tensor.length:
                raise ValueError(f"{file} is cut short at tensor {tensor.name}")
            yield tensor.name, tensor.dtype, tensor.shape, data


def contents(folder: Path) -> list[Stored]:
    """What a checkpoint holds, in an order that is the same for whoever asks. Raises ValueError for a damaged file."""
    return [tensor for file in sorted(folder.glob("*.safetensors")) for tensor in stored(file)]


def stored(file: Path) -> list[Stored]:
    """What the header of a safetensors file says that it holds. Raises ValueError if it is none."""
    with file.open("rb") as stream:
        head = stream.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 0 < length <= _LONGEST_HEADER:
            raise ValueError(f"{file} is no safetensors file")
        header = cast("dict[str, Any]", json.loads(stream.read(length)))
    found: list[Stored] = []
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found.append(Stored(file, name, entry["dtype"], tuple(entry["shape"]), 8 + length + begin, end - begin))
    return found


def _stamps(folder: Path) -> dict[str, list[int]]:
    """Size and time of each safetensors file: whether it is the one that was digested."""
    stats = {file.name: file.stat() for file in sorted(folder.glob("*.safetensors"))}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def _remove_tree(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
