"""What every population must do, whether it is a file, a server's database, in memory or a double around one."""

from collections.abc import AsyncGenerator

import anyio
import pytest
from sqlalchemy import Connection

from pace_async.errors import PaceBug
from pace_async.population.base import Population
from pace_async.population.memory import MemoryPopulation
from tests.doubles.populations import Interrupting
from tests.support.population_facts import HEADER, evaluated, fresh, opened, populations_on, rollout, seed_program


@pytest.fixture(params=["file", "server", "memory", "double"])
async def population(request: pytest.FixtureRequest) -> AsyncGenerator[Population]:
    if request.param in ("file", "server"):
        with populations_on(request.getfixturevalue("postgres") if request.param == "server" else None):
            async with fresh(request.getfixturevalue("tmp_path")) as store:
                yield store
        return
    memory = MemoryPopulation(HEADER)
    await memory.commit(seed_program())
    yield memory if request.param == "memory" else Interrupting(memory, anyio.CancelScope(), 0, before=False)
    memory.close()


async def leases(population: Population) -> list[int]:
    def question(connection: Connection) -> list[int]:
        return list(connection.exec_driver_sql("select lease from leases order by lease").scalars())

    return await population.read(question)


async def test_a_committed_fact_is_in_the_next_answer(population: Population) -> None:
    await population.commit(*rollout(1))
    assert await leases(population) == [1]
    await population.commit(opened(2), opened(3))
    assert await leases(population) == [1, 2, 3]


async def test_facts_of_one_commit_are_written_all_or_none(population: Population) -> None:
    with pytest.raises(PaceBug):
        await population.commit(opened(1), evaluated(99))
    assert await leases(population) == []
    await population.commit(opened(1))
    assert await leases(population) == [1]


async def test_commits_of_several_tasks_at_once_are_all_written(population: Population) -> None:
    async with anyio.create_task_group() as tasks:
        for lease in range(1, 9):
            tasks.start_soon(population.commit, opened(lease))
    assert await leases(population) == list(range(1, 9))
