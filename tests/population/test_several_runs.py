"""Runs beside one another in one database, and what a run needs before its first fact."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.errors import PaceBug, UsageError
from pace_async.population.store import Store
from tests.support.population_facts import (
    HEADER,
    fresh,
    opened,
    rollout,
    seed_program,
)

pytestmark = pytest.mark.usefixtures("both")


async def test_a_run_name_is_taken_once_and_several_runs_share_a_database(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await store.commit(*rollout(1))
        with pytest.raises(UsageError, match="already holds a run 'demo'"):
            await store.create_run(HEADER)
        await store.create_run(replace(HEADER, name="other"))
        await store.commit(seed_program(), *rollout(1), *rollout(2))
        assert (await store.load("other")).candidates == 2
        assert (await store.load("demo")).candidates == 1
        with pytest.raises(UsageError, match="several runs \\(demo, other\\)"):
            await store.load()
        with pytest.raises(UsageError, match="no run 'dem'; did you mean 'demo'"):
            await store.load("dem")


async def test_a_seed_beyond_the_database_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "population.db") as store:
        with pytest.raises(UsageError, match="too large"):
            await store.create_run(replace(HEADER, seed=2**63))


async def test_nothing_is_committed_before_a_run_is_chosen(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "population.db") as store:
        with pytest.raises(PaceBug, match="before a run"):
            await store.commit(opened(1))
