"""vLLM's side of publishing: a weight-transfer engine that issues receipts. It reads a checkpoint directory, fetches
one, receives its tensors or opens the learner's memory.

Invariant: the model changes only after the whole version has arrived and every number is finite. A receipt names only
tensors that the model was shown to compute with.
Runs inside vLLM's workers. One update is one directory. It is announced before the pause, to keep the pause short. On a
CPU the pause contains only the swap (`vllm_staged_weights`). On other devices it contains only the loading: reading or
receiving (`vllm_nccl`) and digesting come before. Memory of the learner (`shared`) is open until `close_memory`. If the
model is divided among ranks (tensor parallel), each rank reads the whole version, and its receipt states the slices
that it holds.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from pace_async.advise.engines.fetched import fetched
from pace_async.advise.engines.load import BadCheckpoint, digested, read_tensors
from pace_async.advise.engines.shared import OpenedVersion
from pace_async.advise.engines.vllm_lora_proof import not_in_slot
from pace_async.advise.engines.vllm_reload import FromMemory, Reloaded, ends_of, renaming_of, seed_of
from pace_async.advise.engines.vllm_staged_weights import Memory, plan_layers, stage
from pace_async.slices import Slice, in_receipt
from pace_async.transfer import Offer, SharedBuffer, Transfer

_base = cast("Any", import_module("vllm.distributed.weight_transfer.base"))
_layerwise = cast("Any", import_module("vllm.model_executor.model_loader.reload.layerwise"))
_attention = cast("Any", import_module("vllm.model_executor.layers.attention"))
_embedding = cast("Any", import_module("vllm.model_executor.layers.vocab_parallel_embedding"))
_linear = cast("Any", import_module("vllm.model_executor.layers.linear"))
_Engine = cast("type[Any]", _base.WeightTransferEngine)


_SLICE_S = 0.03
"""Seconds that each poll of the publisher takes from generation to prepare the next version."""


@dataclass
class Announced:
    """`path`: directory of the next update. `transfer`: fields of the `Transfer` by which the learner sends the
    tensors. `fetch`: fields of the `Offer` by which they are fetched. `shared`: `SharedBuffer.to_json` of the learner's
    memory that has them. Without any they are read from `path`."""

    path: str
    transfer: Mapping[str, Any] | None = None
    fetch: Mapping[str, Any] | None = None
    shared: Mapping[str, Any] | None = None


@dataclass
class Folder:
    """`path`: a checkpoint directory, as this process sees it."""

    path: str


class PreparedVersion(Protocol):
    """A version that has been read. `digests` by tensor name."""

    @property
    def digests(self) -> Mapping[str, str]: ...

    def advance(self, seconds: float) -> bool:
        """Prepare for about `seconds`, in the generating thread. True once nothing is left. Raises BadCheckpoint."""
        ...

    def put_in_force(self) -> None:
        """Make the model compute with this version. Called under a pause. Raises BadCheckpoint, after which the weights
        are unknown."""
        ...

    def in_force(self) -> Mapping[str, Sequence[Slice]]:
        """By name, the slices of each tensor with which this rank of the model computes. No slices: the whole tensor.
        Other tensors are left out."""
        ...

    def forget(self) -> None:
        """Free memory that only the version before needed."""
        ...


class FileTransfer(_Engine):
    """vLLM makes one in each worker (`--weight-transfer-config`) and calls it under a pause."""

    init_info_cls = Announced
    update_info_cls = Folder

    def __init__(self, *arguments: Any) -> None:
        base: Any = super()
        base.__init__(*arguments)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="pace-checkpoint")
        self._reading: tuple[str, Future[PreparedVersion]] | None = None
        self._given: PreparedVersion | None = None
        self._served: PreparedVersion | None = None
        self._spare = Memory()
        self._opened: OpenedVersion | None = None

    def init_transfer_engine(self, init_info: Announced) -> None:
        """Begin to read, receive or fetch the announced version. Generation goes on. Raises BadCheckpoint if the
        learner's memory cannot be opened."""
        if self._served is not None:
            self._served.forget()
        if self._reading is not None:
            self._reading[1].cancel()  # an older version that has not begun
        if init_info.transfer is not None:
            reading = self._receive(Path(init_info.path), Transfer(**init_info.transfer))
        elif init_info.fetch is not None:
            reading = self._reader.submit(self._fetch, Offer(**init_info.fetch))
        elif init_info.shared is not None:
            self.close_memory()
            self._opened = OpenedVersion(SharedBuffer.from_json(init_info.shared))
            reading = self._reader.submit(self._from_memory, Path(init_info.path), self._opened)
        else:
            reading = self._reader.submit(self._prepare, Path(init_info.path))
        self._reading = init_info.path, reading

    def prepared(self) -> dict[str, str] | None:
        """Digest of each tensor of the announced directory, by name. None until it is prepared. Raises
        BadCheckpoint."""
        if self._reading is None:
            raise BadCheckpoint("no weights were announced")
        if not self._reading[1].done():
            return None
        version = self._reading[1].result()
        return dict(version.digests) if version.advance(_SLICE_S) else None

    def start_weight_update(self) -> None:
        self._given = None

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        """Overrides a method that synchronises an accelerator, which a CPU does not have."""
        self.receive_weights(Folder(**update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: Folder) -> None:
        """Load the announced version. Raises BadCheckpoint. If loading had begun, the weights are unknown after it."""
        announced, reading = self._reading or ("", None)
        if reading is None or announced != update_info.path:
            reading = self._reader.submit(self._prepare, Path(update_info.path))
        version = reading.result()
        self._reading = None
        version.put_in_force()
        self._given = version

    def finish_weight_update(self) -> None:
        self._served, self._given = self._given, None

    def receipt(self) -> dict[str, str]:
        """Entries of a receipt (`slices`), by name, for the tensors loaded since `start_weight_update` with which the
        model computes."""
        if self._given is None:
            return {}
        digests = self._given.digests
        return {name: in_receipt(digests[name], slices) for name, slices in self._given.in_force().items()}

    def close_memory(self) -> bool:
        """Let go of the learner's memory, whatever became of the version. True if there was any and nothing here refers
        to it any more."""
        opened, self._opened = self._opened, None
        if opened is None:
            return False
        for version in (self._given, self._served):
            if version is not None:
                version.forget()
        self._reading = None
        return opened.close()

    def shutdown(self) -> None:
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _prepare(self, folder: Path) -> PreparedVersion:
        if self.device.type == "cpu" and self.parallel_config.world_size == 1:
            plans = plan_layers(self.model, folder, renaming_of(self.model), _shapes, _is_plain, ends_of(self.model))
            if plans is not None:
                return stage(plans, self._spare, seed_of(folder.name), self._settle_attention)
        return Reloaded(self.model, self.model_config, folder, dict(read_tensors(folder)))

    def _fetch(self, offer: Offer) -> PreparedVersion:
        return self._prepare(fetched(offer))

    def _from_memory(self, folder: Path, opened: OpenedVersion) -> PreparedVersion:
        return FromMemory(self.model, self.model_config, folder, opened, self.device)

    def _receive(self, folder: Path, transfer: Transfer) -> Future[PreparedVersion]:
        from pace_async.advise.engines.vllm_nccl import Receiver, beside

        def work() -> PreparedVersion:
            receiver = Receiver(self.config, self.vllm_config, self.device)
            return Reloaded(self.model, self.model_config, folder, receiver.receive(transfer))

        return beside(work)

    def _settle_attention(self) -> None:
        """Attention layers may keep values derived from other weights. vLLM does the same after each reload."""
        for layer in self.model.modules():
            if _attention.is_deferred_attention_layer(layer):
                layer.process_weights_after_loading(self.model_config.dtype)


class ReceiptExtension:
    """Mixed into vLLM's worker (`--worker-extension-cls`), so that `/collective_rpc` reaches the receipt."""

    weight_transfer_engine: FileTransfer

    def weights_prepared(self) -> dict[str, str] | None:
        return self.weight_transfer_engine.prepared()

    def serves_on(self) -> str:
        """Type of the model's device, such as cuda."""
        return cast("Any", self).device.type

    def weight_receipt(self) -> dict[str, str]:
        return self.weight_transfer_engine.receipt()

    def memory_closed(self) -> dict[str, bool]:
        """In a mapping, because of other values vLLM answers with their text."""
        return {"closed": self.weight_transfer_engine.close_memory()}

    def adapter_receipt(self, path: str) -> dict[str, str]:
        """Digests, by name, of those tensors of the adapter in `path` with which the last loaded adapter computes."""
        manager: Any = cast("Any", self).model_runner.lora_manager._adapter_manager
        tensors = dict(read_tensors(Path(path)))
        digests = digested(Path(path), tensors)
        with torch.inference_mode():
            wrong = set(not_in_slot(manager, max(manager.list_adapters()), tensors, Path(path)))
        return {name: digest for name, digest in digests.items() if name not in wrong}


def _is_plain(layer: Any) -> bool:
    """Whether the layer only multiplies with its weight, in place or in a kernel."""
    method = getattr(layer, "quant_method", None)
    if method is not None:
        return type(method) in (_linear.UnquantizedLinearMethod, _embedding.UnquantizedEmbeddingMethod)
    return not hasattr(layer, "process_weights_after_loading") or _attention.is_deferred_attention_layer(layer)


def _shapes(layer: Any) -> Mapping[str, tuple[int, ...]]:
    """Shapes of a layer's parameters before packing. vLLM keeps them for its own reloading."""
    return {name: meta.shape for name, meta in _layerwise.get_layerwise_info(layer).restore_metadata[0].items()}
