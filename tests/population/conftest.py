"""Small runs to be read, in a file and on a server."""

from pathlib import Path

import anyio
import pytest

from pace_async.population.connect import Place
from tests.support.population_facts import BOTH, fresh, populations_of, populations_on, rollout
from tests.support.postgres import PostgresServer


async def _small_run(folder: Path) -> Place:
    async with fresh(folder) as store:
        for lease in range(1, 30):
            await store.commit(*rollout(lease))
        return store.place


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A file, to be spoilt."""
    made = anyio.run(_small_run, tmp_path)
    assert isinstance(made, Path)
    return made


@pytest.fixture(scope="module", params=BOTH)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A run in a file or on a server, to be read."""
    with populations_of(request):
        return anyio.run(_small_run, tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def on_server(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A run on a server, to be read."""
    with populations_on(postgres):
        return anyio.run(_small_run, tmp_path_factory.mktemp("server"))
