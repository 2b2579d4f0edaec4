"""Who waits for news hears of every commit, in both kinds of database."""

from collections.abc import Generator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pace_async.errors import UsageError
from pace_async.population import postgres
from pace_async.population.connect import engine
from pace_async.population.reading.following import Following
from pace_async.population.reading.reader import Reader, open_readonly
from tests.support.population_facts import BOTH, fresh, populations_of, rollout

RUN = "demo"


@pytest.fixture(params=BOTH)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Nobody looks at a server unless it notifies."""
    monkeypatch.setattr(postgres, "HEAR_S", float("inf"))
    with populations_of(request):
        yield tmp_path


def test_each_of_several_followers_is_told_of_every_commit(folder: Path) -> None:
    """The next is made when both have what the one before wrote, and nothing else wakes them."""
    commits = 4

    async def follow(reader: Reader, ready: list[anyio.Event], whole: int) -> None:
        following = Following(reader)
        facts = list(following.news())
        for event in ready:
            before = len(facts)
            event.set()
            while len(facts) < before + whole:
                await following.wait()
                facts += following.news()
        assert [entry.seq for entry in facts] == list(range(1, len(facts) + 1))

    async def main() -> None:
        async with fresh(folder) as store:
            with open_readonly(store.place, RUN) as reader, anyio.fail_after(60):
                ready = [[anyio.Event() for _ in range(commits)] for _ in range(2)]
                async with anyio.create_task_group() as tasks:
                    for events in ready:
                        tasks.start_soon(follow, reader, events, len(rollout(1)))
                    for lease, both in enumerate(zip(*ready, strict=True), start=1):
                        for event in both:
                            await event.wait()
                        await store.commit(*rollout(lease))

    anyio.run(main)


def test_a_commit_before_the_wait_is_news(folder: Path) -> None:
    async def main() -> None:
        async with fresh(folder) as store:
            with open_readonly(store.place, RUN) as reader, anyio.fail_after(60):
                mark = reader.mark()
                await store.commit(*rollout(1))
                await reader.news(mark)
                assert reader.mark() != mark

    anyio.run(main)


def test_who_waits_is_told_that_the_server_ended_the_connection_and_can_wait_again(folder: Path) -> None:
    async def main() -> None:
        async with fresh(folder) as store:
            if isinstance(store.place, Path):
                pytest.skip("a file has no connection to end")
            with open_readonly(store.place, RUN) as reader, anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_end_sessions, store.place)
                    with pytest.raises(UsageError, match="does not answer"):
                        while True:  # the server's own transactions, such as autovacuum's, are news too
                            await reader.news(reader.mark())
                mark = reader.mark()
                await store.commit(*rollout(1))
                await reader.news(mark)

    async def _end_sessions(place: postgres.Server) -> None:
        other = engine(place, "migrate")
        ended = 0
        while not ended:
            with other.begin() as connection:
                ended = connection.exec_driver_sql(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                    "WHERE query LIKE 'LISTEN%%' AND datname = current_database()"
                ).scalar_one()
            await anyio.lowlevel.checkpoint()
        other.dispose()

    anyio.run(main)
