"""The directory that vLLM serves in place of a checkpoint: complete, and with an output head of its own.

A checkpoint with tied embeddings holds one tensor for both ends. vLLM's CPU build packs the head into a kernel of its
own when it loads, and a later update of the shared tensor leaves that kernel at the old weights, without a word. So
the copy says that nothing is tied and carries the head; the plugin hands the head over with every later version. All
other files are links: a copy costs one tensor. Imports no torch.
"""

import json
import struct
from pathlib import Path
from typing import Any

from pace_async.weights import TensorBytes, tensors, write_atomically

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
_INDEX = "model.safetensors.index.json"


def serve_from(model: Path, folder: Path) -> Path:
    """Make `folder` what vLLM serves of `model`, unless it stands already. Raises ValueError for a damaged file."""
    write_atomically(folder, lambda target: _write(model.resolve(), target))
    return folder


def _write(model: Path, target: Path) -> None:
    shared = _shared_embedding(model)
    for file in model.iterdir():
        if file.is_file() and not (shared and file.name in ("config.json", _INDEX)):
            (target / file.name).symlink_to(file)
    if shared is not None:
        config: dict[str, Any] = json.loads((model / "config.json").read_text("utf-8"))
        for part in (config, config.get("text_config")):
            if isinstance(part, dict):
                part["tie_word_embeddings"] = False
        (target / "config.json").write_text(json.dumps(config, indent=2), "utf-8")
        _write_tensor(target / "head.safetensors", HEAD, shared)  # found without an index, as every file is then


def _shared_embedding(model: Path) -> TensorBytes | None:
    """The embedding, where the checkpoint has no head beside it."""
    embedding: TensorBytes | None = None
    for file in sorted(model.glob("*.safetensors")):
        for tensor in tensors(file):
            if tensor[0] == HEAD:
                return None
            if tensor[0] == EMBEDDING:
                embedding = tensor
    return embedding


def _write_tensor(file: Path, name: str, tensor: TensorBytes) -> None:
    _, dtype, shape, data = tensor
    header = json.dumps({name: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    file.write_bytes(struct.pack("<Q", len(header)) + header + data)
