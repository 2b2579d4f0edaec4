"""A run's events in Python: the facts of its journal as they are committed, until the run ends."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

from pace_async.errors import UsageError
from pace_async.interface.opening import open_anywhere

if TYPE_CHECKING:
    from pace_async.population.reading.following import Following
    from pace_async.population.reading.journal import JournalEntry

LOOK_S = 0.5
"""Between two looks whether a process still drives the run, or whether a run that begins has its database yet."""
BATCH = 500
"""Facts read at once."""


async def events_of(
    run: str,
    after: int,
    goes_on: Callable[[], bool],
    end: Callable[[], Awaitable[object]] | None = None,
) -> AsyncGenerator[dict[str, Any]]:
    """The events whose `seq` is greater than `after`. `goes_on` says whether the run does, `end` returns at the latest
    when it does not any more. A database that is away is waited for while the run goes on. Raises UsageError if it
    cannot be read after that."""
    import anyio  # only here: `pace --version` imports this room
    import anyio.to_thread

    following: Following | None = None
    with ExitStack() as stack:
        while True:
            over, entries = not await anyio.to_thread.run_sync(goes_on), list["JournalEntry"]()
            try:
                following = following or _follower(stack, run, after)
                entries = await anyio.to_thread.run_sync(_some, following)
                if not entries and not over:
                    from pace_async.population.reading.news import first_of

                    with anyio.move_on_after(LOOK_S):
                        await first_of(end or anyio.sleep_forever, following.wait)
            except UsageError:
                if over:
                    raise
                await anyio.sleep(LOOK_S)
            for entry in entries:
                yield _event(entry)
            if over and not entries:
                return


def _follower(stack: ExitStack, run: str, after: int) -> "Following":
    from pace_async.population.reading.following import Following

    _, reader = stack.enter_context(open_anywhere(run))
    return Following(reader, after, texts=True)


def _some(following: "Following") -> "list[JournalEntry]":
    return list(islice(following.news(), BATCH))


def _event(entry: "JournalEntry") -> dict[str, Any]:
    """The fact as `events.jsonl` has it, with its number."""
    from pace_async.events import RunHeader
    from pace_async.observe.followed import stop_of
    from pace_async.observe.jsonl import event_line, header_line

    fact = entry.fact
    line = header_line(fact, stop_of(fact)) if isinstance(fact, RunHeader) else event_line(fact, entry.at)
    return {**json.loads(line), "seq": entry.seq}
