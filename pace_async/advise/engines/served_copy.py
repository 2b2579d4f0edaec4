"""The directory that vLLM serves instead of a checkpoint: the same files, with a separate output head.

A checkpoint with tied embeddings holds one tensor for embedding and head. vLLM's CPU build packs the head into a
separate kernel when it loads. A later update of the shared tensor does not change that kernel, and vLLM reports no
error. So the copy declares that nothing is tied and contains the head. The plugin adds the head to every later version.
The other files that count (`model_folder`) are links, so a copy costs one tensor. The model's own class determines
which tensors it ties and their names (`tied`). That runs in a separate process: this module imports no torch.
"""

import json
import struct
from pathlib import Path
from typing import Any

from pace_async.children import answer_of
from pace_async.model_folder import CONFIG, INDEX, companions, weight_files
from pace_async.weights import DIGESTS, StoredTensor, TensorBytes, contents, tensors, write_atomically

_ASK_S = 300.0


def serve_from(model: Path, folder: Path) -> Path:
    """Make `folder` the directory that vLLM serves for `model`, unless it exists. Raises ValueError for a damaged file
    and for a model whose tied tensors cannot be determined."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(folder, lambda target: _write(model.resolve(), target))
    return folder


def _write(model: Path, target: Path) -> None:
    heads, weights = _missing_heads(model), weight_files(model)
    for file in (model / CONFIG, model / INDEX, *companions(model), *weights):
        if file.is_file() and not (heads and file.name in (CONFIG, INDEX, DIGESTS)):
            (target / file.name).symlink_to(file)
    if heads:
        config = _config(model)
        for part in (config, config.get("text_config")):
            if isinstance(part, dict):
                part["tie_word_embeddings"] = False
        (target / CONFIG).write_text(json.dumps(config, indent=2), "utf-8")
        places = {tensor.name: tensor.file.name for tensor in contents(model)}
        for at, (name, tensor) in enumerate(heads.items()):
            places[name] = f"head{at or ''}.safetensors"
            _write_tensor(target / places[name], name, tensor)
        (target / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}), "utf-8")


def _missing_heads(model: Path) -> dict[str, TensorBytes]:
    """For each tensor that the checkpoint lacks because it is tied to another: that other tensor, by missing name."""
    stored = {tensor.name: tensor for tensor in contents(model)}
    if not stored or _has_both_ends(_config(model), stored):
        return {}
    ties = {name: of for name, of in _ask(model).items() if name not in stored}
    return {name: _tied_tensor(model, stored, other, shape) for name, (other, shape) in ties.items()}


def _tied_tensor(model: Path, stored: dict[str, StoredTensor], name: str, shape: list[int]) -> TensorBytes:
    """The tensor that the model calls `name`: the stored tensor of that name, or the only one of that shape."""
    alike = [candidate for candidate in stored.values() if list(candidate.shape) == shape]
    tensor = stored[name] if name in stored else alike[0] if len(alike) == 1 else None
    if tensor is None:
        raise ValueError(f"{model} ties {name}, and {len(alike)} tensors of its files have that shape")
    return next(candidate for candidate in tensors(tensor.file) if candidate[0] == tensor.name)


def _has_both_ends(config: dict[str, Any], stored: dict[str, StoredTensor]) -> bool:
    """Whether two matrices have a row for each token. Then nothing is tied, and the model class is not needed."""
    text: dict[str, Any] = config.get("text_config") or config
    return sum(len(tensor.shape) == 2 and tensor.shape[0] == text.get("vocab_size") for tensor in stored.values()) >= 2


def _ask(model: Path) -> dict[str, tuple[str, list[int]]]:
    """By name of each tied tensor: name and shape of the tensor that it repeats."""
    try:
        return answer_of("pace_async.advise.engines.tied", str(model), _ASK_S)
    except ValueError as error:
        raise ValueError(f"{model}: its tied tensors cannot be determined: {error}") from None


def _config(model: Path) -> dict[str, Any]:
    return json.loads((model / CONFIG).read_text("utf-8"))


def _write_tensor(file: Path, name: str, tensor: TensorBytes) -> None:
    _, dtype, shape, data = tensor
    header = json.dumps({name: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    file.write_bytes(struct.pack("<Q", len(header)) + header + data)
