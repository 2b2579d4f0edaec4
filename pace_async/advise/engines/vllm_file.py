"""vLLM's side of publishing by file: a weight-transfer engine that loads a checkpoint directory, and its receipt.

Invariant: nothing of the model is touched until the checkpoint is wholly read and every number is finite; a receipt is
given only for tensors that the model was found to compute with. Runs inside vLLM's workers. One update is one
directory, announced beforehand, so that reading and digesting it take nothing from the pause. Not for models that are
split over devices.
"""

import hashlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from pace_async.advise.engines.load import BadCheckpoint, digest_of, read_tensors, refuse_unless_servable
from pace_async.advise.engines.served_copy import EMBEDDING, HEAD
from pace_async.advise.engines.vllm_lora_proof import not_in_slot
from pace_async.advise.engines.vllm_proof import not_in_force

_base = cast("Any", import_module("vllm.distributed.weight_transfer.base"))
_reload = cast("Any", import_module("vllm.model_executor.model_loader.reload"))
_Engine = cast("type[Any]", _base.WeightTransferEngine)


@dataclass
class Announced:
    """`path`: the directory that the next update will name."""

    path: str


@dataclass
class Folder:
    """`path`: a checkpoint directory, as this process sees it."""

    path: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was read of a directory: tensors and their digests, by name."""

    tensors: Mapping[str, Tensor]
    digests: Mapping[str, str]


class FileTransfer(_Engine):
    """vLLM makes one for each worker, names it in `--weight-transfer-config`, and calls it under a pause."""

    init_info_cls = Announced
    update_info_cls = Folder

    def __init__(self, *arguments: Any) -> None:
        base: Any = super()
        base.__init__(*arguments)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="pace-checkpoint")
        self._reading: tuple[str, Future[Checkpoint]] | None = None
        self._given: Checkpoint | None = None

    def init_transfer_engine(self, init_info: Announced) -> None:
        """Begin to read; generation goes on."""
        self._reading = init_info.path, self._reader.submit(_read, Path(init_info.path))

    def start_weight_update(self) -> None:
        self._given = None

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        """The base class ends in an accelerator's synchronise, which a CPU does not have."""
        self.receive_weights(Folder(**update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: Folder) -> None:
        """Raises BadCheckpoint; if it names the model's tensors the weights are then unknown."""
        announced, reading = self._reading or ("", None)
        if reading is None or announced != update_info.path:
            reading = self._reader.submit(_read, Path(update_info.path))
        given = reading.result()
        self._reading = None
        weights = _with_head(given)
        parameters = {name for name, _ in self.model.named_parameters()}
        _reload.initialize_layerwise_reload(self.model)
        loaded: set[str] = self.model.load_weights(weights.items())
        _reload.finalize_layerwise_reload(self.model, self.model_config)
        missing = sorted(parameters - loaded)
        if missing:
            raise BadCheckpoint(f"{update_info.path}: {len(missing)} tensors are missing, {missing[0]} the first")
        self._given = given

    def finish_weight_update(self) -> None:
        self._given = None

    def receipt(self) -> dict[str, str]:
        """Name to digest of each tensor that was given since `start_weight_update` and is in force."""
        if self._given is None:
            return {}
        digests = self._given.digests
        seed = int(hashlib.sha256("".join(sorted(digests.values())).encode()).hexdigest()[:15], 16)
        with torch.inference_mode():
            wrong = set(not_in_force(self.model, _with_head(self._given), seed, _renaming(self.model)))
        if HEAD in wrong and HEAD not in digests:
            wrong.add(EMBEDDING)
        return {name: digest for name, digest in digests.items() if name not in wrong}

    def shutdown(self) -> None:
        self._reader.shutdown(wait=False, cancel_futures=True)


class ReceiptExtension:
    """What vLLM mixes into its worker (`--worker-extension-cls`), so that `/collective_rpc` reaches the receipt."""

    weight_transfer_engine: FileTransfer

    def weight_receipt(self) -> dict[str, str]:
        return self.weight_transfer_engine.receipt()

    def adapter_receipt(self, path: str) -> dict[str, str]:
        """Name to digest of each tensor of the adapter in directory `path` that stands where the adapter loaded last
        computes."""
        manager: Any = cast("Any", self).model_runner.lora_manager._adapter_manager
        given = _read(Path(path))
        with torch.inference_mode():
            wrong = set(not_in_slot(manager, max(manager.list_adapters()), given.tensors, Path(path)))
        return {name: digest for name, digest in given.digests.items() if name not in wrong}


def _read(folder: Path) -> Checkpoint:
    tensors = dict(read_tensors(folder))
    for name, tensor in tensors.items():
        refuse_unless_servable(folder, name, tensor)
    return Checkpoint(tensors, {name: digest_of(tensor) for name, tensor in tensors.items()})


def _with_head(given: Checkpoint) -> dict[str, Tensor]:
    """The tensors; with a head of its own where the checkpoint has tied embeddings (see `served_copy`)."""
    weights = dict(given.tensors)
    if HEAD not in weights and EMBEDDING in weights:
        weights[HEAD] = weights[EMBEDDING]
    return weights


def _renaming(model: Any) -> Any:
    mapper = getattr(model, "hf_to_vllm_mapper", None)
    return str if mapper is None else mapper.get_rename_mapper().map_name
