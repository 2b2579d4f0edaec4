"""An engine in another network namespace, which sees no file of the run."""

import shutil
from pathlib import Path

import pytest

from tests.support.engine_models import save_tiny_model
from tests.support.fetching import fetched_by_another_machine
from tests.support.other_machine import EngineThere, other_machine

pytestmark = pytest.mark.long


@pytest.mark.nightly
async def test_an_engine_on_another_machine_fetches_versions_and_keeps_the_old_one_if_a_fetch_breaks_off(
    tmp_path: Path,
) -> None:
    (run := tmp_path / "run").mkdir()
    versions = [save_tiny_model(run / str(seed), seed=seed) for seed in range(3)]
    shutil.copytree(versions[0], tmp_path / "model")
    with other_machine(run, tmp_path / "cache") as machine:
        handle = EngineThere(log=tmp_path / "engine.log", max_rows=4, threads=1, start_s=100.0)
        handle.machine = machine
        await handle.start(tmp_path / "model", 0)
        try:
            await fetched_by_another_machine(handle.url, machine.here, versions)
        finally:
            await handle.stop()
