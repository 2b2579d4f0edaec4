"""Weights on disk: written whole or not at all, and digested without loading them.

A complete checkpoint directory holds the file COMPLETE, written last. A digest is sha256 over a tensor's dtype, shape
and raw bytes as safetensors stores them, so writer and reader can compare tensors. The writer of a version digests it
at once (DIGESTS). A push need not read it again, and a later reader can tell whether the disk changed it (`damage`).
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pace_async.durable import sync
from pace_async.model_folder import weight_files

COMPLETE = "COMPLETE"
DIGESTS = "digests.json"
BASE = "0"
"""What an engine of adapters calls version 0: the weights below all adapters, which requests that name none get."""

TensorBytes = tuple[str, str, tuple[int, ...], bytes]
"""Name, type in safetensors' spelling, shape, raw bytes."""

_LONGEST_HEADER = 100_000_000
_READERS = 4
"""Tensors read and digested at once; neither reading nor digesting holds the interpreter."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The place of a tensor in a safetensors file: `length` bytes from `start`. The type is in safetensors'
    spelling."""

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
    """`write` fills a temporary directory, which is synced, marked complete (with the text `mark`) and renamed to
    `folder`. The parent must exist. A half-written directory never gets the final name and is removed. A directory that
    exists already stays as it is. Raises OSError, and what `write` raises."""
    if is_complete(folder):
        return
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    _remove_tree(temporary)
    temporary.mkdir()
    try:
        write(temporary)
        (temporary / COMPLETE).write_text(mark)
        for file in (*temporary.iterdir(), temporary):
            sync(file)
        _remove_tree(folder)
        temporary.rename(folder)
    except BaseException:
        _remove_tree(temporary)
        raise
    sync(folder.parent)


def tensor_digest(dtype: str, shape: tuple[int, ...], data: bytes | memoryview) -> str:
    """32 hex digits. `dtype` in safetensors' spelling (F32, BF16, …)."""
    digest = hashlib.sha256(f"{dtype}{list(shape)}".encode())
    digest.update(data)
    return digest.hexdigest()[:32]


def version_digest(digests: Mapping[str, str]) -> str:
    """One digest of all tensors of a version, from their digests by name. 32 hex digits."""
    lines = "".join(f"{digests[name]} {name}\n" for name in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


def checkpoint_digests(folder: Path, look: Callable[[str, str, bytes], None] | None = None) -> dict[str, str]:
    """Tensor name to digest, over the weights of a checkpoint, in one pass. `look` gets the name, type and bytes of
    each tensor, in any order. Raises ValueError for a damaged file."""
    return _digests(contents(folder), look)


def _digests(
    stored_tensors: list[StoredTensor], look: Callable[[str, str, bytes], None] | None = None
) -> dict[str, str]:

    def digest(tensor: StoredTensor) -> str:
        data = _bytes_of(tensor)
        if look is not None:
            look(tensor.name, tensor.dtype, data)
        return tensor_digest(tensor.dtype, tensor.shape, data)

    with ThreadPoolExecutor(_READERS) as readers:
        return {
            tensor.name: each for tensor, each in zip(stored_tensors, readers.map(digest, stored_tensors), strict=True)
        }


def record_digests(folder: Path) -> None:
    """Write the digests of a checkpoint beside it. Only its writer calls this, after it has checked that all numbers
    are finite. Raises ValueError for a damaged file, OSError."""
    record = {"files": _stamps(folder), "digests": _digests(everything(folder)), "others": _others(folder)}
    (folder / DIGESTS).write_text(json.dumps(record), "utf-8")


def recorded_digests(folder: Path) -> dict[str, str] | None:
    """The digests that `record_digests` wrote. None where there are none, or a file was changed or copied since: its
    content may differ (`damage`)."""
    record = _record(folder)
    return record["digests"] if record is not None and record["files"] == _stamps(folder) else None


def damage(folder: Path, digests: Mapping[str, str] | None = None) -> str | None:
    """How a checkpoint differs from what was written, in words. None where it does not differ, or no digests were
    recorded. Reads every file, except the tensors if their present `digests` are given."""
    if not (folder / DIGESTS).exists():
        return None
    record = _record(folder)
    if record is None:
        return f"{folder / DIGESTS} is damaged"
    try:
        wrong = _different(record["digests"], _digests(everything(folder)) if digests is None else digests)
        wrong += _different(record.get("others", {}), _others(folder) if "others" in record else {})
    except (OSError, ValueError) as error:
        return f"{folder} is damaged: {error}"
    return f"{folder} is damaged: {wrong[0]} is not what was written" if wrong else None


def tensors(file: Path) -> Iterator[TensorBytes]:
    """Name, type, shape and raw bytes of each tensor of a safetensors file. Raises ValueError if it is cut short."""
    for tensor in read_header(file):
        yield tensor.name, tensor.dtype, tensor.shape, _bytes_of(tensor)


def contents(folder: Path) -> list[StoredTensor]:
    """The tensors of a checkpoint's weights (`model_folder`), always in the same order. Raises ValueError for a damaged
    file."""
    return [tensor for file in weight_files(folder) for tensor in read_header(file)]


def everything(folder: Path) -> list[StoredTensor]:
    """The tensors of every safetensors file in a folder that pace wrote, such as an optimizer's. Raises ValueError."""
    return [tensor for file in sorted(folder.glob("*.safetensors")) for tensor in read_header(file)]


def read_header(file: Path) -> list[StoredTensor]:
    """The tensors that the header of a safetensors file lists. Raises ValueError if the header is damaged."""
    with file.open("rb") as stream:
        head = stream.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 0 < length <= _LONGEST_HEADER:
            raise ValueError(f"{file} is not a safetensors file")
        text = stream.read(length)
    stored_tensors: list[StoredTensor] = []
    try:
        for name, entry in cast("dict[str, Any]", json.loads(text)).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                stored_tensors.append(
                    StoredTensor(file, name, entry["dtype"], tuple(entry["shape"]), 8 + length + begin, end - begin)
                )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{file} is not a safetensors file") from None
    return stored_tensors


def _bytes_of(tensor: StoredTensor) -> bytes:
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.start)
        data = stream.read(tensor.length)
    if len(data) != tensor.length:
        raise ValueError(f"{tensor.file} is cut short at tensor {tensor.name}")
    return data


def _record(folder: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((folder / DIGESTS).read_text("utf-8"))
        return record if isinstance(record["files"], dict) and isinstance(record["digests"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _others(folder: Path) -> dict[str, str]:
    """Name to digest of the other files, which define how the tensors are read."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and file.suffix != ".safetensors"]
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:32]
        for file in files
        if file.name not in (COMPLETE, DIGESTS)
    }


def _different(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _stamps(folder: Path) -> dict[str, list[int]]:
    """Size and modification time of each safetensors file, which show whether it is the digested one."""
    stats = {file.name: file.stat() for file in sorted(folder.glob("*.safetensors"))}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}


def _remove_tree(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
