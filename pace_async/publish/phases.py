"""Steps of every push over HTTP: check the checkpoint, send requests with a deadline, compare the receipt.

Invariant: every failure is a PushFailed that tells whether the transfer had begun (`began`, which the publisher sets).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import anyio
import anyio.to_thread
import httpx
import numpy as np
from pydantic import BaseModel, ValidationError

from pace_async.model_folder import weight_files
from pace_async.publish.base import PushFailed, PushSettings
from pace_async.slices import Slice, covered, from_receipt
from pace_async.transfer import Table
from pace_async.weights import checkpoint_digests, contents, damage, is_complete, recorded_digests

_EXPONENT: dict[str, tuple[str, int]] = {
    "F64": ("<u8", 0x7FF0000000000000),
    "F32": ("<u4", 0x7F800000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
}

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""torch's names of the types."""

_WORDS = 1 << 16
"""Words checked together: they fit in the processor cache."""


def is_finite(dtype: str, data: bytes) -> bool:
    """Whether a tensor's raw bytes contain finite numbers only. `dtype` is safetensors' name of the type."""
    word, exponent = _EXPONENT.get(dtype, ("", 0))
    if not word:
        return True
    numbers = np.frombuffer(data, dtype=word)
    buffer = np.empty(_WORDS, dtype=word)
    for start in range(0, len(numbers), _WORDS):
        part = numbers[start : start + _WORDS]
        if np.bitwise_and(part, exponent, out=buffer[: len(part)]).max() == exponent:
            return False
    return True


SECONDS_A_GB = 20.0
"""Added to the deadline of each phase for every GB of a version. A slow disk or network reads a GB in 10 s."""

_LOOK_S = 0.02
"""Poll interval while a worker reads. Workers send no notification."""
_EARLY = 0.5
"""Time of the first poll, as a share of the shortest reading so far. Each poll costs generation time."""


class _Digests(BaseModel):
    """Digests by tensor name, one mapping for each of the engine's workers. None if a worker is not done."""

    results: list[dict[str, str] | None]


