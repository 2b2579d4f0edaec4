"""The engine's process: it comes up or says why, its death is noticed, it is restarted, and nothing of it is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.managed import EngineHandle, managed_engine
from pace_async.children import clean_environment
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.events import TokenSpan
from tests.support.engine_models import save_tiny_model


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.fault("Advisor and engine", "dies while it answers")
async def test_a_killed_engine_is_noticed_faults_its_requests_and_is_restarted_in_place(tmp_path: Path) -> None:
    first, second = (save_tiny_model(tmp_path / str(seed), seed=seed) for seed in range(2))
    faults: list[str] = []
    async with managed_engine(EngineHandle(log=tmp_path / "logs" / "engine.log"), first) as handle:
        url, pid = handle.url, handle.pid
        async with HttpEngine(url, timeout_s=60.0) as engine:

            async def ask() -> None:
                with pytest.raises(InfrastructureFault) as caught:
                    await engine.generate((1, 2), max_tokens=2000, temperature=1.0, seed=0)
                faults.append(caught.value.kind)

            assert await engine.served_version() == 0
            with anyio.fail_after(60.0):
                async with anyio.create_task_group() as tasks:
                    for _ in range(3):
                        tasks.start_soon(ask)
                    await engine.encode("the requests are on their way")
                    os.kill(pid, signal.SIGKILL)
                    assert await handle.wait_died() == -signal.SIGKILL
            assert faults == ["engine_unreachable"] * 3

            with anyio.fail_after(60.0):
                await handle.restart(second, version=4)
            assert handle.url == url
            assert handle.pid != pid
            assert await engine.served_version() == 4
            answer = await engine.generate((1, 2), max_tokens=5, temperature=1.0, seed=0)
            assert answer.spans == (TokenSpan(4, 0, 5),)
            assert psutil.Process(handle.pid).memory_info().rss < 900 * 2**20
            last = handle.pid
    assert not alive(pid)
    assert not alive(last)


@pytest.mark.long
def test_an_engine_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model", seed=0)
    parent = (
        "import anyio, pathlib\n"
        "from pace_async.advise.engines.managed import EngineHandle, managed_engine\n"
        "async def main():\n"
        f"    model, log = pathlib.Path({str(model)!r}), pathlib.Path({str(tmp_path / 'log')!r})\n"
        "    async with managed_engine(EngineHandle(log=log), model) as e:\n"
        "        print(e.pid, flush=True)\n"
        "        await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent],
        stdout=subprocess.PIPE,
        env=clean_environment(OMP_NUM_THREADS="1"),
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        engine = psutil.Process(int(process.stdout.readline()))
        process.kill()
    _, left = psutil.wait_procs([engine], timeout=30.0)
    assert left == []


async def test_a_folder_without_a_model_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a model directory"):
        async with managed_engine(EngineHandle(log=tmp_path / "log"), tmp_path):
            pass


@pytest.mark.long
@pytest.mark.nightly
async def test_a_model_that_cannot_be_served_is_a_fault_that_says_why(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model", seed=0)
    (model / "model.safetensors").unlink()
    with pytest.raises(InfrastructureFault, match=r"engine_start.*no safetensors file") as caught:
        async with managed_engine(EngineHandle(log=tmp_path / "log"), model):
            pass
    assert str(tmp_path / "log") in caught.value.detail


@pytest.mark.fault("Advisor and engine", "slow to start")
async def test_an_engine_that_is_not_up_in_time_is_a_fault_and_is_ended(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model", seed=0)
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(InfrastructureFault, match="engine_start"):
        async with managed_engine(EngineHandle(log=tmp_path / "log", start_s=0.01), model):
            pass
    assert {child.pid for child in psutil.Process().children()} <= before
