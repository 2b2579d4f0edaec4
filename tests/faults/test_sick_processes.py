"""Processes that hang are detected by a deadline, reported, killed and started again. Slow ones keep running."""

import json
import os
import signal
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.children import LOOKS, wait_silent
from pace_async.config import SearchConfig
from pace_async.errors import InfrastructureFault
from pace_async.learn.client import ChildLimits, ProcessLearner
from pace_async.learn.rank_processes import RankProcess
from pace_async.learn.settings import TrainerConfig
from pace_async.runtime.children.engine_supervisor import keep_engine, watch_learner
from pace_async.runtime.children.engines import serving
from pace_async.runtime.children.killed import again_if_killed
from pace_async.runtime.children.replica import Probing
from pace_async.runtime.run_paths import RunPaths
from pace_async.search.state import rules_of
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import run_virtually
from pace_async.state.run_state import RunState, Terms
from tests.doubles.engine_servers import EngineServer
from tests.doubles.populations import Told
from tests.support.engine_models import save_tiny_model
from tests.support.fitness import UP
from tests.support.learn_toys import written_groups
from tests.support.simulated_runs import Simulated, settings, simulated

DEADLINE_S = 240.0


@given(st.lists(st.sampled_from(["well", "ill", "silent"]), max_size=30), st.floats(0.1, 1000.0))
def test_a_process_is_hung_only_after_four_failed_health_checks_in_a_row(looks: list[str], hung_s: float) -> None:
    """In virtual time. What follows the list is silence."""
    asked: list[str] = []
    rest = iter(looks)

    async def look() -> bool:
        asked.append(next(rest, "silent"))
        if asked[-1] == "silent":
            await anyio.sleep_forever()
        return asked[-1] == "well"

    async def process() -> float:
        await wait_silent(look, hung_s)
        return anyio.current_time()

    seconds = run_virtually(process)
    assert "well" not in asked[-LOOKS:]
    assert len(asked[-LOOKS:]) == LOOKS
    before = ["well", *asked[:-1]]
    assert not any("well" not in before[place : place + LOOKS] for place in range(len(before) - LOOKS + 1))
    assert seconds == pytest.approx(len(asked) * hung_s / LOOKS)


@dataclass
class Kept:
    """An engine as the runtime keeps it."""

    handle: EngineHandle
    model: Path
    hung_s: float
    log: str = "its log is beside it"

    async def wait_lost(self, hung_s: float) -> InfrastructureFault:
        assert hung_s == self.hung_s
        return await self.handle.wait_lost(hung_s)

    async def restart(self) -> None:
        await self.handle.restart(self.model, 0)


def told_by(run: Simulated) -> Told:
    """The faults of a run, which a test can wait for."""
    run.core.recorder.population = told = Told(run.core.recorder.population)
    return told


@pytest.mark.long
@pytest.mark.fault("Sick, not dead", "an engine that hangs is killed, told and started again")
@pytest.mark.nightly
async def test_an_engine_that_is_stopped_is_killed_after_its_deadline_and_serves_again(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model", seed=0)
    config = settings(search__threads=2, learner__group_size=2, learner__k=1, faults__hung_s=4.0)
    async with (
        managed_engine(EngineHandle(log=tmp_path / "engine.log"), model) as handle,
        simulated(tmp_path, config, World()) as run,
    ):
        told, stopped = told_by(run), handle.pid
        os.kill(stopped, signal.SIGSTOP)
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep_engine, run.core, Kept(handle, model, 4.0))
                assert await told.faults(2) == ["engine_hung", "engine_back"]
                assert handle.pid != stopped
                assert not psutil.pid_exists(stopped)
                async with httpx.AsyncClient(base_url=handle.url, timeout=60.0, trust_env=False) as http:
                    assert (await http.get("/health")).status_code == 200
                tasks.cancel_scope.cancel()
        assert run.core.engine_up


@pytest.mark.fault("Sick, not dead", "an engine that is busy is not taken for one that hangs")
def test_an_engine_answers_health_checks_while_it_decodes(tmp_path: Path) -> None:
    """Its decoding thread is held up, as by a prompt that takes long."""
    server = EngineServer(save_tiny_model(tmp_path / "model", seed=0))
    begun, over = threading.Event(), threading.Event()

    def long_step() -> None:
        begun.set()
        assert over.wait(DEADLINE_S)

    try:
        held = server.batcher.call(long_step)
        assert begun.wait(DEADLINE_S)
        assert httpx.get(f"{server.url}/health", timeout=DEADLINE_S, trust_env=False).status_code == 200
        assert not held.done()
    finally:
        over.set()
        server.kill()


