"""The weights of a version in the number type in which they are served.

The learner computes in float32. An engine that serves the type of version 0's files rounds what it reads to that type.
So a version is rounded when it is written: it takes half the bytes in bfloat16, and the engine computes with the same
numbers. Training never reads a version, so nothing is lost. Checkpoints stay in float32.

Only imported in the learner's child process.
"""

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import PreTrainedModel

from pace_async.weights import contents

_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def stored_names(policy: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `state` by the names that a checkpoint gives them. transformers renames some when it loads, and
    merges or splits some. Adapters are not renamed."""
    if not isinstance(policy, PreTrainedModel):
        return state
    return cast("Any", import_module("transformers.core_model_loading")).revert_weight_conversion(policy, state)


def served_type(model: Path) -> torch.dtype:
    """The type that the configuration of version 0 names. float32 if it names none."""
    config: dict[str, Any] = json.loads((model / "config.json").read_text("utf-8"))
    inner: dict[str, Any] = config.get("text_config") or {}
    names = (part.get(key) for part in (config, inner) for key in ("dtype", "torch_dtype"))
    kind = getattr(torch, str(next((name for name in names if name), "float32")), None)
    return kind if isinstance(kind, torch.dtype) else torch.float32


def types_in(policy: Any, folder: Path) -> dict[str, torch.dtype]:
    """By the names of the policy: the type of each tensor in the files, if it is stored in the same form."""
    stored_types = {tensor.name: _TYPES.get(tensor.dtype) for tensor in contents(folder)}
    shapes = {
        name: torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        for name, tensor in policy.state_dict().items()
    }
    names = {id(tensor): name for name, tensor in stored_names(policy, dict(shapes)).items()}
    kinds = {name: stored_types.get(names.get(id(tensor), "")) for name, tensor in shapes.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def as_served(policy: Any, state: Mapping[str, Tensor], model: Path, *, adapters: bool) -> dict[str, Tensor]:
    """The tensors of `state` to write, by the names of the policy, in host memory. Each gets the type of its tensor in
    the files of version 0, in directory `model`. Adapters, and tensors that are stored in another form, get
    `served_type`. Tied tensors stay one."""
    usual = served_type(model)
    types = {} if adapters else types_in(policy, model)
    copies: dict[tuple[int, torch.Size], Tensor] = {}
    served: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if adapters and "lora_" not in name:
            continue
        key = tensor.data_ptr(), tensor.shape
        if key not in copies:
            kind = types.get(name, usual) if tensor.is_floating_point() else tensor.dtype
            copies[key] = tensor.detach().to(kind).to("cpu")
        served[name] = copies[key]
    return served


def name_type(folder: Path, kind: torch.dtype) -> None:
    """Make the configuration of a written version name its type."""
    file = folder / "config.json"
    config: dict[str, Any] = json.loads(file.read_text("utf-8"))
    config["dtype"] = str(kind).removeprefix("torch.")
    file.write_text(json.dumps(config, indent=2) + "\n", "utf-8")
