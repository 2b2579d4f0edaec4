"""Measures the runtime's overhead: wall clock against the list schedule, and processor time a candidate.

    python scripts/benchmarks/bench_overhead.py  # 96 candidates, 16 threads
    python scripts/benchmarks/bench_overhead.py --candidates 1024 --threads 128 --limit 1.10
    python scripts/benchmarks/bench_overhead.py --candidates 1024 --threads 128 --limit 1.15 --sandbox
    python scripts/benchmarks/bench_overhead.py --openevolve PYTHON  # and that peer, installed for that Python

The runtime is that of a run, with its database on disk, litellm and real HTTP to a local server that takes a second to
answer. The advisor answers at once and the evaluator sleeps (both simulated). The times are lognormal, and the n-th
call always has the same time. With --sandbox the candidate sleeps instead, launched in the sandbox by a run's own
evaluator, with one slot a thread. Nothing is trained.

The list schedule gives each lease, in order, to the worker that is free first, without any pause. It includes the last
stragglers. So the time above it is overhead, with launches in the sandbox included. Afterwards the same model calls are
made alone, as many at a time. Their processor time is litellm's, and the rest is the runtime's own (without that of the
sandbox's processes). Exit code 1 above a limit.
"""

import argparse
import heapq
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import anyio

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.evaluate.base import Evaluator
from pace_async.gc_freeze import start_up_frozen
from pace_async.implement.assemble import models_of, open_implementer
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import messages_for
from pace_async.observe.bus import Bus
from pace_async.observe.model import RunView
from pace_async.population.store import Store
from pace_async.providers.chat import open_chats
from pace_async.providers.preflight import check_models
from pace_async.runtime.run.clock import RealClock
from pace_async.runtime.run.core import Core, Stages
from pace_async.runtime.run.recorder import BudgetLedger, Recorder
from pace_async.runtime.start.restore import restore
from pace_async.runtime.start.supervisor import drive
from pace_async.search.state import Member
from pace_async.simulate.durations import Durations
from pace_async.simulate.runs import header_of, seed_program
from pace_async.simulate.stages import SimulatedEngine, World
from pace_async.task import Task, load_task
from scripts.benchmarks.sleepers import SleepingEvaluator, napping, sandboxed

RIVALS = Path(__file__).parents[2] / "research" / "rivals"
SERVER = RIVALS / "local_implementer_server.py"
PEER = RIVALS / "peer_openevolve.py"
ANSWER_S = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds from the first lease to the last score, and those of the list schedule. Processor seconds of the process
    in between, and those of the model calls alone (0: not measured)."""

    seconds: float
    scheduled: float
    processor: float
    candidates: int
    calls: float = 0.0

    @property
    def ratio(self) -> float:
        return self.seconds / self.scheduled

    @property
    def each_ms(self) -> float:
        return 1000.0 * self.processor / self.candidates

    @property
    def own_ms(self) -> float:
        return 1000.0 * (self.processor - self.calls) / self.candidates


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=96)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=3, help="runs, with seeds 0, 1, ...")
    parser.add_argument("--mean", type=float, default=1.0, help="mean seconds of an evaluation")
    parser.add_argument("--cv", type=float, default=0.6)
    parser.add_argument("--limit", type=float, default=1.05, help="wall clock over list schedule")
    parser.add_argument("--processor-ms", type=float, default=10.0, help="limit on the runtime's own share of it")
    parser.add_argument("--sandbox", action="store_true", help="programs sleep in the sandbox")
    parser.add_argument("--openevolve", metavar="PYTHON", help="run OpenEvolve beside, with this Python")
    chosen = parser.parse_args()
    os.environ["HOSTED_VLLM_API_KEY"] = "any key will do"
    missed = False
    with serving() as url:
        for seed in range(chosen.seeds):
            durations = Durations(seed, chosen.mean, chosen.cv, None, 0.0, 0.0, 0.0)
            found = anyio.run(measure, config_of(chosen, url, seed), durations, chosen.sandbox)
            print(f"{_line(f'seed {seed}', found, chosen.threads)}, {found.own_ms:.1f} without litellm's", flush=True)
            missed = missed or found.ratio > chosen.limit or found.own_ms > chosen.processor_ms
            if chosen.openevolve:
                with serving("--rewrite") as url_of_peer:
                    theirs = measure_openevolve(chosen, url_of_peer, seed, durations)
                print(_line(f"seed {seed}, OpenEvolve", theirs, chosen.threads), flush=True)
    return int(missed)


def measure_openevolve(chosen: argparse.Namespace, url: str, seed: int, durations: Durations) -> Found:
    """One run of the peer, in separate processes."""
    drawn = [durations.evaluation(number) for number in range(1, chosen.candidates + 1)]
    with tempfile.TemporaryDirectory(prefix="pace-peer-") as folder:
        (Path(folder) / "initial.py").write_text(load_task("circle_packing").program)
        command = [chosen.openevolve, str(PEER), folder, url, str(chosen.candidates), str(chosen.threads), str(seed)]
        done = subprocess.run(command, input=json.dumps(drawn), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"OpenEvolve failed: {done.stderr[-500:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    if said["candidates"] != chosen.candidates:
        print(f"OpenEvolve evaluated {said['candidates']} of {chosen.candidates}", flush=True)
    scheduled = list_schedule([ANSWER_S + seconds for seconds in drawn[: said["candidates"]]], chosen.threads)
    return Found(said["seconds"], scheduled, said["processor"], said["candidates"])


def _line(name: str, found: Found, threads: int) -> str:
    return (
        f"{name}: {found.candidates} candidates, {threads} threads: {found.seconds:.2f} s, list schedule "
        f"{found.scheduled:.2f} s, ratio {found.ratio:.3f}; {found.each_ms:.1f} ms of processor time a candidate"
    )


@contextmanager
def serving(answers: str = "--append") -> Generator[str]:
    """Run the local server in a separate process. Yields its base URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(SERVER), "--port", str(port), "--delay", str(ANSWER_S), answers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        said = re.search(r"http://\S+", server.stdout.readline())
        try:
            if said is None:
                raise SystemExit("the local server did not start")
            yield said[0]
        finally:
            server.terminate()


