"""Runs whose models answer as a test says, with the real pool, makers, ledger, rows and search threads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from pace_async.config import Config
from pace_async.evaluate.base import Evaluation
from pace_async.implement.chat import Answer
from pace_async.implement.makers import Maker, ModelMaker
from pace_async.implement.pool import Pool
from pace_async.implement.prices import Price
from pace_async.implement.shares import parse_shares
from pace_async.runtime.purse import Purse
from pace_async.runtime.supervisor import drive
from pace_async.search.draws import derive
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.memory import MemoryPopulation
from pace_async.simulate.runs import FAULTLESS, TINY_TASK, core_of, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from tests.simulated import settings
from tests.test_equivalence import Interrupting

TIMES = {"at", "opened_at", "closed_at", "shipped_at", "ended_at", "written_at", "published_at", "seconds"}
MODEL = "openai/scripted"
PRICE = Price.per_million(1.0, 1.0)
HIDDEN = "evaluator.py, line 7"
Write = Callable[[str, int], str]
"""The answer to a question, given the number that its experiment names."""


def block(text: str) -> str:
    return f"```python\n{text}\n```\n"


@dataclass(slots=True)
class Scripted:
    """A model that answers as `write` says."""

    write: Write
    model: str = MODEL
    cost_usd: float = 0.001
    price: Price | None = PRICE
    questions: list[str] = field(default_factory=list[str])

    async def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, timeout_s: float) -> Answer:
        await anyio.lowlevel.checkpoint()
        question = messages[-1]["content"]
        self.questions.append(question)
        number = int(question.rpartition("Experiment: add ")[2].partition("\n")[0])
        return Answer(self.write(question, number), "stop", False, 100, 10, self.cost_usd, 1.0)


class Judge:
    """A program that says `wrong` raises; one that says `slow` times out; at one that says `trips` the evaluator itself
    fails; another has a score."""

    def __init__(self) -> None:
        self.programs: list[str] = []

    async def evaluate(self, program: str, seed: int) -> Evaluation:
        await anyio.lowlevel.checkpoint()
        self.programs.append(program)
        if "wrong" in program:
            return Evaluation("candidate_error", None, 1.0, "NameError: name 'wrong' is not defined (line 2)")
        if "trips" in program:
            return Evaluation("invalid_score", None, 1.0, "KeyError: 'x'", evaluator_error=f"{HIDDEN}: KeyError: 'x'")
        if "slow" in program:
            return Evaluation("timeout", None, 1.0, "stopped after 1.0 s")
        return Evaluation("ok", (derive(seed, program) % 1000) / 1000, 1.0)


class Run:
    """A run of scripted models; `live` is one process of it."""

    def __init__(self, folder: Path, config: Config, *chats: Scripted) -> None:
        self.folder, self.chats = folder, chats
        names = ",".join(chat.model for chat in chats)
        self.config = config.model_copy(update={"implementer": config.implementer.model_copy(update={"model": names})})
        self.judge = Judge()
        config = self.config
        self.world = World(seed=1, durations=None)
        self.population = MemoryPopulation(header_of(config, TINY_TASK))
        self.commits = 0
        self.state = ""
        self.world.serve(0, None)
        run_virtually(lambda: self.population.commit(seed_program(TINY_TASK)))

    def live(self, last: int = 0) -> "Run":
        """Drive it to its end, or up to its `last`-th commit from here."""

        async def process() -> None:
            with anyio.CancelScope() as scope:
                population = Interrupting(self.population, scope, last, before=False)
                record, config = self.population.load(), self.config
                core = core_of(
                    config,
                    TINY_TASK,
                    record,
                    population,
                    VirtualClock(),
                    self.world,
                    self.folder,
                    habits=FAULTLESS,
                    codec=Bytes(),
                )
                purse = Purse(population, core.bus, core.stages.clock, core.state, 100.0, last=record.reservations)
                makers: dict[str, Maker] = {chat.model: ModelMaker(chat, purse, 1000) for chat in self.chats}
                shares = parse_shares(config.implementer.model)
                pool = Pool(shares, makers, purse, config.seed, config.implementer, config.faults)
                core.stages = replace(core.stages, implementer=pool, evaluator=self.judge)
                self.state = "interrupted"
                self.state = await drive(core)
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
        """Whether nobody knows what a call cost."""
        cancelled = "select count(*) from implementer_calls where outcome = 'cancelled'"
        in_flight = "select count(*) from reservations where ordinal is null"
        return any(self.rows(sql)[0][0] for sql in (cancelled, in_flight))

    def dump(self) -> list[str]:
        """Every row that does not tell of time, or of the processes that wrote it."""
        lines = self.population.dump(TIMES)
        return [line for line in lines if line.partition(":")[0] not in ("run_states", "faults", "reservations")]


def configured(**more: object) -> Config:
    """A few islands in step with one another."""
    few: dict[str, object] = {"search__threads": 3, "learner__group_size": 3, "learner__k": 2}
    given: dict[str, object] = {"seed": 3, "staleness__mode": "sync", "stop__candidates": 15, **few, **more}
    return settings(**given)
