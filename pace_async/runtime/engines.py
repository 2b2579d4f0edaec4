"""Puts an engine behind the seams: what asks it, what publishes to it, and what brings it back when it has died.

Invariant: whatever an engine served before it died, it serves the newest complete weights, under their version, from
the first token that counts. The embedded engine starts with them. vLLM starts with any, unlabelled, and is pushed to,
with a receipt; and where a push was begun and failed it is killed, because nothing else makes its weights known again.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pace_async.advise.client import HttpEngine, special_token_ids
from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_found import Build, Missing, find_vllm
from pace_async.advise.engines.vllm_managed import VllmHandle, VllmSettings, managed_vllm
from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.publish.base import Publisher, PushFailed, Receipt
from pace_async.publish.file import FilePublisher
from pace_async.runtime.keeper import EngineProcess
from pace_async.runtime.places import Places
from pace_async.runtime.state import RunState

ENGINES = ("embedded", "vllm")


@dataclass(frozen=True, slots=True)
class Served:
    """An engine that is up and serves the newest complete weights."""

    client: HttpEngine
    publisher: Publisher
    process: EngineProcess


def refuse_unless_served(engine: str) -> None:
    """Raises UsageError for an engine that is not there."""
    if engine not in ENGINES:
        raise UsageError(f"--engine {engine}: there is {' and '.join(ENGINES)}.")
    if engine == "vllm":
        _vllm_build()


@asynccontextmanager
async def serving(config: Config, places: Places, given: Path, state: RunState) -> AsyncGenerator[Served]:
    """The engine that the configuration names. `given` is version 0's directory. Raises UsageError,
    InfrastructureFault."""
    opened = _vllm if config.advisor.engine == "vllm" else _embedded
    async with opened(config, places, given, state) as served:
        yield served


@dataclass(frozen=True, slots=True)
class _Embedded:
    handle: EngineHandle
    state: RunState
    given: Path

    async def wait_died(self) -> None:
        await self.handle.wait_died()

    async def restart(self) -> None:
        await self.handle.restart(_newest(self.state, self.given), self.state.learner)


@asynccontextmanager
async def _embedded(config: Config, places: Places, given: Path, state: RunState) -> AsyncGenerator[Served]:
    async with (
        managed_engine(
            _newest(state, given),
            version=state.learner,
            log=places.logs / "engine.log",
            threads=config.advisor.threads,
            start_s=config.advisor.engine_start_s,
        ) as handle,
        _client(config, given, handle.url) as client,
        FilePublisher(handle.url) as publisher,
    ):
        yield Served(client, publisher, _Embedded(handle, state, given))


@dataclass(frozen=True, slots=True)
class _Vllm:
    handle: VllmHandle
    publisher: FilePublisher
    state: RunState
    model: Path

    async def wait_died(self) -> None:
        await self.handle.wait_died()

    async def restart(self) -> None:
        await self.handle.restart(self.model)
        await self.label()

    async def label(self) -> None:
        """Push the newest weights to a server that has just come up. Raises PushFailed."""
        await self.publisher.publish(self.state.learner, _newest(self.state, self.model))


class Killable(Protocol):
    """A server that can be ended at once; whoever keeps it brings it back."""

    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class KillsWhatItLeftUnknown:
    """A `Publisher` that ends the server when a push that had begun failed: its keeper brings it back, with weights
    that are known."""

    publisher: Publisher
    handle: Killable

    async def publish(self, version: int, weights: Path) -> Receipt:
        try:
            return await self.publisher.publish(version, weights)
        except PushFailed as failed:
            if failed.began:
                self.handle.kill()
            raise


@asynccontextmanager
async def _vllm(config: Config, places: Places, given: Path, state: RunState) -> AsyncGenerator[Served]:
    build, chosen = _vllm_build(), config.advisor
    settings = VllmSettings(
        requests=config.search.threads,
        kv_cache_gib=chosen.kv_cache_gib,
        gpu_memory=chosen.gpu_memory,
        threads=chosen.threads,
        arguments=chosen.engine_arguments,
    )
    model = serve_from(given, places.served_model)
    log = places.logs / "engine.log"
    async with (
        managed_vllm(build, model, settings, log=log, start_s=chosen.engine_start_s) as handle,
        _client(config, given, handle.url) as client,
        FilePublisher(handle.url) as publisher,
    ):
        process = _Vllm(handle, publisher, state, model)
        await process.label()
        yield Served(client, KillsWhatItLeftUnknown(publisher, handle), process)


def _vllm_build() -> Build:
    """Raises UsageError where there is none that can serve here."""
    found = find_vllm()
    if isinstance(found, Missing):
        raise UsageError(f"--engine vllm: {found.found}; mend it with `{found.remedy}`.")
    return found


def _newest(state: RunState, given: Path) -> Path:
    return Path(state.weights) if state.weights else given


def _client(config: Config, given: Path, url: str) -> HttpEngine:
    return HttpEngine(url, special_ids=special_token_ids(given), timeout_s=config.advisor.timeout_s)
