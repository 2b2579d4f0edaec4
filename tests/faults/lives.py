"""Processes that drive a simulated run over a real database and kill themselves at a failpoint.

`python -m tests.faults.lives` loads everything once. Each line on its standard input is a life. It forks the life,
waits for it and answers with how the process ended. A life ends with SIGKILL, so nothing is cleaned up: no transaction,
file or lock. Two lives killed at the same failpoint of the same run are in the same state.

A failpoint is a name and a number: the n-th time that the process comes there, from 1. The names are `STAGE before`,
`STAGE after`, `statement` (before a statement of a transaction that writes), `weights half` (with a file of weights
begun) and `any`, which counts all of them. If an advisor goes back, the commits of that choice and of the new version
have separate names, `go back` and `went back`, and so has the file of weights, `good weights half`. In the start-up of
a run there are `COMMIT` and `BEGIN`, before those statements.
"""

import gc
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
from sqlalchemy import Engine, event

from pace_async.children import clean_environment
from pace_async.evaluate.base import Evaluation, EvaluationRequest, Evaluator, evaluate
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.events import Evaluated
from pace_async.population.lock import RunLock
from pace_async.population.schema import upgrade
from pace_async.programs.compiled import program_hash
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.fresh import FreshInstances, fresh_seeds
from pace_async.runtime.start import launch
from pace_async.runtime.start.assemble import RunResources
from pace_async.runtime.start.supervisor import drive
from pace_async.search.state import Member
from pace_async.simulate.runs import SimulatedFaults, seed_program
from pace_async.simulate.stages import World
from pace_async.task import load_task
from tests.doubles.failing_stages import (
    FailingEngine,
    FailingEvaluator,
    FailingImplementer,
    FailingLearner,
    FailingPopulation,
    FailingPublisher,
    Failpoints,
)
from tests.support.changed_stages import change_stages
from tests.support.population_facts import empty_population
from tests.support.simulated_runs import Simulated, settings, simulated

CHECKOUT = Path(__file__).parents[2]
EVALUATED = "evaluated"
REACHED = "reached"
"""The file that a start-up leaves when its search would begin."""


@dataclass(frozen=True, slots=True)
class ProcessLife:
    """The work of one process: drive the run in `folder`, upgrade its database to the newest schema, or begin ("run")
    or resume ("resume") a run there as the command line does, up to its search. It works until it ends, or until it
    comes for the `number`-th time to the failpoint `name`. With `claims` new bests are tried on fresh instances, and
    each evaluated program is noted in the file `evaluated`, with the seed."""

    folder: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    seed: int = 0
    discard_every: int = 0
    ruined_by: int = 0
    migrates: bool = False
    starts: str = ""
    claims: bool = False
    name: str = ""
    number: int = 0


class Lives:
    """Starts them."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def live(self, life: ProcessLife) -> bool:
        """Live it to its end. Returns whether it was killed. Raises AssertionError if it ended in another way."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(life)) + "\n")
        self._process.stdin.flush()
        ended = int(self._process.stdout.readline())
        assert ended in (0, -signal.SIGKILL), f"{life} ended with {ended}; its traceback is on standard error"
        return ended != 0


