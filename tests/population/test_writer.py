"""Requests that come at the same time are synced together, in order, and one request's error never fails another."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, event, insert, select
from sqlalchemy.exc import IntegrityError, OperationalError

from pace_async.population.connect import Place, engine
from pace_async.population.writing.writer import MOST, Writer
from tests.support.population_facts import empty_place


class Counted(Writer):
    """Counts its commits."""

    def __init__(self, place: Place) -> None:
        made = engine(place, "write")
        self.commits = 0
        super().__init__(made)
        event.listen(made, "commit", self._count)

    def _count(self, _: Connection) -> None:
        self.commits += 1


NUMBERS = Table(
    "numbers", MetaData(), Column("place", Integer, primary_key=True), Column("number", Integer, unique=True)
)


async def open_writer(place: Place) -> Counted:
    made = Counted(place)
    await made.run(NUMBERS.create)
    made.commits = 0
    return made


@pytest.fixture
async def writer(both: str, tmp_path: Path) -> AsyncGenerator[Counted]:
    made = await open_writer(empty_place(tmp_path))
    yield made
    await made.close()


def put(number: int) -> "Put":
    return Put(number)


class Put:
    """Writes one number, and counts its calls."""

    def __init__(self, number: int) -> None:
        self.number, self.calls = number, 0

    def __call__(self, connection: Connection) -> int:
        self.calls += 1
        connection.execute(insert(NUMBERS), {"number": self.number})
        return 10 * self.number


def numbers(connection: Connection) -> list[int]:
    return list(connection.scalars(select(NUMBERS.c.number).order_by(NUMBERS.c.place)))


async def test_concurrent_writes_share_syncs_and_keep_their_order(writer: Counted) -> None:
    works = [put(number) for number in range(40)]
    assert await asyncio.gather(*(writer.run(work) for work in works)) == [10 * work.number for work in works]
    assert writer.commits == 2, "the first alone, then all that came while it was written"
    assert await writer.run(numbers) == list(range(40))
    assert {work.calls for work in works} == {1}


async def test_no_transaction_holds_more_than_the_limit(writer: Counted) -> None:
    await asyncio.gather(*(writer.run(put(number)) for number in range(2 * MOST + 1)))
    assert writer.commits == 3


async def test_a_refused_write_fails_no_other(writer: Counted) -> None:
    await writer.run(put(7))
    asked = [1, 7, 2, 3]
    answers = await asyncio.gather(*(writer.run(put(number)) for number in (0, *asked)), return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, int)] == [0, 10, 20, 30]
    assert isinstance(answers[2], IntegrityError)
    assert await writer.run(numbers) == [7, 0, 1, 2, 3]


async def test_a_write_that_fails_halfway_leaves_nothing(writer: Counted) -> None:
    def half(connection: Connection) -> None:
        put(5)(connection)
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        await writer.run(half)
    assert await writer.run(numbers) == []


async def test_a_caller_gets_every_error_that_ends_its_write(writer: Counted) -> None:
    class Odd(BaseException):
        """No Exception, so nothing on the way takes it for one."""

    def end(connection: Connection) -> None:
        put(5)(connection)
        raise Odd

    with anyio.fail_after(20), pytest.raises(Odd):
        await writer.run(end)
    assert await writer.run(numbers) == []


async def test_an_unreachable_database_fails_the_whole_transaction_and_is_tried_again(tmp_path: Path) -> None:
    """In a file: what a server says of a table that is not there is about the statement."""
    writer, broken = await open_writer(tmp_path / "numbers.db"), True

    def reach(connection: Connection) -> int:
        if broken:
            connection.exec_driver_sql("select * from nowhere")
        return put(1)(connection)

    first = asyncio.ensure_future(writer.run(put(0)))
    together = [asyncio.ensure_future(writer.run(work)) for work in (put(2), reach)]
    await asyncio.wait([first, *together])
    assert first.result() == 0
    assert all(isinstance(task.exception(), OperationalError) for task in together)
    broken = False
    assert await writer.run(reach) == 10
    assert await writer.run(numbers) == [0, 1]
    await writer.close()


async def test_the_write_of_a_cancelled_caller_completes(writer: Counted) -> None:
    tasks = [asyncio.ensure_future(writer.run(put(number))) for number in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    assert await writer.run(numbers) == [0, 1, 2]


@pytest.mark.usefixtures("both")
async def test_closing_waits_for_writes_without_a_caller(tmp_path: Path) -> None:
    place = empty_place(tmp_path)
    writer = await open_writer(place)
    tasks = [asyncio.ensure_future(writer.run(put(number))) for number in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    with anyio.fail_after(20):
        await writer.close()
    again = Counted(place)
    assert await again.run(numbers) == [0, 1, 2]
    await again.close()


@pytest.mark.usefixtures("both")
async def test_closing_waits_for_pending_writes(tmp_path: Path) -> None:
    writer = await open_writer(empty_place(tmp_path))
    tasks = [asyncio.ensure_future(writer.run(put(number))) for number in range(5)]
    await asyncio.sleep(0)
    with anyio.fail_after(20):
        await writer.close()
    assert [task.result() for task in tasks] == [0, 10, 20, 30, 40]
