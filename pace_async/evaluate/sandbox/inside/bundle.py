"""Files as one sequence of bytes: a line of JSON for each (`name`, `size`), and its bytes. Empty folders are not kept.

Invariant: `unpack` writes only below its folder, whatever the bytes contain. It is called in a sandbox, because a
build's files come from a candidate.
"""

import json
import os
from collections.abc import Iterator, Mapping

LONGEST_HEAD = 1 << 15
"""A path has at most 4,096 bytes, each of which may be written as six."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """The files in their order."""
    return b"".join(_head(name, len(data)) + data for name, data in files.items())


def pack_folder(folder: str, most: int) -> bytes | None:
    """Every regular file below a folder, None if they have more than `most` bytes together."""
    parts: list[bytes] = []
    size = 0
    for name in sorted(_names(folder, "")):
        data = _read(f"{folder}/{name}", most + 1 - size)
        parts += [_head(name, len(data)), data]
        size += len(data)
        if size > most:
            return None
    return b"".join(parts)


def unpack(data: bytes, folder: str) -> None:
    """Write the files below an existing folder, each of which may be executed. Raises ValueError for bytes that are no
    bundle, OSError where they cannot be written."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at, at + LONGEST_HEAD)
        if end < 0:
            raise ValueError("no bundle")
        head = json.loads(data[at:end])
        name, size = str(head["name"]), int(head["size"])
        if name.startswith("/") or ".." in name.split("/") or not 0 <= size <= len(data) - end - 1:
            raise ValueError("no bundle")
        path = f"{folder}/{name}"
        os.makedirs(path.rpartition("/")[0], exist_ok=True)  # noqa: PTH103 (pathlib costs start-up time here)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o755), "wb") as stream:
            stream.write(data[end + 1 : end + 1 + size])
        at = end + 1 + size


def _read(path: str, most: int) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
        return stream.read(most)


def _head(name: str, size: int) -> bytes:
    return json.dumps({"name": name, "size": size}).encode() + b"\n"


def _names(folder: str, below: str) -> Iterator[str]:
    with os.scandir(f"{folder}/{below}") as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _names(folder, f"{below}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield f"{below}{entry.name}"
