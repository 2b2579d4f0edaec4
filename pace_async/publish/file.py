"""Publishing by file: the engine is told a checkpoint directory, and proves what it loaded.

    init (announce) → pause → start → update → receipt → finish (label) → resume

Invariant: a version is labelled and served only after the engine's digest of every tensor equals the file's. Before
`start` is sent a failure leaves the old version served; from then on, until some push has succeeded, the engine's
weights count as unknown and it stays paused, whatever failed. Speaks vLLM 0.32's weight-update paths; `collective_rpc`
asks the receiving side's own method `weight_receipt` for the digests. Engine and publisher must see the same file
system. Does not retry.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
from pydantic import BaseModel, ValidationError

from pace_async.publish.base import PushFailed, Receipt
from pace_async.publish.finite import is_finite
from pace_async.weights import checkpoint_digests, is_complete

_RESUME_S = 10.0


class _Digests(BaseModel):
    """Tensor name to digest, one mapping for each of the engine's workers."""

    results: list[dict[str, str]]


class FilePublisher:
    """A `Publisher` to one engine. `phase_s` is the deadline of each phase, in seconds; `label` is asked once in each
    push for what the engine is to call the version; `transport` is httpx's, for an engine that is not behind a socket.
    Pushes do not overlap. An async context manager, or call `aclose`."""

    def __init__(
        self,
        base_url: str,
        *,
        phase_s: float = 60.0,
        label: Callable[[int], str] = str,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._phase_s = phase_s
        self._label = label
        secure = base_url.startswith("https:")  # a context for it takes a tenth of a second to make
        self._http = httpx.AsyncClient(
            base_url=base_url, timeout=None, trust_env=False, verify=secure, transport=transport
        )
        self._one = anyio.Lock()
        self._began = False

    async def publish(self, version: int, weights: Path) -> Receipt:
        """Make the engine serve `weights` as `version`. Raises PushFailed of kind incomplete_checkpoint, not_finite,
        push_refused, push_timeout, push_unreachable or receipt_differs."""
        async with self._one:
            started = time.monotonic()
            folder = self._complete(weights)
            await self._phase("init_weight_transfer_engine", {"init_info": {"path": str(folder)}})
            digests = await anyio.to_thread.run_sync(self._digests, folder)
            paused = time.monotonic()
            await self._pause()
            self._began = True
            await self._transfer(version, folder, digests)
            await self._phase("resume")
            self._began = False
            now = time.monotonic()
            return Receipt(version, digests, now - started, now - paused)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> "FilePublisher":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def _complete(self, weights: Path) -> Path:
        """The absolute path of a checkpoint that was written to its end."""
        if not is_complete(weights):
            raise PushFailed("incomplete_checkpoint", f"{weights} was not written to its end", self._began)
        return weights.resolve()

    def _digests(self, weights: Path) -> dict[str, str]:
        """The digests of a checkpoint that may be published."""

        def refuse_unless_finite(name: str, dtype: str, data: bytes) -> None:
            if not is_finite(dtype, data):
                raise PushFailed("not_finite", f"{weights}: {name} holds NaN or an infinity", self._began)

        try:
            digests = checkpoint_digests(weights, refuse_unless_finite)
        except (OSError, ValueError) as error:
            raise PushFailed("incomplete_checkpoint", f"{weights} cannot be read: {error}", self._began) from error
        if not digests:
            raise PushFailed("incomplete_checkpoint", f"{weights} holds no tensors", self._began)
        return digests

    async def _pause(self) -> None:
        try:
            await self._phase("pause?mode=keep&clear_cache=true")
        except BaseException:
            if not self._began:  # the engine may have been paused although its answer was lost
                with anyio.move_on_after(_RESUME_S, shield=True), contextlib.suppress(PushFailed):
                    await self._phase("resume")
            raise

    async def _transfer(self, version: int, folder: Path, digests: Mapping[str, str]) -> None:
        await self._phase("start_weight_update")
        await self._phase("update_weights", {"update_info": {"path": str(folder)}})
        answer = await self._phase("collective_rpc", {"method": "weight_receipt"})
        difference = _difference(answer, digests)
        if difference is not None:
            raise PushFailed("receipt_differs", difference, self._began)
        await self._phase("finish_weight_update", {"weight_version": self._label(version)})

    async def _phase(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        name = path.partition("?")[0]
        try:
            with anyio.fail_after(self._phase_s):
                response = await self._http.post(f"/{path}", json=body)
        except TimeoutError:
            raise PushFailed("push_timeout", f"{name}: no answer in {self._phase_s:g} s", self._began) from None
        except httpx.HTTPError as error:
            detail = f"{name}: {error or type(error).__name__}"
            raise PushFailed("push_unreachable", detail, self._began) from error
        if response.status_code >= 400:
            raise PushFailed("push_refused", f"{name}: {response.status_code} {response.text[:300]}", self._began)
        return response.content


def _difference(answer: bytes, digests: Mapping[str, str]) -> str | None:
    """What is wrong with the engine's receipt, or None where every worker's digests are the checkpoint's."""
    try:
        workers = _Digests.model_validate_json(answer).results
    except ValidationError:
        workers = []
    if not workers:
        return "the engine gave no receipt"
    for worker in workers:
        wrong = sorted(name for name in digests.keys() | worker.keys() if digests.get(name) != worker.get(name))
        if wrong:
            return f"{len(wrong)} of {len(digests)} tensors are not what was sent, {wrong[0]} the first"
    return None
