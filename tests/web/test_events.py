"""The stream that a browser follows: the newest fact after every commit, and none twice over a lost connection."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.applications import Starlette
from starlette.types import Message

from pace_async.population.reading.journal import last_seq
from pace_async.population.reading.reader import open_readonly
from pace_async.web.app import application
from pace_async.web.runs import OpenRun
from tests.support.population_facts import fresh, rollout

pytestmark = pytest.mark.usefixtures("both")


@asynccontextmanager
async def streaming(
    app: Starlette, path: str, last: str | None = None
) -> AsyncGenerator[MemoryObjectReceiveStream[str]]:
    """What a browser gets from an address that ends with the block. `last` is the last id that it has."""
    tell, told = anyio.create_memory_object_stream[str](100)
    headers = [(b"host", b"here"), *([] if last is None else [(b"last-event-id", last.encode())])]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}

    async def receive() -> Message:
        await anyio.sleep_forever()
        return {}

    async def send(message: Message) -> None:
        if text := message.get("body", b"").decode():
            await tell.send(text)

    with anyio.fail_after(60), tell, told:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app, scope, receive, send)
            assert await told.receive() == "retry: 1000\n\n"
            yield told
            tasks.cancel_scope.cancel()


async def test_a_browser_is_told_of_each_commit_and_after_a_lost_connection_only_of_what_it_missed(
    tmp_path: Path,
) -> None:
    async with fresh(tmp_path) as store:
        with open_readonly(store.place, "demo") as reader:
            runs = {"a run": OpenRun(reader), "again": OpenRun(reader)}
            app = application(runs, token=None, hosts=frozenset(("here",)), stopping=anyio.Event())
            newest = reader.ask(last_seq)
            async with streaming(app, "/run/a run/events") as told:
                assert await told.receive() == f"id: {newest}\ndata: {newest}\n\n"
                for lease in (1, 2):
                    await store.commit(*rollout(lease))
                    newest += len(rollout(lease))
                    assert await told.receive() == f"id: {newest}\ndata: {newest}\n\n"
            async with streaming(app, "/run/a run/events", str(newest)) as told:
                await store.commit(*rollout(3))
                newest += len(rollout(3))
                assert await told.receive() == f"id: {newest}\ndata: {newest}\n\n"
            await store.commit(*rollout(4))
            async with streaming(app, "/run/a run/events", str(newest)) as told:
                newest += len(rollout(4))
                assert await told.receive() == f"id: {newest}\ndata: {newest}\n\n"
            async with streaming(app, "/events") as told:
                assert await told.receive() == f"id: {newest} {newest}\ndata: {newest} {newest}\n\n"
