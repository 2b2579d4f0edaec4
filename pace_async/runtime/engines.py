"""Puts an engine behind the seams: what asks it, what publishes to it, and what brings it back when it has died.

Invariant: whatever an engine served before it died, it serves the newest complete weights, under their version, from
the first token that counts. The embedded engine starts with them. vLLM starts with any, unlabelled, and is pushed to,
with a receipt; and where a push was begun and failed it is killed, because nothing else makes its weights known again.
Servers by URL are pushed to until a push succeeds: nobody here can restart them.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio

from pace_async.advise.base import Engine
from pace_async.advise.client import special_token_ids
from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_found import Build, Missing, find_vllm
from pace_async.advise.engines.vllm_managed import AdapterSlots, VllmHandle, VllmSettings, managed_vllm
from pace_async.config import Config
from pace_async.errors import GaveUp, InfrastructureFault, UsageError
from pace_async.publish.base import Publisher, PushFailed, Receipt
from pace_async.publish.nccl import Sender
from pace_async.runtime.cards import cards_of
from pace_async.runtime.external import is_external, urls_of
from pace_async.runtime.fleet import Fleet, Manners, fleet_of
from pace_async.runtime.keeper import EngineProcess
from pace_async.runtime.places import Places
from pace_async.runtime.replica import Probing, Replica
from pace_async.runtime.state import RunState

ENGINES = ("embedded", "vllm")


@dataclass(frozen=True, slots=True)
class Served:
    """An engine that is up and serves the newest complete weights."""

    client: Engine
    publisher: Publisher
    process: EngineProcess


def refuse_unless_served(engine: str) -> None:
    """Raises UsageError for an engine that is not there; servers by URL are not asked."""
    if is_external(engine):
        urls_of(engine)
        return
    if engine not in ENGINES:
        raise UsageError(f"--engine {engine}: there is {', '.join(ENGINES)} and http://HOST:PORT.")
    if engine == "vllm":
        _vllm_build()


@asynccontextmanager
async def serving(
    config: Config, places: Places, given: Path, state: RunState, probing: Probing, sender: Sender | None = None
) -> AsyncGenerator[Served]:
    """The engine that the configuration names. `given` is version 0's directory; `sender`: who sends versions over NCCL
    to an engine that takes them so. Raises UsageError, GaveUp, InfrastructureFault."""
    name = config.advisor.engine
    opened = _external if is_external(name) else _vllm if name == "vllm" else _embedded
    async with opened(config, places, given, state, probing, sender) as served:
        yield served


@dataclass(frozen=True, slots=True)
class _Embedded:
    handle: EngineHandle
    replica: Replica
    state: RunState
    given: Path
    log: str = "its log is in the run's folder"

    async def wait_lost(self, hung_s: float) -> InfrastructureFault:
        return await self.handle.wait_lost(hung_s)

    async def restart(self) -> None:
        await self.handle.restart(_newest(self.state, self.given), self.state.learner)
        self.replica.believe()


@asynccontextmanager
async def _embedded(
    config: Config, places: Places, given: Path, state: RunState, probing: Probing, sender: Sender | None
) -> AsyncGenerator[Served]:
    async with (
        managed_engine(
            _newest(state, given),
            version=state.learner,
            log=places.logs / "engine.log",
            threads=config.advisor.threads,
            start_s=config.advisor.engine_start_s,
        ) as handle,
        _replica(config, given, handle.url, probing, numbered=True) as replica,
    ):
        yield Served(replica, replica, _Embedded(handle, replica, state, given))


@dataclass(frozen=True, slots=True)
class _Vllm:
    handle: VllmHandle
    publisher: Publisher
    state: RunState
    model: Path
    log: str = "its log is in the run's folder"

    async def wait_lost(self, hung_s: float) -> InfrastructureFault:
        return await self.handle.wait_lost(hung_s)

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
async def _vllm(
    config: Config, places: Places, given: Path, state: RunState, probing: Probing, sender: Sender | None
) -> AsyncGenerator[Served]:
    build, chosen, cards = _vllm_build(), config.advisor, cards_of(config)
    settings = VllmSettings(
        requests=config.search.threads,
        kv_cache_gib=chosen.kv_cache_gib,
        gpu_memory=chosen.gpu_memory,
        threads=chosen.threads,
        adapters=adapter_slots(config),
        gpu=cards.engine if cards is not None else None,
        arguments=chosen.engine_arguments,
    )
    model = serve_from(given, places.served_model)
    log = places.logs / "engine.log"
    async with (
        managed_vllm(build, model, settings, log=log, start_s=chosen.engine_start_s) as handle,
        _replica(config, given, handle.url, probing, adapters=settings.adapters is not None, sender=sender) as replica,
    ):
        process = _Vllm(handle, replica, state, model)
        await process.label()
        yield Served(replica, KillsWhatItLeftUnknown(replica, handle), process)


@asynccontextmanager
async def _external(
    config: Config, places: Places, given: Path, state: RunState, probing: Probing, sender: Sender | None
) -> AsyncGenerator[Served]:
    model = serve_from(given, places.served_model)
    manners = Manners(probing.tell, config.faults.backoff, wait_s=config.advisor.timeout_s)
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(_replica(config, given, url, probing, sender=sender))
            for url in urls_of(config.advisor.engine)
        ]
        fleet = await stack.enter_async_context(fleet_of(replicas, state.learner, _newest(state, model), manners))
        await _first_push(config, fleet)
        yield Served(fleet, fleet, fleet)


async def _first_push(config: Config, fleet: Fleet) -> None:
    """Wait until a server serves. Raises UsageError where all refuse what is pushed, GaveUp where patience ends."""

    async def give_up() -> None:
        await fleet.wait_refused(config.faults.retries + 1)
        tasks.cancel_scope.cancel()

    with anyio.move_on_after(config.faults.patience_s) as patience:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give_up)
            await fleet.restart()
            tasks.cancel_scope.cancel()
    if not any(map(fleet.may_be_asked, fleet.members)):
        seconds = config.faults.patience_s
        if patience.cancelled_caught:
            raise GaveUp(
                f"No engine could be pushed to for {seconds:.0f} s ({fleet.faults()}): see to the servers; "
                "`pace resume` goes on from what is committed."
            )
        raise UsageError(
            f"--engine {config.advisor.engine} does not take the weights of --advisor {config.advisor.model} "
            f"({fleet.faults()})."
        )


def _vllm_build() -> Build:
    """Raises UsageError where there is none that can serve here."""
    found = find_vllm()
    if isinstance(found, Missing):
        raise UsageError(f"--engine vllm: {found.found}; mend it with `{found.remedy}`.")
    return found


def _newest(state: RunState, given: Path) -> Path:
    return Path(state.weights) if state.weights else given


def adapter_slots(config: Config) -> AdapterSlots | None:
    """The adapters that requests may need at once: those of the versions that an open lease may have been admitted
    under, η + 1 of them, and the next, which is asked by its probe."""
    rank = config.learner.lora_rank
    return None if rank is None else AdapterSlots(rank, config.bound + 2)


def _replica(
    config: Config,
    given: Path,
    url: str,
    probing: Probing,
    *,
    numbered: bool = False,
    adapters: bool = False,
    sender: Sender | None = None,
) -> Replica:
    return Replica(
        url,
        probing=probing,
        special_ids=special_token_ids(given),
        timeout_s=config.advisor.timeout_s,
        numbered=numbered,
        adapters=adapters,
        sender=sender,
    )
