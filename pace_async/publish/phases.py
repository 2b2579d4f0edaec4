"""What every push over HTTP is made of: a checkpoint that may be published, requests with a deadline, a receipt.

Invariant: whatever fails is a PushFailed that says whether the transfer had begun (`began`, which the publisher sets).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
from pydantic import BaseModel, ValidationError

from pace_async.publish.base import PushFailed
from pace_async.publish.finite import is_finite
from pace_async.weights import checkpoint_digests, is_complete


class _Digests(BaseModel):
    """Tensor name to digest, one mapping for each of the engine's workers."""

    results: list[dict[str, str]]


class Phases:
    """Requests to one engine. `phase_s` is the deadline of each, in seconds; `transport` is httpx's, for an engine that
    is not behind a socket."""

    def __init__(self, base_url: str, *, phase_s: float, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.began = False
        self._phase_s = phase_s
        secure = base_url.startswith("https:")  # a context for it takes a tenth of a second to make
        self._http = httpx.AsyncClient(
            base_url=base_url, timeout=None, trust_env=False, verify=secure, transport=transport
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    def complete(self, weights: Path) -> Path:
        """The absolute path of a checkpoint that was written to its end. Raises PushFailed."""
        if not is_complete(weights):
            raise PushFailed("incomplete_checkpoint", f"{weights} was not written to its end", self.began)
        return weights.resolve()

    async def digests(self, weights: Path) -> dict[str, str]:
        """Digest by name of each tensor of a checkpoint that may be published. Raises PushFailed."""
        return await anyio.to_thread.run_sync(self._digests, weights)

    async def ask(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """POST. Raises PushFailed of kind push_refused, push_timeout or push_unreachable."""
        name = path.partition("?")[0]
        try:
            with anyio.fail_after(self._phase_s):
                response = await self._http.post(f"/{path}", json=body)
        except TimeoutError:
            raise PushFailed("push_timeout", f"{name}: no answer in {self._phase_s:g} s", self.began) from None
        except httpx.HTTPError as error:
            detail = f"{name}: {str(error) or type(error).__name__}"
            raise PushFailed("push_unreachable", detail, self.began) from error
        if response.status_code >= 400:
            raise PushFailed("push_refused", f"{name}: {response.status_code} {response.text[:300]}", self.began)
        return response.content

    async def refuse_unless_received(self, rpc: Mapping[str, Any], digests: Mapping[str, str]) -> None:
        """Ask the receiving side's own method for its receipt. Raises PushFailed, of kind receipt_differs too."""
        difference = _difference(await self.ask("collective_rpc", rpc), digests)
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
        return digests


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
