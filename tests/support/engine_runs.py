"""A whole run that searches and learns on engines over HTTP.

Two things are scripted: the words that tokens stand for (a random model writes no proposals) and the weights that the
learner makes. Each version is another random model, so a token's log-probability tells which weights sampled it.
"""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pace_async.errors import InfrastructureFault
from pace_async.events import FaultSeen
from pace_async.runtime.children.fleet import Fleet, FleetPolicy, fleet_of
from pace_async.runtime.children.replica import Delivery, Probing, Replica
from pace_async.runtime.run.core import Core
from pace_async.simulate.stages import World
from tests.doubles.clocks import Brisk
from tests.doubles.engines import ANSWER_IDS, WordsOfItsOwn
from tests.doubles.learners import ScriptedLearner
from tests.support.changed_stages import change_stages
from tests.support.engine_models import save_tiny_model
from tests.support.simulated_runs import Simulated, settings, simulated


def write_versions(folder: Path, count: int) -> list[Path]:
    """The weights of versions 0, 1, …: version v is the random model of seed v."""
    return [save_tiny_model(folder / f"{version:06d}", seed=version) for version in range(count)]


@dataclass
class Searching:
    """A run on engines, ready to be driven."""

    run: Simulated
    fleet: Fleet
    learner: ScriptedLearner

    @property
    def core(self) -> Core:
        return self.run.core

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        return [dict(row) for row in await self.run.store.query(sql)]


@asynccontextmanager
async def searching(
    folder: Path,
    versions: Sequence[Path],
    *urls: str,
    phase_s: float = 60.0,
    timeout_s: float = 60.0,
    **overrides: object,
) -> AsyncGenerator[Searching]:
    """A run of as many updates as there are versions after 0, of four rollouts each, on the engines at `urls`."""
    config = settings(
        **{
            "stop__candidates": 4 * (len(versions) - 1),
            "learner__group_size": 4,
            "learner__k": 2,
            "search__threads": 4,
            "staleness__max_staleness": 2,
            "faults__backoff_s": 0.02,
            "faults__patience_s": 300.0,
            **overrides,
        }
    )
    learner = ScriptedLearner(versions)
    async with AsyncExitStack() as stack:
        run = await stack.enter_async_context(simulated(folder, config, World()))

        async def tell(fault: InfrastructureFault) -> None:
            await run.core.record(FaultSeen("engine", fault.kind, fault.detail, None, time.time()))

        probing, delivery = Probing(learner, tell=tell, tokens=ANSWER_IDS), Delivery(phase_s=phase_s)
        replicas = [
            await stack.enter_async_context(Replica(url, probing=probing, timeout_s=timeout_s, delivery=delivery))
            for url in urls
        ]
        policy = FleetPolicy(tell, config.faults.backoff, wait_s=timeout_s, look_s=5.0, answer_s=60.0)
        fleet = await stack.enter_async_context(fleet_of(replicas, 0, versions[0], policy))
        change_stages(run.core, engine=WordsOfItsOwn(fleet), learner=learner, publisher=fleet, clock=Brisk())
        await fleet.restart()
        yield Searching(run, fleet, learner)
