"""Reads the file that Weights & Biases writes offline: records of protobuf, framed as in the logs of LevelDB."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

BLOCK, HEADER = 32 * 1024, 7
_FULL, _LAST = 1, 4
_FIRST_BYTES = 7
"""The mark of the format and its version, at the begin of the file."""


def history(folder: Path) -> list[dict[str, Any]]:
    """What was logged in each step of the one run in this folder, oldest first."""
    [file] = folder.glob("run-*.wandb")
    return [
        {
            item.nested_key[0] if item.nested_key else item.key: json.loads(item.value_json)
            for item in record.history.item
        }
        for record in _records(file)
        if record.WhichOneof("record_type") == "history"
    ]


def begun(folder: Path) -> Any:
    """The run as it was begun."""
    [file] = folder.glob("run-*.wandb")
    return next(record.run for record in _records(file) if record.WhichOneof("record_type") == "run")


def tables(folder: Path) -> list[dict[str, Any]]:
    """The tables of this folder, in the order of their steps."""
    files = (folder / "files" / "media" / "table").glob("*.table.json")
    return [json.loads(file.read_text()) for file in sorted(files, key=lambda file: int(file.name.split("_")[1]))]


def _records(file: Path) -> list[Any]:
    messages: Any = import_module("wandb.proto.wandb_internal_pb2")
    data, at, parts, found = file.read_bytes(), _FIRST_BYTES, b"", list[Any]()
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:  # no header fits into what is left of a block
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (_FULL, _LAST):
            found.append(messages.Record.FromString(parts))
            parts = b""
    return found