@dataclass
class Lines:
    """A learner's lines with the seconds of virtual time before each. After them nothing comes."""

    said: list[tuple[float, dict[str, Any]]]
    returncode: int | None = None
    pid: int = -1

    @property
    def stdin(self) -> "Lines":
        return self

    async def send(self, _data: bytes) -> None:
        await anyio.lowlevel.checkpoint()

    async def receive_until(self, _delimiter: bytes, _most: int) -> bytes:
        if not self.said:
            await anyio.sleep_forever()
        await anyio.sleep(self.said[0][0])
        return json.dumps({"id": 1, **self.said.pop(0)[1]}).encode()


@pytest.mark.fault("Sick, not dead", "a learner that hangs while it trains is ended long before the step's deadline")
@pytest.mark.parametrize(
    ("said", "ends", "at"),
    [
        ([(1.0, {"beat": True}), (20.0, {"beat": True})], "learner_hung", 21.0 + 120.0),
        ([(1.0, {"beat": True}), *[(29.0, {"beat": True})] * 10, (5.0, {"logprobs": [0.5]})], "", 296.0),
        ([(1.0, {"beat": True}), *[(29.0, {"beat": True})] * 40], "learner_timeout", 600.0),
        ([(500.0, {"logprobs": [0.5]})], "learner_hung", 120.0),
    ],
    ids=["it beats no more", "it beats and answers", "it beats and answers never", "it never beat"],
)
def test_a_learner_is_waited_for_while_it_gives_signs_of_life(
    said: list[tuple[float, dict[str, Any]]], ends: str, at: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quiet(_pid: int) -> None:
        """There is no process."""

    monkeypatch.setattr("pace_async.learn.rank_processes.kill_group", quiet)

    async def asked() -> tuple[str, float]:
        learner = ProcessLearner(tmp_path, tmp_path / "out", TrainerConfig(), limits=ChildLimits())
        child: Any = Lines(list(said))
        learner._ranks.running = (RankProcess(child, child, tmp_path / "log", 0),)
        monkeypatch.setattr(learner, "_weights", tmp_path)
        try:
            assert await learner.logprobs(0, (1,), (2,)) == (0.5,)
        except InfrastructureFault as fault:
            return fault.kind, anyio.current_time()
        return "", anyio.current_time()

    kind, seconds = run_virtually(asked)
    assert (kind, round(seconds, 3)) == (ends, at)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("words", [0, 1], ids=["before its first sign of life", "while it imports"])
@pytest.mark.fault(
    "Sick, not dead", "a learner stopped while it starts is killed long before its time to start is over"
)
@pytest.mark.nightly
async def test_a_learner_that_is_stopped_while_it_starts_is_hung_and_the_next_one_starts(
    words: int, tmp_path: Path
) -> None:
    from scripts.benchmarks.toys import write_llama

    toy = write_llama(tmp_path / "model", vocab=40, width=16, layers=1)
    log = tmp_path / "learner.log"
    async with ProcessLearner(
        toy, tmp_path / "out", TrainerConfig(), log=log, limits=ChildLimits(start_s=1e6, hung_s=20.0)
    ) as learner:
        stopped = child_of(learner)
        (rank,) = learner._ranks.running  # pyright: ignore[reportPrivateUsage]
        with anyio.fail_after(DEADLINE_S):
            for _ in range(words):
                assert json.loads(await rank.lines.receive_until(b"\n", 100)) == {"beat": True}
            stopped.suspend()
            with pytest.raises(InfrastructureFault, match="learner_hung: no sign of life for 20 s"):
                await learner.ready()
        assert not stopped.is_running()
        assert learner.version == 0
        with anyio.fail_after(DEADLINE_S):
            assert await learner.ready() == toy


@asynccontextmanager
async def watched(run: Simulated, learner: ProcessLearner) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_learner, run.core, learner)
        yield
        tasks.cancel_scope.cancel()


def child_of(learner: ProcessLearner) -> psutil.Process:
    [found] = [
        process for process in psutil.Process().children() if "pace_async.learn.process" in " ".join(process.cmdline())
    ]
    return found


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.fault("Sick, not dead", "a learner lost while it is idle, dead or hung, leaves a row and comes back")
@pytest.mark.nightly
async def test_a_learner_lost_while_idle_is_reported_and_the_next_request_starts_another(
    tmp_path: Path,
) -> None:
    from scripts.benchmarks.toys import write_llama

    toy = write_llama(tmp_path / "model", vocab=40, width=16, layers=1)
    [group] = written_groups(tmp_path / "groups", 1, vocab=40)
    config = settings(search__threads=2, learner__group_size=2, learner__k=1)
    async with (
        ProcessLearner(
            toy, tmp_path / "out", TrainerConfig(learning_rate=1e-3), limits=ChildLimits(hung_s=10.0)
        ) as learner,
        simulated(tmp_path, config, World()) as run,
        watched(run, learner),
    ):
        told = told_by(run)
        with anyio.fail_after(DEADLINE_S):
            await learner.ready()
            child_of(learner).kill()
            assert await told.faults(1) == ["learner_died"]
            assert (await learner.train(group)).version == 1
            stopped = child_of(learner)
            stopped.suspend()
            assert await told.faults(2) == ["learner_died", "learner_hung"]
            await learner.ready()
            assert not stopped.is_running()


