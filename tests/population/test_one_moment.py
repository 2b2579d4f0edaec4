"""Several answers of one moment, whatever is committed between them."""

from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from pace_async.population.reading.reader import Reader, open_readonly
from pace_async.web.runs import OpenRun
from tests.support.population_facts import fresh, rollout

pytestmark = pytest.mark.usefixtures("both")


async def test_answers_within_one_moment_do_not_see_a_later_commit(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await store.commit(*rollout(1, score=2.4))
        with open_readonly(store.place) as reader:
            with reader.at_one_moment() as held:
                before = held.status()
                await store.commit(*rollout(2, score=2.5))
                assert held.status() == before
                assert (held.best()["candidate"], reader.best()["candidate"]) == (1, 2)
                with held.at_one_moment() as again:
                    assert again.best()["candidate"] == 1
            assert reader.status()["candidates"] == before["candidates"] + 1


async def test_a_page_of_the_web_is_made_of_one_moment(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        await store.commit(*rollout(1, score=2.4))

        def made(reader: Reader) -> tuple[Any, Any]:
            counted = reader.status()["candidates"]
            anyio.from_thread.run(store.commit, *rollout(2, score=2.5))
            return counted, reader.best()["candidate"]

        with open_readonly(store.place) as reader:
            run = OpenRun(reader)
            answer = await anyio.to_thread.run_sync(lambda: run.answer("page", made))
            assert answer.value == (1, 1)
            assert reader.best()["candidate"] == 2