class Phases:
    """Requests to one engine. `phase_s` is the deadline of each, in seconds, for a version of no size. `seconds` is the
    deadline for the version that was last called complete. `transport` is httpx's, for an engine that is not behind a
    socket."""

    def __init__(self, base_url: str, *, phase_s: float, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.began = False
        self._folder = Path()
        self._phase_s = phase_s
        self.seconds = phase_s
        self._least_s = 0.0
        secure = base_url.startswith("https:")  # making a TLS context takes a tenth of a second
        self._http = httpx.AsyncClient(
            base_url=base_url, timeout=None, trust_env=False, verify=secure, transport=transport
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    def complete(self, weights: Path) -> Path:
        """The absolute path of a completely written checkpoint. Raises PushFailed."""
        if not is_complete(weights):
            raise PushFailed("incomplete_checkpoint", f"{weights} was not written to its end", self.began)
        size = sum(file.stat().st_size for file in weight_files(weights))
        self.seconds = self._phase_s + SECONDS_A_GB * size / 1e9
        self._folder = weights.resolve()
        return self._folder

    def table(self, folder: Path) -> Table:
        """The tensors of a checkpoint as the learner has to give them. Raises PushFailed."""
        try:
            tensors = contents(folder)
            types = [_TYPES[tensor.dtype] for tensor in tensors]
        except (OSError, ValueError, KeyError) as error:
            detail = f"{folder} cannot be sent: {error}"
            raise PushFailed("incomplete_checkpoint", detail, self.began) from error
        return Table([tensor.name for tensor in tensors], types, [list(tensor.shape) for tensor in tensors])

    async def digests(self, weights: Path) -> dict[str, str]:
        """Digest of each tensor of a checkpoint, by name: as its writer recorded them, or read here and checked. Raises
        PushFailed."""
        recorded = recorded_digests(weights)
        if recorded:
            return recorded
        return await anyio.to_thread.run_sync(self._digests, weights)

    async def ask(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """POST. Raises PushFailed of kind push_refused, push_timeout or push_unreachable."""
        name = path.partition("?")[0]
        try:
            with anyio.fail_after(self.seconds):
                response = await self._http.post(f"/{path}", json=body)
        except TimeoutError:
            raise PushFailed("push_timeout", f"{name}: no answer in {self.seconds:g} s", self.began) from None
        except httpx.HTTPError as error:
            detail = f"{name}: {str(error) or type(error).__name__}"
            raise PushFailed("push_unreachable", detail, self.began) from error
        if response.status_code >= 400:
            raise PushFailed("push_refused", f"{name}: {response.status_code} {response.text[:300]}", self.began)
        return response.content

    async def wait_prepared(self, digests: Mapping[str, str]) -> None:
        """Wait until the receiving side has read the announced checkpoint and needs a pause for the rest. Raises
        PushFailed, of kind receipt_differs if it read something else."""
        began = anyio.current_time()
        with anyio.move_on_after(self.seconds):
            await anyio.sleep(_EARLY * self._least_s)
            while True:
                answer = await self.ask("collective_rpc", {"method": "weights_prepared"})
                workers = _workers(answer)
                if None not in workers:
                    self._refuse(_difference(workers, digests))
                    took = anyio.current_time() - began
                    self._least_s = min(took, self._least_s or took)
                    return
                await anyio.sleep(_LOOK_S)
        detail = f"weights_prepared: the engine has not read the checkpoint in {self.seconds:g} s"
        raise PushFailed("push_timeout", detail, self.began)

    async def refuse_unless_received(self, rpc: Mapping[str, Any], digests: Mapping[str, str]) -> None:
        """Get the receipt of each worker and compare it. The slices of all workers must cover every tensor of the
        version that was last called complete. Raises PushFailed, of kind receipt_differs if it differs."""
        receipts = [receipt or {} for receipt in _workers(await self.ask("collective_rpc", rpc))]
        entries = [{name: from_receipt(entry) for name, entry in receipt.items()} for receipt in receipts]
        self._refuse(
            _difference(
                [{name: entry[0] for name, entry in worker_entries.items()} for worker_entries in entries], digests
            )
        )
        parts: dict[str, list[Slice]] = {}
        for name, (_, slices) in (entry for worker_entries in entries for entry in worker_entries.items()):
            if slices is not None:
                parts.setdefault(name, []).extend(slices)
        self._refuse(self._gap(parts) if parts else None)

    def _gap(self, parts: Mapping[str, Sequence[Slice]]) -> str | None:
        """Which tensors the slices do not cover, in words. None if they cover all. Only slices count: ranks that divide
        a tensor divide it among all of them."""
        shapes = {tensor.name: tensor.shape for tensor in contents(self._folder)}
        missing = sorted(name for name, slices in parts.items() if not covered(shapes[name], slices))
        if not missing:
            return None
        return f"the engine's ranks hold only parts of {len(missing)} tensors, {missing[0]} the first"

    def _refuse(self, difference: str | None) -> None:
        if difference is not None:
            raise PushFailed("receipt_differs", difference, self.began)

    def _digests(self, weights: Path) -> dict[str, str]:
        def refuse_unless_finite(name: str, dtype: str, data: bytes) -> None:
            if not is_finite(dtype, data):
                raise PushFailed("not_finite", f"{weights}: {name} holds NaN or an infinity", self.began)

        try:
            digests = checkpoint_digests(weights, refuse_unless_finite)
        except (OSError, ValueError) as error:
            raise PushFailed("incomplete_checkpoint", f"{weights} cannot be read: {error}", self.began) from error
        if not digests:
            raise PushFailed("incomplete_checkpoint", f"{weights} holds no tensors", self.began)
        if (wrong := damage(weights, digests)) is not None:
            raise PushFailed("damaged_checkpoint", wrong, self.began)
        return digests


class OneEngine:
    """The connection of a publisher to its engine. Use it as an async context manager, or call `aclose`."""

    def __init__(self, base_url: str, **settings: Unpack[PushSettings]) -> None:
        self._label = settings.get("label", str)
        phase_s, transport = settings.get("phase_s", 60.0), settings.get("transport")
        self._phases = Phases(base_url, phase_s=phase_s, transport=transport)
        self._one = anyio.Lock()

    async def aclose(self) -> None:
        await self._phases.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


def _workers(answer: bytes) -> list[dict[str, str] | None]:
    """The result of each worker. Empty if the engine's answer has another form."""
    try:
        return _Digests.model_validate_json(answer).results
    except ValidationError:
        return []


def _difference(workers: Sequence[dict[str, str] | None], digests: Mapping[str, str]) -> str | None:
    """The first difference from the engine's receipt, or None if every worker's digests equal the checkpoint's."""
    if not workers:
        return "the engine gave no receipt"
    for worker in workers:
        had = worker or {}
        wrong = sorted(name for name in digests.keys() | had.keys() if digests.get(name) != had.get(name))
        if wrong:
            return f"{len(wrong)} of {len(digests)} tensors are not what was sent, {wrong[0]} the first"
    return None
