"""Repair within a run: answers of a scripted model, the real maker, ledger, rows and search threads."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from pace_async.config import Config
from pace_async.evaluate.base import Evaluation
from pace_async.implement.chat import Answer
from pace_async.implement.makers import ModelMaker
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
Write = Callable[[str, int], str]
"""The answer to a question, given how often this experiment was asked before in this very way."""


def block(text: str) -> str:
    return f"```python\n{text}\n```\n"


def clumsy(question: str, number: int) -> str:
    """By the number that the experiment names: at first no code, a syntax error, an exception, an exception and then
    no code; or never any code. Each mends what it is shown."""
    kind = number % 5
    if "could not be used" in question:
        return "no code" if kind == 4 else block(f"start = {number}")
    if "does not compile" in question or "was tried out" in question:
        return "no code" if kind == 3 and "could not" not in question else block(f"start = {number}")
    first = {0: "no code", 1: block("def (:"), 2: block(f"start = wrong + {number}"), 4: "no code"}
    return first.get(kind, block(f"start = wrong + {number}"))


@dataclass(slots=True)
class Scripted:
    """A model that answers as `write` says."""

    write: Write
    questions: list[str] = field(default_factory=list[str])
    model: str = MODEL
    price: Price | None = field(default_factory=lambda: Price.per_million(1.0, 1.0))

    async def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, timeout_s: float) -> Answer:
        await anyio.lowlevel.checkpoint()
        question = messages[-1]["content"]
        self.questions.append(question)
        number = int(question.rpartition("Experiment: add ")[2].partition("\n")[0])
        return Answer(self.write(question, number), "stop", False, 100, 10, 0.001, 1.0)


class Judge:
    """A program that says `wrong` raises; one that says `slow` times out; another has a score."""

    def __init__(self) -> None:
        self.programs: list[str] = []

    async def evaluate(self, program: str, seed: int) -> Evaluation:
        await anyio.lowlevel.checkpoint()
        self.programs.append(program)
        if "wrong" in program:
            return Evaluation("candidate_error", None, 1.0, "NameError: name 'wrong' is not defined (line 2)")
        if "slow" in program:
            return Evaluation("timeout", None, 1.0, "stopped after 1.0 s")
        return Evaluation("ok", (derive(seed, program) % 1000) / 1000, 1.0)


class Run:
    """A run of the scripted model; `live` is one process of it."""

    def __init__(self, folder: Path, config: Config, write: Write = clumsy) -> None:
        self.folder, self.config = folder, config
        self.chat, self.judge = Scripted(write), Judge()
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
                makers = {MODEL: ModelMaker(self.chat, purse, 1000)}
                pool = Pool(parse_shares(MODEL), {**makers}, purse, config.seed, config.implementer, config.faults)
                core.stages = replace(core.stages, implementer=pool, evaluator=self.judge)
                self.state = "interrupted"
                self.state = await drive(core)
                self.commits = population.commits

        run_virtually(process)
        return self

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in run_virtually(lambda: self.population.query(sql))]

    def dump(self) -> list[str]:
        lines = self.population.dump(TIMES)
        return [line for line in lines if line.partition(":")[0] not in ("run_states", "faults", "reservations")]


def configured(**more: object) -> Config:
    few: dict[str, object] = {"search__threads": 3, "learner__group_size": 3, "learner__k": 2}
    given: dict[str, object] = {"seed": 3, "staleness__mode": "sync", "stop__candidates": 15, **few, **more}
    return settings(**given)


OUTCOMES = "select outcome, count(*) from candidates where candidate > 0 group by outcome order by outcome"
TRIES = "select number, outcome, evaluation, program is not null, answer from implementer_tries where lease = {}"


def lease_of(run: Run, kind: int) -> int:
    """A lease whose experiment names a number of that kind."""
    found = run.rows("select lease, description from experiments order by lease")
    return next(lease for lease, description in found if int(description.split()[-1]) % 5 == kind)


def test_what_fails_is_mended_tried_again_and_recorded_and_the_last_outcome_has_the_reward(tmp_path: Path) -> None:
    run = Run(tmp_path, configured(stop__candidates=30)).live()
    assert run.state == "done"
    assert run.rows(TRIES.format(lease_of(run, 0))) == [
        (1, "no_code_block", None, 0, "no code"),
        (2, "ok", None, 1, None),
    ]
    assert run.rows(TRIES.format(lease_of(run, 1))) == [(1, "syntax_error", None, 1, None), (2, "ok", None, 1, None)]
    assert run.rows(TRIES.format(lease_of(run, 2))) == [(1, "ok", "candidate_error", 1, None), (2, "ok", None, 1, None)]
    assert [row[1:3] for row in run.rows(TRIES.format(lease_of(run, 3)))] == [
        ("ok", "candidate_error"),
        ("no_code_block", None),
        ("ok", None),
    ]
    assert [row[1] for row in run.rows(TRIES.format(lease_of(run, 4)))] == ["no_code_block"] * 3
    lost = run.rows("select count(*), sum(reward) from candidates where candidate > 0 and score is null")[0]
    assert lost[0] > 0 and lost[1] == -lost[0]
    assert Counter(dict(run.rows(OUTCOMES)))["ok"] == 30 - lost[0]


def test_each_try_is_paid_for_and_closes_its_reservation(tmp_path: Path) -> None:
    run = Run(tmp_path, configured()).live()
    tries = run.rows("select count(*) from implementer_tries")[0][0]
    assert tries == len(run.chat.questions) > 15
    assert run.rows("select count(*), count(ordinal) from reservations")[0] == (tries, tries)
    assert run.rows("select sum(cost_usd) from implementer_calls")[0][0] == pytest.approx(0.001 * tries)
    joined = "select count(*) from implementer_tries t join implementer_calls c using (run_id, lease, ordinal)"
    assert run.rows(joined + " where t.outcome = c.outcome")[0][0] == tries


def test_without_repair_each_experiment_has_one_answer_and_one_evaluation(tmp_path: Path) -> None:
    off = configured(implementer__repair__compile_tries=1, implementer__repair__evaluate_tries=1)
    run = Run(tmp_path, off).live()
    assert len(run.chat.questions) == 15
    assert run.rows("select count(*), max(number) from implementer_tries")[0] == (15, 1)
    assert {outcome for outcome, _ in run.rows(OUTCOMES)} == {"candidate_error", "not_implemented"}


def test_a_program_that_is_too_slow_is_not_tried_again(tmp_path: Path) -> None:
    run = Run(tmp_path, configured(), lambda _question, number: block(f"slow = {number}")).live()
    assert run.rows(OUTCOMES) == [("timeout", 15)]
    assert len(run.chat.questions) == len(run.judge.programs) == 15


def test_a_repair_that_gives_the_parent_back_earns_nothing(tmp_path: Path) -> None:
    """Otherwise failing first would be a way to be paid for the parent's score."""

    def gives_up(question: str, _number: int) -> str:
        return block("start = 0") if "was tried out" in question else block("start = wrong")

    run = Run(tmp_path, configured(), gives_up).live()
    assert run.rows(OUTCOMES) == [("unchanged", 15)]
    assert run.rows("select distinct reward from candidates where candidate > 0") == [(-1.0,)]


def test_a_run_cut_off_at_any_commit_pays_for_no_recorded_try_twice_and_ends_the_same(tmp_path: Path) -> None:
    """A call that was in flight is paid for and made again: so a process is cut off where none was."""
    one = configured(search__threads=2, learner__group_size=2, learner__k=1, stop__candidates=6)
    whole = Run(tmp_path, one).live()
    expected, asked = whole.dump(), len(whole.chat.questions)
    between = 0
    for last in range(2, whole.commits, 4):
        broken = Run(tmp_path, one).live(last)
        assert broken.state == "interrupted"
        cut_off = broken.rows("select count(*) from implementer_calls where outcome = 'cancelled'")[0][0]
        if cut_off or broken.rows("select count(*) from reservations where ordinal is null")[0][0]:
            continue
        between += 1
        broken.live()
        assert broken.state == "done"
        assert broken.dump() == expected, f"commit {last}"
        assert len(broken.chat.questions) == asked
    assert between > 4