def config_of(chosen: argparse.Namespace, url: str, seed: int) -> Config:
    """The run's configuration."""
    settings = {
        "seed": seed,
        "stop.candidates": chosen.candidates,
        "search.threads": chosen.threads,
        "learner.objective": "none",
        "implementer.model": "hosted_vllm/local",
        "implementer.api_base": url,
        "implementer.price_per_million_in": 2.0,
        "implementer.price_per_million_out": 8.0,
    }
    return resolve(None, settings, environment={})


Beside = Callable[[Path], AbstractContextManager[None]]
"""What goes on while a run is driven, which is given the folder of its population."""


async def measure(config: Config, durations: Durations, sandbox: bool, beside: Beside | None = None) -> Found:
    """Drive one run."""
    await check_models(models_of(config.implementer.model), config.implementer)  # as `pace run` does; loads litellm
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pace-overhead-")))
        task = napping(folder / "task") if sandbox else load_task("circle_packing")
        evaluator: Evaluator = SleepingEvaluator(durations)
        if sandbox:
            evaluator = await stack.enter_async_context(sandboxed(task, durations, config.search.threads))
        async with Store.open(folder / "population.db") as store:
            await store.create_run(header_of(config, task))
            await store.commit(seed_program(task))
            record = await store.load()
            recorder = Recorder(store, restore(record, config), Bus(RunView(header=record.header)))
            world = World(seed=config.seed, turns=0)
            world.serve(0, None)
            ledger = BudgetLedger(recorder, RealClock(), None)
            async with open_implementer(config, task, ledger) as implementer:
                stages = Stages(
                    engine=SimulatedEngine(world, unparsed_every=0),
                    implementer=implementer,
                    evaluator=evaluator,
                    clock=RealClock(),
                    learner=None,
                    publisher=None,
                )
                core = Core(
                    config=config,
                    task=task,
                    horizon=record.header.horizon,
                    recorder=recorder,
                    stages=stages,
                    groups_folder=folder / "groups",
                )
                with beside(folder) if beside is not None else nullcontext(), start_up_frozen():
                    began, processor = time.monotonic(), _processor()
                    await drive(core)
                    seconds, processor = time.monotonic() - began, _processor() - processor
            rows = await store.query("select outcome, seconds from candidates where lease is not null order by lease")
        calls = await _calls_alone(config, task, [float(row["seconds"]) for row in rows])
    whole = [ANSWER_S + float(row["seconds"]) for row in rows]
    if [row["outcome"] for row in rows] != ["ok"] * len(rows):
        raise SystemExit("not every candidate was evaluated")
    return Found(seconds, list_schedule(whole, config.search.threads), processor, len(rows), calls)


async def _calls_alone(config: Config, task: Task, pauses: Sequence[float]) -> float:
    """Processor seconds of the run's model calls alone, made by as many workers. Each worker rests after a call for as
    long as the run's evaluation took."""
    parent = Member(0, task.program, 0.0)
    messages = messages_for(task, parent, Experiment(lease=1, idea="add a number", description="add 1"))
    left = iter(pauses)
    async with open_chats(models_of(config.implementer.model), config.implementer) as (chat,):

        async def work() -> None:
            for pause in left:
                await chat.ask(messages, max_tokens=config.implementer.max_tokens, timeout_s=60.0)
                await anyio.sleep(pause)

        began = _processor()
        async with anyio.create_task_group() as workers:
            for _ in range(config.search.threads):
                workers.start_soon(work)
        return _processor() - began


def list_schedule(durations: Sequence[float], workers: int) -> float:
    """The end of the last duration, if each is given in order to the worker that is free first."""
    free = [0.0] * workers
    for seconds in durations:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