ENDS = """
import os, signal, sys
if "{module}" in sys.orig_argv:
    with open({starts!r}, "a+") as starts:
        starts.write("x")
        starts.seek(0)
        if len(starts.read()) <= {times}:
            {how}
"""
"""What Python runs first in a child: it ends the first starts."""
ENGINE, LEARNER = "pace_async.advise.engines.embedded", "pace_async.learn.process"
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


def ended_at_start(patch: pytest.MonkeyPatch, folder: Path, times: int, how: str, module: str = ENGINE) -> Path:
    """The file with a letter for each start."""
    starts, code = folder / "starts", folder / "code"
    code.mkdir()
    (code / "sitecustomize.py").write_text(ENDS.format(starts=str(starts), times=times, how=how, module=module))
    patch.setenv("PYTHONPATH", str(code))
    return starts


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.fault("Sick, not dead", "an engine killed while it starts is started again, as long as patience lasts")
async def test_an_engine_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = save_tiny_model(tmp_path / "model", seed=1)
    starts = ended_at_start(monkeypatch, tmp_path, 2, KILLED)
    told: list[InfrastructureFault] = []

    async def tell(fault: InfrastructureFault) -> None:
        told.append(fault)

    config = settings(advisor__engine="embedded", advisor__model=str(model), faults__backoff_s=0.01)
    with anyio.fail_after(DEADLINE_S):
        async with serving(config, RunPaths(tmp_path / "run"), model, fresh_state(), Probing(tell=tell)) as served:
            answer = await served.client.generate((1, 2, 3), max_tokens=2, temperature=1.0, seed=0)
            assert len(answer.token_ids) == 2
    assert starts.read_text() == "xxx"
    assert [(fault.kind, "ended by SIGKILL while it started" in fault.detail) for fault in told] == [
        ("engine_died", True)
    ] * 2


@pytest.mark.fault("Sick, not dead", "an engine killed while it starts is started again, as long as patience lasts")
@pytest.mark.parametrize(
    ("how", "words"),
    [(KILLED, "ended by SIGKILL while it started"), ("os._exit(3)", "the engine ended before it served")],
    ids=["killed, and no patience left", "ended by itself"],
)
async def test_a_start_that_is_not_tried_again_is_a_fault_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, words: str
) -> None:
    (tmp_path / "config.json").write_text("{}")
    starts = ended_at_start(monkeypatch, tmp_path, 1000, how)
    patience = {"faults__patience_s": 0.05, "faults__backoff_s": 0.1} if how == KILLED else {}
    config = settings(advisor__engine="embedded", advisor__model=str(tmp_path), **patience)
    handle = EngineHandle(log=tmp_path / "engine.log")
    with anyio.fail_after(DEADLINE_S), pytest.raises(InfrastructureFault, match=words):
        async with serving(config, RunPaths(tmp_path / "run"), tmp_path, fresh_state(), Probing()):
            pass
    assert starts.read_text() == "x"
    with anyio.fail_after(DEADLINE_S), pytest.raises(InfrastructureFault, match=words):
        await handle.start(tmp_path, 0)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.fault("Sick, not dead", "a learner killed while it starts is started again, as long as patience lasts")
@pytest.mark.nightly
async def test_a_learner_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scripts.benchmarks.toys import write_llama

    toy = write_llama(tmp_path / "model", vocab=40, width=16, layers=1)
    starts = ended_at_start(monkeypatch, tmp_path, 3, KILLED, LEARNER)
    told: list[InfrastructureFault] = []

    async def tell(fault: InfrastructureFault) -> None:
        told.append(fault)

    async with ProcessLearner(toy, tmp_path / "out", TrainerConfig()) as learner:
        with anyio.fail_after(DEADLINE_S):
            assert await again_if_killed(learner.ready, settings(faults__backoff_s=0.01).faults, tell) == toy
    assert starts.read_text() == "xxxx"
    # One that is found dead before it is asked is started again without a word.
    assert {fault.kind for fault in told} <= {"learner_died"}


def fresh_state() -> RunState:
    """A run that has just begun."""
    return RunState(Terms(4, 2, rules_of(SearchConfig(), UP)))
