"""Puts an engine behind the seams: Engine, Publisher, and the process that the engine supervisor restarts.

Invariant: after a restart an engine serves the newest complete weights, under their version, from the first token that
counts. The embedded engine starts with them. vLLM starts with any weights, unlabelled, and gets a push with a receipt.
If a push to it fails after it began, it is killed, because only a restart makes its weights known again. Servers by URL
get pushes until one succeeds, because the run cannot restart them.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio

from pace_async.advise.base import Engine
from pace_async.advise.chat import TextFormat, chat_format_of
from pace_async.advise.client import special_token_ids
from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_found import SET_UP, Build, Missing, find_vllm, has_nvidia_gpu
from pace_async.advise.engines.vllm_managed import AdapterSlots, VllmHandle, VllmSettings, managed_vllm
from pace_async.config import Config
from pace_async.errors import GaveUp, InfrastructureFault, NotHere, UsageError
from pace_async.plan.needs import longest_call
from pace_async.publish.base import Publisher, PushFailed, Receipt
from pace_async.publish.broadcast import Broadcast
from pace_async.publish.offering import offering
from pace_async.registry.engines import ADVISOR_ENGINES, engine_of
from pace_async.registry.transports import TRANSPORTS
from pace_async.runtime.children.advisor_choice import context_of
from pace_async.runtime.children.cards import cards_of
from pace_async.runtime.children.engine_supervisor import SupervisedEngine
from pace_async.runtime.children.external import urls_of
from pace_async.runtime.children.fleet import Fleet, FleetPolicy, fleet_of
from pace_async.runtime.children.killed import again_if_killed
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from pace_async.runtime.children.training import Training, memory_of
from pace_async.runtime.run_paths import RunPaths
from pace_async.state.run_state import RunState


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """An engine that is up and serves the newest complete weights."""

    client: Engine
    publisher: Publisher
    process: SupervisedEngine


EngineFactory = Callable[
    [Config, RunPaths, Path, RunState, Probing, Training | None], AbstractAsyncContextManager[RunningEngine]
]
"""Serves for as long as it is open. Arguments as of `serving`."""


def refuse_unless_served(engine: str) -> None:
    """Raises UsageError for an unknown or unusable engine. Servers by URL are not contacted."""
    entry = engine_of(engine)
    if entry.name not in ADVISOR_ENGINES:
        raise UsageError(f"--engine {engine}: there is {ADVISOR_ENGINES.listed()}.")
    entry.refuse_unless_there(engine)


@asynccontextmanager
async def serving(
    config: Config, paths: RunPaths, folder: Path, state: RunState, probing: Probing, training: Training | None = None
) -> AsyncGenerator[RunningEngine]:
    """The engine that the configuration names. `folder` is version 0's directory. `training` is the learner's
    side, for a transport that takes versions from its memory. One that another process kills while it starts is started
    again, as long as patience lasts. Raises UsageError, GaveUp, InfrastructureFault."""
    factory = engine_of(config.advisor.engine).load()
    async with AsyncExitStack() as stack:

        async def start() -> RunningEngine:
            return await stack.enter_async_context(factory(config, paths, folder, state, probing, training))

        yield await again_if_killed(start, config.faults, probing.tell)


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
async def embedded(
    config: Config, paths: RunPaths, folder: Path, state: RunState, probing: Probing, training: Training | None
) -> AsyncGenerator[RunningEngine]:
    """The server in the package."""
    delivery = Delivery(numbered=True, transport=config.advisor.transport, phase_s=config.advisor.push_timeout_s)
    engine = EngineHandle(
        log=paths.logs / "engine.log",
        threads=config.advisor.threads,
        start_s=config.advisor.engine_start_s,
        gpu=next(iter(cards_of(config).engine), None),
    )
    async with (
        managed_engine(engine, _newest(state, folder), state.learner) as handle,
        _replica(config, folder, handle.url, probing, delivery) as replica,
    ):
        yield RunningEngine(replica, replica, _Embedded(handle, replica, state, folder))


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
    """A server that can be ended at once. Its supervisor restarts it."""

    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class KillsWhatItLeftUnknown:
    """A `Publisher` that ends the server if a push fails after it began. The supervisor restarts the server with known
    weights."""

    publisher: Publisher
    handle: Killable

    async def publish(self, version: int, weights: Path) -> Receipt:
        try:
            return await self.publisher.publish(version, weights)
        except PushFailed as failed:
            if failed.began:
                self.handle.kill()
            raise


def vllm_settings(config: Config, folder: Path, gpus: Sequence[str]) -> VllmSettings:
    """Those of a server that a run starts on these cards, for the model in `folder`."""
    chosen = config.advisor
    return VllmSettings(
        requests=config.search.threads,
        kv_cache_gib=chosen.kv_cache_gib,
        gpu_memory=chosen.gpu_memory,
        threads=chosen.threads,
        adapters=adapter_slots(config),
        gpus=gpus,
        longest_call=longest_served(config, folder),
        float32_head=chosen.float32_head,
        arguments=chosen.engine_arguments,
    )


@asynccontextmanager
async def vllm(
    config: Config, paths: RunPaths, folder: Path, state: RunState, probing: Probing, training: Training | None
) -> AsyncGenerator[RunningEngine]:
    """vLLM, started by the run."""
    build, chosen, memory = vllm_build(), config.advisor, memory_of(training)
    settings = vllm_settings(config, folder, cards_of(config).engine)
    model = serve_from(folder, paths.served_model)
    log = paths.logs / "engine.log"
    delivery = Delivery(
        adapters=settings.adapters is not None,
        transport=chosen.transport,
        sender=None if memory is None else Broadcast(memory),
        sharer=memory,
        phase_s=chosen.push_timeout_s,
    )
    async with (
        managed_vllm(build, model, settings, log=log, start_s=chosen.engine_start_s) as handle,
        _replica(config, folder, handle.url, probing, delivery) as replica,
    ):
        process = _Vllm(handle, replica, state, model)
        try:
            await process.label()
        except PushFailed as failed:
            raise await handle.killed() or failed from failed
        yield RunningEngine(replica, KillsWhatItLeftUnknown(replica, handle), process)


@asynccontextmanager
async def servers(
    config: Config, paths: RunPaths, folder: Path, state: RunState, probing: Probing, training: Training | None
) -> AsyncGenerator[RunningEngine]:
    """Servers by URL, which run already."""
    model = serve_from(folder, paths.served_model)
    policy = FleetPolicy(probing.tell, config.faults.backoff, wait_s=config.advisor.timeout_s)
    chosen = config.advisor
    async with AsyncExitStack() as stack:
        offerer = None
        if TRANSPORTS[chosen.transport].fetches:
            offerer = await stack.enter_async_context(offering(chosen.fetch_from))
        urls = urls_of(config.advisor.engine)
        memory = memory_of(training)
        group = None if memory is None else Broadcast(memory, len(urls))
        delivery = Delivery(transport=chosen.transport, sender=group, offerer=offerer, phase_s=chosen.push_timeout_s)
        replicas = [await stack.enter_async_context(_replica(config, folder, url, probing, delivery)) for url in urls]
        fleet = await stack.enter_async_context(fleet_of(replicas, state.learner, _newest(state, model), policy))
        await _first_push(config, fleet)
        yield RunningEngine(fleet, fleet, fleet)


async def _first_push(config: Config, fleet: Fleet) -> None:
    """Wait until a server serves. Raises UsageError if all refuse the push, GaveUp when patience ends."""

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


def vllm_build(engine: str = "vllm") -> Build:
    """The vLLM build of this machine. Raises UsageError if there is none that can serve here."""
    build = find_vllm()
    if isinstance(build, Missing):
        other = "" if build.broken or has_nvidia_gpu() else f", or with `{SET_UP} vllm` where there is a card"
        raise NotHere(f"--engine {engine}: {build.found}; fix it with `{build.remedy}`{other}.")
    return build


def _newest(state: RunState, folder: Path) -> Path:
    return Path(state.weights) if state.weights else folder


def longest_served(config: Config, folder: Path) -> int | None:
    """Tokens of the longest question and answer together, which is all that vLLM need take. None where the model's
    configuration or the user's arguments say what it takes."""
    context = context_of(config.advisor, folder)
    if context is None or any(word.startswith("--max-model-len") for word in config.advisor.engine_arguments):
        return None
    return longest_call(config, context)


def adapter_slots(config: Config) -> AdapterSlots | None:
    """The number of adapters that requests may need at once: η + 1 versions under which open leases may have been
    admitted, and the next version, for its probe."""
    rank = config.learner.lora_rank
    return None if rank is None else AdapterSlots(rank, config.bound + 2)


def _replica(config: Config, folder: Path, url: str, probing: Probing, delivery: Delivery) -> Replica:
    return Replica(
        url,
        probing=probing,
        text=TextFormat(special_token_ids(folder), chat_format_of(config.advisor, folder)),
        timeout_s=config.advisor.timeout_s,
        delivery=delivery,
    )
