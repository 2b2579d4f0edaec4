"""The directory that vLLM serves in place of a checkpoint: complete, and with an output head of its own.

A checkpoint with tied embeddings holds one tensor for both ends. vLLM's CPU build packs the head into a kernel of its
own when it loads, and a later update of the shared tensor leaves that kernel at the old weights, without a word. So
the copy says that nothing is tied and carries the head; the plugin hands the head over with every later version. All
other files are links: a copy costs one tensor. What a model ties, and what it calls it, its own class says (`tied`),
in a process of its own: imports no torch.
"""

import json
import struct
import subprocess
from pathlib import Path
from typing import Any

from pace_async.children import clean_environment, python_module
from pace_async.weights import DIGESTS, Stored, TensorBytes, contents, tensors, write_atomically

_INDEX = "model.safetensors.index.json"
_ASK_S = 300.0


def serve_from(model: Path, folder: Path) -> Path:
    """Make `folder` what vLLM serves of `model`, unless it stands already. Raises ValueError for a damaged file and
    for a model that cannot be asked what it ties."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(folder, lambda target: _write(model.resolve(), target))
    return folder


def _write(model: Path, target: Path) -> None:
    heads = _missing_heads(model)
    for file in model.iterdir():
        if file.is_file() and not (heads and file.name in ("config.json", _INDEX, DIGESTS)):
            (target / file.name).symlink_to(file)
    if heads:
        config = _config(model)
        for part in (config, config.get("text_config")):
            if isinstance(part, dict):
                part["tie_word_embeddings"] = False
        (target / "config.json").write_text(json.dumps(config, indent=2), "utf-8")
        for at, (name, tensor) in enumerate(heads.items()):  # found without an index, as every file is then
            _write_tensor(target / f"head{at or ''}.safetensors", name, tensor)


def _missing_heads(model: Path) -> dict[str, TensorBytes]:
    """Tensors that the model has and the checkpoint does not, because they are tied to another: that one, by name."""
    held = {tensor.name: tensor for tensor in contents(model)}
    if not held or _has_both_ends(_config(model), held):
        return {}
    ties = {name: of for name, of in _ask(model).items() if name not in held}
    return {name: _bytes(_found(model, held, other, shape)) for name, (other, shape) in ties.items()}


def _found(model: Path, held: dict[str, Stored], name: str, shape: list[int]) -> Stored:
    """The tensor that the model calls `name`: the one of that name, or the only one of its shape."""
    alike = [one for one in held.values() if list(one.shape) == shape]
    found = held[name] if name in held else alike[0] if len(alike) == 1 else None
    if found is None:
        raise ValueError(f"{model} ties {name}, and {len(alike)} tensors of its files have that shape")
    return found


def _has_both_ends(config: dict[str, Any], held: dict[str, Stored]) -> bool:
    """Whether two matrices have a row for each token: nothing is tied then, and no model must be asked."""
    text: dict[str, Any] = config.get("text_config") or config
    return sum(len(one.shape) == 2 and one.shape[0] == text.get("vocab_size") for one in held.values()) >= 2


def _ask(model: Path) -> dict[str, tuple[str, list[int]]]:
    """By the name of each tensor that is another one: that one's name and shape."""
    command = python_module("pace_async.advise.engines.tied", str(model))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ASK_S, env=clean_environment(), check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{model} did not say in {_ASK_S:g} s which of its tensors are tied") from None
    if done.returncode != 0:
        why = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no message")
        raise ValueError(f"{model} cannot be asked which of its tensors are tied: {why}")
    return json.loads(done.stdout)


def _config(model: Path) -> dict[str, Any]:
    return json.loads((model / "config.json").read_text("utf-8"))


def _bytes(wanted: Stored) -> TensorBytes:
    return next(tensor for tensor in tensors(wanted.file) if tensor[0] == wanted.name)


def _write_tensor(file: Path, name: str, tensor: TensorBytes) -> None:
    _, dtype, shape, data = tensor
    header = json.dumps({name: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    file.write_bytes(struct.pack("<Q", len(header)) + header + data)