@contextmanager
def lives() -> Generator[Lives]:
    """The process that forks them."""
    command = [sys.executable, "-m", "tests.faults.lives"]
    with subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=clean_environment(OMP_NUM_THREADS="1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Lives(process)
        assert process.stdin is not None
        process.stdin.close()


def _fail(core: Core, at: Failpoints) -> None:
    stages = core.stages
    core.recorder.population = FailingPopulation(core.recorder.population, at)
    implementer, evaluator = FailingImplementer(stages.implementer, at), FailingEvaluator(stages.evaluator, at)
    change_stages(core, implementer=implementer, evaluator=evaluator)
    if stages.engine is not None:
        change_stages(core, engine=FailingEngine(stages.engine, at))
    if stages.learner is not None:
        change_stages(core, learner=FailingLearner(stages.learner, at))
    if stages.publisher is not None:
        change_stages(core, publisher=FailingPublisher(stages.publisher, at))


class Noting(InTaskEvaluator):
    """An evaluator that notes what it was asked for, and knows the task's own program."""

    def __init__(self, inner: Evaluator, core: Core, file: Path) -> None:
        self._inner, self._core, self._file = inner, core, file

    async def run(self, request: EvaluationRequest) -> Evaluation:
        with self._file.open("a") as stream:
            stream.write(f"{program_hash(request.program)} {request.seed}\n")
        if request.program == self._core.task.program:
            return Evaluation("ok", self._core.task.spec.bounds.lower, 1.0)
        return await evaluate(self._inner, request)


def _try_claims(run: Simulated, folder: Path) -> None:
    core = run.core
    change_stages(core, evaluator=Noting(core.stages.evaluator, core, folder / EVALUATED))


def _statements(at: Failpoints) -> Callable[[], None]:
    """Make every statement that a driver begins a failpoint, whoever gave it one, once what is returned was called.
    Connections that are open already are left out."""
    counting = False

    def begun(statement: str) -> None:
        if counting and statement.lstrip()[:6].upper() not in ("SELECT", "PRAGMA"):
            at("statement")

    def connected(connection: Any, _record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):  # those that read beside the event loop are wrapped
            connection.set_trace_callback(begun)

    def count() -> None:
        nonlocal counting
        counting = True

    event.listen(Engine, "connect", connected)
    return count


async def _run(life: ProcessLife, at: Failpoints) -> None:
    config = settings(**life.settings)
    count = _statements(at)
    with RunLock(Path(life.folder)):
        faults = SimulatedFaults(discard_every=life.discard_every)
        if life.ruined_by:
            faults = replace(faults, ruined_by=frozenset({life.ruined_by}), unparsed_every=0)
        async with simulated(Path(life.folder), config, World(seed=life.seed), faults) as run:
            if life.claims:
                _try_claims(run, Path(life.folder))
            _fail(run.core, at)
            if life.claims:
                own = Member(0, run.core.task.program, run.core.task.spec.bounds.lower)
                record = await run.store.load()
                seeds = fresh_seeds(record.secret, config.evaluation.fresh_seeds)
                run.core.fresh = FreshInstances(
                    run.core.stages.evaluator, run.core.task, own, seeds, dict(record.own_scores)
                )
            count()
            with anyio.fail_after(60):
                assert await drive(run.core) == "done"


def _start_up(life: ProcessLife, at: Failpoints) -> None:
    """The command's own start, with stages that need no time."""
    task = load_task("circle_packing")

    async def reached(resources: RunResources, _display: str, _logs: object) -> str:
        assert resources.record.run_state.seed_program is not None
        (resources.paths.folder / REACHED).touch()
        return "done"

    async def tier(_unsafe: bool) -> Any:
        return SimpleNamespace(name="simulated")

    async def scored(*_: object) -> tuple[Evaluated]:
        return (seed_program(task),)

    for name, stage in (("conduct", reached), ("pick_tier", tier), ("score_seed_program", scored)):
        setattr(launch, name, stage)

    def begun(statement: str) -> None:
        if (word := statement.split()[0].upper()) in ("BEGIN", "COMMIT") and statement != "BEGIN":
            at(word)

    def connected(connection: Any, _record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(begun)

    event.listen(Engine, "connect", connected)
    folder = Path(life.folder)
    if life.starts == "run":
        launch.start(settings(**life.settings), task, folder, ("none", ()))
    else:
        launch.go_on(str(folder), {}, ("none", ()))


def _live(life: ProcessLife) -> None:
    at = Failpoints(life.name, life.number)
    if life.starts:
        _start_up(life, at)
    elif life.migrates:
        _statements(at)()
        upgrade(Path(life.folder) / "population.db")
    else:
        anyio.run(_run, life, at)


def main() -> None:
    """Fork a life for each line, wait for it, say how it ended."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        empty_population(Path(folder))  # so that no life makes a population by itself, and loads alembic for it
    anyio.run(anyio.sleep, 0)  # nor loads what an event loop needs
    gc.collect()
    gc.freeze()  # nor visits what was loaded
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                _live(ProcessLife(**json.loads(line)))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
