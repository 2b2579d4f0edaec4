"""Publishing by LoRA adapter: each version is an adapter of its own, served beside the versions before it.

    load (under the version's name) → receipt → [probe by name] → new requests use it → old adapters unloaded

Invariant: a request finishes on the adapter with which it began, so nothing is paused and no request mixes versions.
New requests use a new version only once it is proven. An old version is unloaded only when no request needs it. A
failed push changes nothing. Version 0 is the base alone, under its number.
Not for engines whose base another program loaded. Does not retry.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Unpack

import anyio

from pace_async.publish.base import PushFailed, PushSettings, Receipt
from pace_async.publish.phases import OneEngine
from pace_async.weights import BASE


class LoadedAdapters:
    """Tracks the adapter for new requests, and how many requests need each adapter."""

    def __init__(self) -> None:
        self.newest = BASE
        self._needed: Counter[str] = Counter()
        self._loaded: list[str] = []

    @contextlib.contextmanager
    def using(self) -> Generator[str]:
        """The name for a request. Its adapter stays loaded inside the context."""
        name = self.newest
        self._needed[name] += 1
        try:
            yield name
        finally:
            self._needed[name] -= 1

    def turn_to(self, name: str) -> None:
        """Make new requests name this adapter."""
        self.newest = name
        if name != BASE:
            self._loaded.append(name)

    def take_idle(self) -> list[str]:
        """Remove and return the names of adapters that no request needs."""
        idle = [name for name in self._loaded if name != self.newest and self._needed[name] == 0]
        self._loaded = [name for name in self._loaded if name not in idle]
        return idle


class AdapterPublisher(OneEngine):
    """A `Publisher` to one engine. The last result of `label` names the loaded adapter that is not yet proven."""

    def __init__(self, base_url: str, adapters: LoadedAdapters, **settings: Unpack[PushSettings]) -> None:
        super().__init__(base_url, **settings)
        self._adapters = adapters

    @property
    def names_adapters(self) -> bool:
        return True

    async def publish(self, version: int, weights: Path) -> Receipt:
        """Load the adapter in `weights`. No request uses it yet. Version 0 has no adapter. Raises PushFailed with the
        kinds of `FilePublisher.publish`, always with `began` false."""
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
        """Send new requests to a proven version, and unload adapters that no request needs."""
        self._adapters.turn_to(name)
        for idle in self._adapters.take_idle():
            await self._unload(idle)

    async def _unload(self, name: str) -> None:
        """Unload an adapter. A restarted server no longer has it, so a failure is ignored."""
        with anyio.CancelScope(shield=True), contextlib.suppress(PushFailed):
            await self._phases.ask("v1/unload_lora_adapter", {"lora_name": name})
