"""Names of runs whose machines share one database."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.population.store import Store
from pace_async.runtime.start.refusals import limits_of
from pace_async.runtime.start.resolved import prepare
from pace_async.simulate.runs import header_of
from pace_async.task import load_task
from tests.support.postgres import PostgresServer


async def test_a_run_takes_no_name_of_another_machine_unless_it_is_told_to(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new()
    config = resolve(None, {"task": "circle_packing", "population.url": url, "advisor.model": "tiny"}, {})
    task = limits_of(config, load_task(config.task))
    for number in (1, 2):  # each machine has an empty folder of its own
        here = tmp_path / str(number)
        here.mkdir()
        monkeypatch.chdir(here)
        _, paths = prepare(config, task, None)
        assert paths.name == f"circle_packing-{number}"
        async with Store.open(url) as store:
            await store.create_run(replace(header_of(config, task), name=paths.name))
    _, paths = prepare(config, task, here / "circle_packing-1")
    async with Store.open(url) as store:
        with pytest.raises(UsageError, match="already holds a run 'circle_packing-1'"):
            await store.create_run(replace(header_of(config, task), name=paths.name))
