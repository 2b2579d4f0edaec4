"""Publishing by LoRA adapter: each version is an adapter of its own, served beside the last ones.

    load (under the version's name) → receipt → [the probe asks it by name] → new requests name it → old ones unloaded

Invariant: a request finishes on the adapter that it began with, so nothing is paused and no tail changes hands; a new
version is named by new requests only once it is proven; an old one is unloaded only when no request needs it. A push
that fails leaves everything as it was. Version 0 is the base alone, under its number. Not for engines whose base
somebody else loaded. Does not retry.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import anyio
import httpx

from pace_async.publish.base import PushFailed, Receipt
from pace_async.publish.phases import Phases
from pace_async.weights import BASE


class Adapters:
    """Which adapter a new request names, and how many requests need each."""

    def __init__(self) -> None:
        self.newest = BASE
        self._needed: Counter[str] = Counter()
        self._loaded: list[str] = []

    @contextlib.contextmanager
    def using(self) -> Generator[str]:
        """The name to ask for; it stays loaded meanwhile."""
        name = self.newest
        self._needed[name] += 1
        try:
            yield name
        finally:
            self._needed[name] -= 1

    def turn_to(self, name: str) -> None:
        """From now on requests name this one."""
        self.newest = name
        if name != BASE:
            self._loaded.append(name)

    def take_idle(self) -> list[str]:
        """Names that nobody needs any more; they are forgotten here."""
        idle = [name for name in self._loaded if name != self.newest and self._needed[name] == 0]
        self._loaded = [name for name in self._loaded if name not in idle]
        return idle


class AdapterPublisher:
    """A `Publisher` to one engine. Arguments as of `FilePublisher`; what it has loaded and not yet proven is `label`'s
    last answer. An async context manager, or call `aclose`."""

    def __init__(
        self,
        base_url: str,
        adapters: Adapters,
        *,
        phase_s: float = 60.0,
        label: Callable[[int], str] = str,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._adapters = adapters
        self._label = label
        self._phases = Phases(base_url, phase_s=phase_s, transport=transport)
        self._one = anyio.Lock()

    async def publish(self, version: int, weights: Path) -> Receipt:
        """Load the adapter in `weights`; nobody is sent to it yet. Version 0 has none. Raises PushFailed, of the kinds
        of `FilePublisher.publish`, always with `began` false."""
        async with self._one:
            started = time.monotonic()
            if version == 0:
                return Receipt(0, {}, 0.0, 0.0)
            folder = self._phases.complete(weights)
            digests = await self._phases.digests(folder)
            name = self._label(version)
            await self._phases.ask("v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
            try:
                rpc = {"method": "adapter_receipt", "args": [str(folder)]}
                await self._phases.refuse_unless_received(rpc, digests)
            except BaseException:
                await self._unload(name)
                raise
            return Receipt(version, digests, time.monotonic() - started, 0.0)

    async def turn_to(self, name: str) -> None:
        """Send new requests to a version that is proven, and unload those that nobody needs any more."""
        self._adapters.turn_to(name)
        for idle in self._adapters.take_idle():
            await self._unload(idle)

    async def aclose(self) -> None:
        await self._phases.aclose()

    async def __aenter__(self) -> "AdapterPublisher":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _unload(self, name: str) -> None:
        """A server that was started anew does not have it."""
        with anyio.CancelScope(shield=True), contextlib.suppress(PushFailed):
            await self._phases.ask("v1/unload_lora_adapter", {"lora_name": name})
