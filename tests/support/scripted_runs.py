"""Runs whose models answer as a test says, with the real pool, makers, ledger, rows and search threads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from pace_async.config import Config
from pace_async.implement.model_maker import ModelMaker
from pace_async.implement.pool import ImplementerPool, Maker
from pace_async.implement.shares import parse_shares
from pace_async.population.memory import MemoryPopulation
from pace_async.runtime.run.recorder import BudgetLedger
from pace_async.runtime.start.supervisor import drive
from pace_async.search.results import ExperimentResult
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import FAULTLESS, TINY_TASK, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from tests.doubles.evaluators import Judge
from tests.doubles.implementers import ScriptedChat
from tests.doubles.populations import Interrupting
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import TIMES


def block(text: str) -> str:
    return f"```python\n{text}\n```\n"


class Run:
    """A run of scripted models. `live` is one process of it. `tested` is what its newest process remembers."""

    def __init__(self, folder: Path, config: Config, *chats: ScriptedChat) -> None:
        self.folder, self.chats = folder, chats
        names = ",".join(chat.model for chat in chats)
        self.config = config.model_copy(update={"implementer": config.implementer.model_copy(update={"model": names})})
        self.judge = Judge()
        config = self.config
        self.world = World(seed=1, durations=None)
        self.population = MemoryPopulation(header_of(config, TINY_TASK))
        self.commits = 0
        self.tested: Mapping[int, ExperimentResult] = {}
        self.state = ""
        self.world.serve(0, None)
        run_virtually(lambda: self.population.commit(seed_program(TINY_TASK)))

    def live(self, last: int = 0) -> "Run":
        """Drive it to its end, or up to its `last`-th commit from here."""

        async def process() -> None:
            with anyio.CancelScope() as scope:
                population = Interrupting(self.population, scope, last, before=False)
                record, config = self.population.load(), self.config
                core = SimulatedRun(
                    config, TINY_TASK, VirtualClock(), self.world, self.folder, FAULTLESS, Bytes()
                ).core(record, population)
                ledger = BudgetLedger(core.recorder, core.stages.clock, 100.0)
                makers: dict[str, Maker] = {chat.model: ModelMaker(chat, ledger, 1000) for chat in self.chats}
                shares = parse_shares(config.implementer.model)
                pool = ImplementerPool(shares, makers, ledger, config.seed, config.implementer, config.faults)
                change_stages(core, implementer=pool, evaluator=self.judge)
                self.state = "interrupted"
                self.state = await drive(core)
                self.tested = core.state.memory.view(1).tested
                self.commits = population.commits

        run_virtually(process)
        return self

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in run_virtually(lambda: self.population.query(sql))]

    @property
    def asked(self) -> int:
        """How many questions were put."""
        return sum(len(chat.questions) for chat in self.chats)

    @property
    def was_cut_off_in_a_call(self) -> bool:
        """Whether the cost of a call is unknown."""
        cancelled = "select count(*) from implementer_calls where outcome = 'cancelled'"
        in_flight = "select count(*) from reservations where ordinal is null"
        return any(self.rows(sql)[0][0] for sql in (cancelled, in_flight))

    def dump(self) -> list[str]:
        """Every row that does not contain times, or the processes that wrote it."""
        lines = self.population.dump(TIMES)
        return [line for line in lines if line.partition(":")[0] not in ("run_states", "faults", "reservations")]


def configured(**more: object) -> Config:
    """A few islands in step with one another."""
    few: dict[str, object] = {"search__threads": 3, "learner__group_size": 3, "learner__k": 2}
    given: dict[str, object] = {"seed": 3, "staleness__mode": "sync", "stop__candidates": 15, **few, **more}
    return settings(**given)
