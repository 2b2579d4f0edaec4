"""A version that vLLM's own loader loads: for any model, with tensors from a file, from the learner, or in its memory.

Runs inside vLLM's workers.
"""

import hashlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import torch

from pace_async.advise.engines.load import BadCheckpoint, beside_computing, digested
from pace_async.advise.engines.shared import OpenedVersion
from pace_async.advise.engines.vllm_parameter_map import with_head
from pace_async.advise.engines.vllm_proof import in_force
from pace_async.slices import Slice

_reload = cast("Any", import_module("vllm.model_executor.model_loader.reload"))
_embedding = cast("Any", import_module("vllm.model_executor.layers.vocab_parallel_embedding"))


class Reloaded:
    """A `vllm_file.PreparedVersion`. `tensors` of the version in `folder`. Raises BadCheckpoint."""

    def __init__(self, model: Any, model_config: Any, folder: Path, tensors: Mapping[str, torch.Tensor]) -> None:
        self._model, self._model_config, self._folder = model, model_config, folder
        self.digests = digested(folder, tensors)
        self._tensors, self._tied = with_head(tensors, ends_of(model), renaming_of(model))

    def advance(self, seconds: float) -> bool:
        return True

    def put_in_force(self) -> None:
        parameters = {name for name, _ in self._model.named_parameters()}
        _reload.initialize_layerwise_reload(self._model)
        loaded: set[str] = self._model.load_weights(self._tensors.items())
        _reload.finalize_layerwise_reload(self._model, self._model_config)
        missing = sorted(parameters - loaded)
        if missing:
            raise BadCheckpoint(f"{self._folder}: {len(missing)} tensors are missing, {missing[0]} the first")

    def in_force(self) -> dict[str, Sequence[Slice]]:
        seed = seed_of("".join(sorted(self.digests.values())))
        with torch.inference_mode():
            proven = in_force(self._model, self._tensors, seed, renaming_of(self._model))
        unproven = {self._tied.get(name, name) for name in self._tensors.keys() - proven.keys()}
        return {name: slices for name, slices in proven.items() if name in self.digests and name not in unproven}

    def forget(self) -> None:
        self._tensors = {}


class FromMemory(Reloaded):
    """A version in the learner's memory, from which the model loads it. Raises BadCheckpoint, also if what lies there
    is not what was digested any more."""

    def __init__(
        self, model: Any, model_config: Any, folder: Path, opened: OpenedVersion, device: torch.device
    ) -> None:
        self._opened = opened
        with beside_computing(device):
            self._mark = opened.mark()
        super().__init__(model, model_config, folder, opened.tensors)

    def put_in_force(self) -> None:
        super().put_in_force()
        if self._opened.mark() != self._mark:
            raise BadCheckpoint(f"{self._folder}: the learner's memory changed before it was loaded")


def ends_of(model: Any) -> tuple[str, str] | None:
    """Paths of the embedding and the output head, if the model has one of each with separate weights, else None."""
    layers: list[tuple[str, Any]] = [
        (path, layer) for path, layer in model.named_modules() if isinstance(layer, _embedding.VocabParallelEmbedding)
    ]
    heads = [pair for pair in layers if isinstance(pair[1], _embedding.ParallelLMHead)]
    inputs = [pair for pair in layers if pair not in heads]
    if len(heads) != 1 or len(inputs) != 1 or heads[0][1].weight is inputs[0][1].weight:
        return None
    return inputs[0][0], heads[0][0]


def seed_of(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)


def renaming_of(model: Any) -> Any:
    mapper = getattr(model, "hf_to_vllm_mapper", None)
    return str if mapper is None else mapper.get_rename_mapper().map_name
