"""A real vLLM server in another network namespace, which sees no file of the run, with models of 135M weights."""

import shutil
from pathlib import Path

import pytest

from pace_async.advise.engines.served_copy import serve_from
from pace_async.advise.engines.vllm_found import Build, find_vllm
from pace_async.advise.engines.vllm_managed import VllmSettings
from scripts.benchmarks.bench_publish import SHAPE, make
from tests.support.fetching import fetched_by_another_machine
from tests.support.other_machine import VllmThere, other_machine

pytestmark = [pytest.mark.anyio, pytest.mark.needs_vllm, pytest.mark.timeout(900)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_vllm_server_on_another_machine_fetches_a_version_and_keeps_the_old_one_if_a_fetch_breaks_off(
    tmp_path: Path,
) -> None:
    layers = int(str(SHAPE["num_hidden_layers"]))
    run = tmp_path / "run"
    versions = [make(run / str(seed), seed, layers) for seed in range(3)]
    shutil.copytree(versions[0], tmp_path / "given")
    model = serve_from(tmp_path / "given", tmp_path / "model")
    build = find_vllm()
    assert isinstance(build, Build)
    settings = VllmSettings(kv_cache_gib=0.25 if build.device == "cpu" else None, gpu_memory=0.3)
    with other_machine(run, tmp_path / "cache") as machine:
        handle = VllmThere(build, settings, log=tmp_path / "logs" / "engine.log", start_s=600.0)
        handle.machine = machine
        (tmp_path / "logs").mkdir()
        await handle.start(model)
        try:
            await fetched_by_another_machine(handle.url, machine.here, versions)
        finally:
            await handle.stop()
    assert len(list((tmp_path / "cache" / "versions").glob("*/COMPLETE"))) == 2
