"""What every population must do, whether it is a file, a server's database, in memory or a double around one."""

from collections.abc import AsyncGenerator

import anyio
import pytest
from sqlalchemy import Connection

from pace_async.errors import PaceBug
from pace_async.events import Steered
from pace_async.population.base import Population
from pace_async.population.memory import MemoryPopulation
from pace_async.population.reading.inbox import named_in, note_given, untaken
from pace_async.population.store import Store
from pace_async.population.writing.write_people import NewEntry, insert_entry, inserted
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


async def test_what_people_put_in_is_read_once_and_a_banned_candidate_has_no_rank(population: Population) -> None:
    await population.commit(*rollout(1), *rollout(2, 2))
    for new in (
        NewEntry("ban", subject="candidate", number=2),
        NewEntry("pin", subject="candidate", number=7),
        NewEntry("line\n```\n", subject="note"),
        NewEntry("ban", subject="candidate", number=0),
    ):
        if isinstance(population, Store):
            insert_entry(population.place, 1, new)
        else:
            await population.read(lambda connection, new=new: inserted(connection, 1, new))
    named = await named_in(population, HEADER.name, [2, 7], HEADER.fitness)
    assert named is not None and {number: island for number, (island, _) in named.items()} == {2: 2}
    waiting = await population.read(lambda connection: untaken(connection, HEADER.name))
    assert [(each.entry, each.subject) for each in waiting] == [(1, "candidate"), (2, "candidate"), (3, "note")]
    await population.commit(*(each.taken_in(2, 1.0) for each in waiting if each.number != 7))
    assert [each.entry for each in await population.read(lambda one: untaken(one, HEADER.name))] == [2]
    ranks = "select candidate, merit is null from candidates where candidate > 0 order by candidate"

    def ranked(connection: Connection) -> list[tuple[int, int]]:
        return [(candidate, bool(gone)) for candidate, gone in connection.exec_driver_sql(ranks)]

    assert await population.read(ranked) == [(1, False), (2, True)]
    await population.commit(Steered(9, "candidate", 2, "", 2, 2.0))
    assert await population.read(ranked) == [(1, False), (2, False)]
    assert (await population.read(lambda connection: note_given(connection, 1))).text == "line\n```"


async def test_commits_of_several_tasks_at_once_are_all_written(population: Population) -> None:
    async with anyio.create_task_group() as tasks:
        for lease in range(1, 9):
            tasks.start_soon(population.commit, opened(lease))
    assert await leases(population) == list(range(1, 9))
