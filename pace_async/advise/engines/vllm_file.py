"""vLLM's side of publishing by file: a weight-transfer engine that loads a checkpoint directory, and its receipt.

Invariant: nothing of the model is touched until the checkpoint is wholly read and every number is finite; a receipt is
given only for tensors that the model was found to compute with. Runs inside vLLM's workers, on the main thread of each.
One update is one directory. Not for models that are split over devices.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from pace_async.advise.engines.load import BadCheckpoint, digest_of, read_tensors, refuse_unless_servable
from pace_async.advise.engines.served_copy import EMBEDDING, HEAD
from pace_async.advise.engines.vllm_proof import not_in_force

_base = cast("Any", import_module("vllm.distributed.weight_transfer.base"))
_reload = cast("Any", import_module("vllm.model_executor.model_loader.reload"))
_Engine = cast("type[Any]", _base.WeightTransferEngine)


@dataclass
class NoInit:
    """Nothing has to be agreed on beforehand."""


@dataclass
class Folder:
    """`path`: a checkpoint directory, as this process sees it."""

    path: str


class FileTransfer(_Engine):
    """vLLM makes one for each worker, names it in `--weight-transfer-config`, and calls it under a pause."""

    init_info_cls = NoInit
    update_info_cls = Folder

    def init_transfer_engine(self, init_info: NoInit) -> None: ...

    def start_weight_update(self) -> None:
        self._given: dict[str, Tensor] = {}

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        """The base class ends in an accelerator's synchronise, which a CPU does not have."""
        self.receive_weights(Folder(**update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: Folder) -> None:
        """Raises BadCheckpoint; if it names the model's tensors the weights are then unknown."""
        given = _checked(Path(update_info.path))
        weights = dict(given)
        if HEAD not in weights and EMBEDDING in weights:
            weights[HEAD] = weights[EMBEDDING]
        parameters = {name for name, _ in self.model.named_parameters()}
        _reload.initialize_layerwise_reload(self.model)
        loaded: set[str] = self.model.load_weights(weights.items())
        _reload.finalize_layerwise_reload(self.model, self.model_config)
        missing = sorted(parameters - loaded)
        if missing:
            raise BadCheckpoint(f"{update_info.path}: {len(missing)} tensors are missing, {missing[0]} the first")
        self._given = given

    def finish_weight_update(self) -> None:
        self._given = {}

    def receipt(self) -> dict[str, str]:
        """Name to digest of each tensor that was given since `start_weight_update` and is in force."""
        digests = {name: digest_of(tensor) for name, tensor in self._given.items()}
        weights = dict(self._given)
        if weights and HEAD not in weights:
            weights[HEAD] = weights[EMBEDDING]
        seed = int.from_bytes("".join(sorted(digests.values())).encode()[:8], "big") >> 1
        with torch.inference_mode():
            wrong = set(not_in_force(self.model, weights, seed, _renaming(self.model)))
        if HEAD in wrong:
            wrong.add(EMBEDDING)
        return {name: digest for name, digest in digests.items() if name not in wrong}

    def shutdown(self) -> None: ...


class ReceiptExtension:
    """What vLLM mixes into its worker (`--worker-extension-cls`), so that `/collective_rpc` reaches the receipt."""

    weight_transfer_engine: FileTransfer

    def weight_receipt(self) -> dict[str, str]:
        return self.weight_transfer_engine.receipt()


def _checked(folder: Path) -> dict[str, Tensor]:
    given = dict(read_tensors(folder))
    for name, tensor in given.items():
        refuse_unless_servable(folder, name, tensor)
    return given


def _renaming(model: Any) -> Any:
    mapper = getattr(model, "hf_to_vllm_mapper", None)
    return str if mapper is None else mapper.get_rename_mapper().map_name
