"""What a folder of a model holds: one reading of it for dry run, plan, engine and learner.

People's folders hold more than one model: `hf download` leaves the same weights in the formats of other libraries
(tf_model.h5, consolidated.safetensors, …) beside those that count. Weights that count are those of safetensors which
transformers loads. Folders that pace wrote hold nothing else. Reads no tensor.
"""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

CONFIG, INDEX, WHOLE = "config.json", "model.safetensors.index.json", "model.safetensors"
GENERATION = "generation_config.json"
"""How a model is sampled by others. It is copied as it is: a file that transformers reads may be one that it refuses to
write."""
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
"""Files of which a tokenizer has one."""
NO_WEIGHTS = "weights (*.safetensors)"
"""What `missing_file` says of a folder without weights that count."""
_OTHERS = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack", "*.ckpt", "*.onnx")
_TEXT = (".json", ".jsonl", ".txt", ".jinja", ".model", ".tiktoken", ".spm", ".vocab", ".bpe")
"""Ends of the names of files that belong to tokenizer and prompts."""


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that count: those that the index names, else model.safetensors, else all (adapters, and
    what an engine fetched). Sorted. Raises ValueError for an index that cannot be read."""
    if (folder / INDEX).is_file():
        return [folder / name for name in _indexed(folder)]
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    return [file for file in sorted(folder.glob("*.safetensors")) if file.is_file()]


def companions(folder: Path) -> Iterator[Path]:
    """The files beside the weights that a version needs: the tokenizer's, templates, and generation_config.json. None
    of another library's weights, and not config.json, which the writer of the version writes."""
    for file in sorted(folder.iterdir()):
        if file.suffix in _TEXT and file.name != CONFIG and not file.name.endswith(".index.json") and file.is_file():
            yield file


def missing_file(folder: Path) -> str:
    """The first file that a folder lacks to be a model: its configuration, its tokenizer, or weights, each shard that
    their index names. Empty if it has all. A link to nothing counts as missing."""
    if not (folder / CONFIG).is_file():
        return CONFIG
    if not any((folder / name).is_file() for name in TOKENIZERS) and not _is_file(folder, "tokenizer*"):
        return "a tokenizer"
    try:
        return next((file.name for file in weight_files(folder) if not file.is_file()), "") or _without_weights(folder)
    except ValueError:
        return f"a whole {INDEX}"


def has_other_weights(folder: Path) -> bool:
    """Whether a folder holds weights in a format that does not count."""
    return any(_is_file(folder, pattern) for pattern in _OTHERS)


def contradiction(folder: Path) -> str:
    """Why it is not known which weights of a folder are meant, as a clause. Empty if it is known."""
    if not ((folder / INDEX).is_file() and (folder / WHOLE).is_file()) or WHOLE in _indexed(folder):
        return ""
    return f"it has {WHOLE} beside the shards that {INDEX} names, and transformers would load the first"


def _without_weights(folder: Path) -> str:
    return "" if weight_files(folder) else NO_WEIGHTS


def _is_file(folder: Path, pattern: str) -> bool:
    return any(file.is_file() for file in folder.glob(pattern))


def _indexed(folder: Path) -> list[str]:
    """Names of the files that the index names. Raises ValueError."""
    try:
        index = cast("dict[str, Any]", json.loads((folder / INDEX).read_bytes()))
        names = sorted({str(name) for name in index["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / INDEX} is not a whole index of weights") from error
    if not names or any(PurePosixPath(name).name != name for name in names):
        raise ValueError(f"{folder / INDEX} is not a whole index of weights")
    return names
