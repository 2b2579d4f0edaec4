"""vLLM's side of publishing: a weight-transfer engine that takes in a checkpoint directory, or what the learner sends
of it, and its receipt.

Invariant: nothing of the model is touched until the version is wholly here and every number is finite; a receipt is
given only for tensors that the model was found to compute with. Runs inside vLLM's workers. One update is one
directory, announced beforehand, so that nothing is done in the pause that can be done before it: on a CPU all but the
exchange (`vllm_twins`), elsewhere reading or receiving (`vllm_nccl`), and digesting. Not for models that are split over
devices.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from pace_async.advise.engines.load import BadCheckpoint, digest_of, read_tensors, refuse_unless_servable
from pace_async.advise.engines.vllm_lora_proof import not_in_slot
from pace_async.advise.engines.vllm_reload import Reloaded, ends_of, renaming_of, seed_of
from pace_async.advise.engines.vllm_twins import Memory, plan, stage
from pace_async.transfer import Transfer

_base = cast("Any", import_module("vllm.distributed.weight_transfer.base"))
_layerwise = cast("Any", import_module("vllm.model_executor.model_loader.reload.layerwise"))
_attention = cast("Any", import_module("vllm.model_executor.layers.attention"))
_embedding = cast("Any", import_module("vllm.model_executor.layers.vocab_parallel_embedding"))
_linear = cast("Any", import_module("vllm.model_executor.layers.linear"))
_Engine = cast("type[Any]", _base.WeightTransferEngine)


_SLICE_S = 0.03
"""Taken from generation at each look of the publisher whether all is prepared."""


@dataclass
class Announced:
    """`path`: the directory that the next update will name. `transfer`: the fields of a `Transfer` by which the learner
    sends its tensors; else they are read."""

    path: str
    transfer: Mapping[str, Any] | None = None


@dataclass
class Folder:
    """`path`: a checkpoint directory, as this process sees it."""

    path: str


class Prepared(Protocol):
    """A version that has been read. `digests` by name of its tensors."""

    @property
    def digests(self) -> Mapping[str, str]: ...

    def advance(self, seconds: float) -> bool:
        """Prepare for about so long, in the thread that generates; whether nothing is left. Raises BadCheckpoint."""
        ...

    def put_in_force(self) -> None:
        """Under a pause. Raises BadCheckpoint; the weights are then unknown."""
        ...

    def not_in_force(self) -> set[str]:
        """Names of the tensors that the model does not compute with."""
        ...

    def forget(self) -> None:
        """Let go of what the version before needed."""
        ...


class FileTransfer(_Engine):
    """vLLM makes one for each worker, names it in `--weight-transfer-config`, and calls it under a pause."""

    init_info_cls = Announced
    update_info_cls = Folder

    def __init__(self, *arguments: Any) -> None:
        base: Any = super()
        base.__init__(*arguments)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="pace-checkpoint")
        self._reading: tuple[str, Future[Prepared]] | None = None
        self._given: Prepared | None = None
        self._served: Prepared | None = None
        self._spare = Memory()

    def init_transfer_engine(self, init_info: Announced) -> None:
        """Begin to read, or to receive; generation goes on."""
        if self._served is not None:
            self._served.forget()
        if init_info.transfer is None:
            reading = self._reader.submit(self._prepare, Path(init_info.path))
        else:
            reading = self._receive(Path(init_info.path), Transfer(**init_info.transfer))
        self._reading = init_info.path, reading

    def prepared(self) -> dict[str, str] | None:
        """Name to digest of each tensor of the announced directory; None while it is being read. Raises
        BadCheckpoint."""
        if self._reading is None:
            raise BadCheckpoint("no weights were announced")
        if not self._reading[1].done():
            return None
        given = self._reading[1].result()
        return dict(given.digests) if given.advance(_SLICE_S) else None

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
            reading = self._reader.submit(self._prepare, Path(update_info.path))
        given = reading.result()
        self._reading = None
        given.put_in_force()
        self._given = given

    def finish_weight_update(self) -> None:
        self._served, self._given = self._given, None

    def receipt(self) -> dict[str, str]:
        """Name to digest of each tensor that was given since `start_weight_update` and is in force."""
        if self._given is None:
            return {}
        wrong = self._given.not_in_force()
        return {name: digest for name, digest in self._given.digests.items() if name not in wrong}

    def shutdown(self) -> None:
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _prepare(self, folder: Path) -> Prepared:
        if self.device.type == "cpu":
            rooms = plan(self.model, folder, renaming_of(self.model), _shapes, _is_plain, ends_of(self.model))
            if rooms is not None:
                return stage(rooms, self._spare, seed_of(folder.name), self._settle_attention)
        return Reloaded(self.model, self.model_config, folder, dict(read_tensors(folder)))

    def _receive(self, folder: Path, transfer: Transfer) -> Future[Prepared]:
        from pace_async.advise.engines.vllm_nccl import Receiver, beside

        def work() -> Prepared:
            receiver = Receiver(self.config, self.vllm_config, self.device)
            return Reloaded(self.model, self.model_config, folder, receiver.receive(transfer))

        return beside(work)

    def _settle_attention(self) -> None:
        """What vLLM does at the end of each reload: attention may keep something that is made of other weights."""
        for layer in self.model.modules():
            if _attention.is_deferred_attention_layer(layer):
                layer.process_weights_after_loading(self.model_config.dtype)


class ReceiptExtension:
    """What vLLM mixes into its worker (`--worker-extension-cls`), so that `/collective_rpc` reaches the receipt."""

    weight_transfer_engine: FileTransfer

    def weights_prepared(self) -> dict[str, str] | None:
        return self.weight_transfer_engine.prepared()

    def serves_on(self) -> str:
        """The kind of device that the model is on, such as cuda."""
        return cast("Any", self).device.type

    def weight_receipt(self) -> dict[str, str]:
        return self.weight_transfer_engine.receipt()

    def adapter_receipt(self, path: str) -> dict[str, str]:
        """Name to digest of each tensor of the adapter in directory `path` that stands where the adapter loaded last
        computes."""
        manager: Any = cast("Any", self).model_runner.lora_manager._adapter_manager
        given = dict(read_tensors(Path(path)))
        for name, tensor in given.items():
            refuse_unless_servable(Path(path), name, tensor)
        with torch.inference_mode():
            wrong = set(not_in_slot(manager, max(manager.list_adapters()), given, Path(path)))
        return {name: digest_of(tensor) for name, tensor in given.items() if name not in wrong}


def _is_plain(layer: Any) -> bool:
    """Whether nothing but multiplication is made of a layer's weight, where it stands or in a kernel."""
    method = getattr(layer, "quant_method", None)
    if method is not None:
        return type(method) in (_linear.UnquantizedLinearMethod, _embedding.UnquantizedEmbeddingMethod)
    return not hasattr(layer, "process_weights_after_loading") or _attention.is_deferred_attention_layer(layer)


def _shapes(layer: Any) -> Mapping[str, tuple[int, ...]]:
    """Of a layer's parameters, as a checkpoint fills them: vLLM keeps them for its own reloading."""
    return {name: meta.shape for name, meta in _layerwise.get_layerwise_info(layer).restore_metadata[0].items()}
