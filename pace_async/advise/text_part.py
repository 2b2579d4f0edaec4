"""The text part of a model that also sees or hears, as a model of its own: `python -m pace_async.advise.text_part MODEL
FOLDER` writes it.

Learner and embedded engine compute the text part alone, and a version holds nothing else. So version 0 has to be the
text part too, under the names that it has as a model of its own. Its tensors are copied bit for bit, file by file.
transformers says which tensors the text part has, in a separate process (`text_names`): this module imports no torch.
"""

import json
import shutil
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pace_async.children import answer_of
from pace_async.errors import UsageError
from pace_async.model_folder import CONFIG, INDEX, companions
from pace_async.weights import StoredTensor, contents, record_digests, write_atomically

_ASK_S = 300.0
_PIECE = 1 << 24
_TYPES = ("F64", "F32", "F16", "BF16")
_PROCESSORS = ("preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json")
"""Files for what the text part does not have."""


@dataclass(frozen=True, slots=True)
class TextModel:
    """The text part as a model of its own: its config.json, the shape of each tensor by name, and the names of those
    that repeat another one."""

    config: dict[str, Any]
    shapes: dict[str, list[int]]
    tied: list[str]


def has_more_than_text(folder: Path) -> bool:
    """Whether the model in this folder has a text part among others. Raises UsageError for a config.json that cannot be
    read."""
    file = folder / CONFIG
    try:
        config: object = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read ({error}): make the folder again.") from None
    return isinstance(config, dict) and isinstance(cast("dict[str, Any]", config).get("text_config"), dict)


def text_bytes(folder: Path) -> int:
    """Bytes of the text part's tensors, by their names. 0 for a folder without weights. Reads no tensor."""
    try:
        tensors = contents(folder)
    except (OSError, ValueError):
        return 0
    return sum(tensor.length for tensor in tensors if "language_model." in tensor.name or "lm_head." in tensor.name)


def text_part(model: Path, folder: Path) -> Path:
    """Write the text part of `model` to `folder`, unless it is there. Its parent is made. Raises UsageError for a model
    whose text part cannot be told from its files, and for a disk that cannot hold it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder, lambda target: _write(model, target))
    except ValueError as error:
        raise UsageError(f"The text part of {model} cannot be taken out: {error}.") from None
    except OSError as error:
        raise UsageError(f"The text part of {model} could not be written to {folder} ({error.strerror}).") from None
    return folder


def _write(model: Path, target: Path) -> None:
    text = TextModel(**answer_of("pace_async.advise.text_names", str(model), _ASK_S))
    parts = _by_file(_stored_as(text, {tensor.name: tensor for tensor in contents(model)}))
    names = [f"model-{at + 1:05d}-of-{len(parts):05d}.safetensors" for at in range(len(parts))]
    if len(names) == 1:
        names = ["model.safetensors"]
    for name, tensors in zip(names, parts, strict=True):
        _write_file(target / name, tensors)
    if len(names) > 1:
        places = {tensor.name: name for name, tensors in zip(names, parts, strict=True) for tensor in tensors}
        (target / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}), "utf-8")
    (target / CONFIG).write_text(json.dumps(text.config, indent=2) + "\n", "utf-8")
    for file in companions(model):
        if file.name not in _PROCESSORS:
            shutil.copyfile(file, target / file.name)
    record_digests(target)


def _stored_as(text: TextModel, stored: Mapping[str, StoredTensor]) -> Iterator[StoredTensor]:
    """The tensors of the text part as the files hold them, under their names in the text part. Raises ValueError."""
    for name, shape in text.shapes.items():
        spelled = next((other for other in _spellings(name) if other in stored), None)
        if spelled is None and name in text.tied:
            continue
        if spelled is None:
            raise ValueError(f"its files hold no tensor {name}")
        if stored[spelled].dtype not in _TYPES:
            raise ValueError(f"{spelled} is of type {stored[spelled].dtype}, which cannot be trained")
        if list(stored[spelled].shape) != shape:
            raise ValueError(f"{spelled} has shape {list(stored[spelled].shape)}, and its text part {shape}")
        yield replace(stored[spelled], name=name)


def _spellings(name: str) -> tuple[str, ...]:
    """Names under which a whole model stores a tensor of its text part."""
    inner = name.removeprefix("model.")
    return f"model.language_model.{inner}", f"language_model.{name}", f"model.language_model.{name}", name


def _by_file(tensors: Iterator[StoredTensor]) -> list[list[StoredTensor]]:
    parts: dict[Path, list[StoredTensor]] = {}
    for tensor in tensors:
        parts.setdefault(tensor.file, []).append(tensor)
    return [parts[file] for file in sorted(parts)]


def _write_file(file: Path, tensors: Sequence[StoredTensor]) -> None:
    """Copy tensors of one safetensors file to another. Raises ValueError for a file that is cut short, OSError."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in tensors:
        entry = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [at, at + tensor.length]}
        header[tensor.name] = entry
        at += tensor.length
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as target, tensors[0].file.open("rb") as source:
        target.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            source.seek(tensor.start)
            left = tensor.length
            while left:
                piece = source.read(min(left, _PIECE))
                if not piece:
                    raise ValueError(f"{tensor.file} is cut short")
                target.write(piece)
                left -= len(piece)


if __name__ == "__main__":
    try:
        text_part(Path(sys.argv[1]), Path(sys.argv[2]))
    except UsageError as error:
        sys.exit(str(error))
