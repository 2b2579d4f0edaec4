"""Records how a run ended whose search did not begin: the user stopped it while it started, or a stage did not start.

The search itself records its end (`supervisor.drive`). Invariant: an end that is recorded already stays.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio

from pace_async.errors import Interrupted, PaceError, RunLocked, UsageError
from pace_async.events import RunStateChanged
from pace_async.population.lock import RunLock
from pace_async.population.reading.load import GOES_ON, state_of_run
from pace_async.population.store import Store
from pace_async.runtime.run_paths import RunPaths

WHILE_STARTING = "while it started"
LAST_WORD_S = 10.0


@asynccontextmanager
async def end_recorded(store: Store) -> AsyncGenerator[None]:
    """Within, a cancellation is recorded as `interrupted`, and an error as `gave_up` or `crashed`, if the chosen run's
    last state says that it goes on."""
    try:
        yield
    except PaceError as error:
        await _record(store, "gave_up", str(error))
        raise
    except Exception as error:
        await _record(store, "crashed", type(error).__name__)
        raise
    except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):
        await _record(store, "interrupted", WHILE_STARTING)
        raise


def interrupted(paths: RunPaths) -> Interrupted:
    """What is said of a run whose start or end was interrupted. What a start without a first row left is removed."""
    if paths.holds_run:
        return Interrupted(f"interrupted while it started or ended: `pace resume {paths.folder}` goes on.")
    if paths.folder.is_dir() and not paths.left_by_run:
        with suppress(RunLocked, UsageError), RunLock(paths.folder) as lock:
            for file in (paths.pointer, *paths.folder.glob(f"{paths.file.name}*"), lock.path):
                file.unlink(missing_ok=True)
        with suppress(OSError):
            paths.folder.rmdir()
    return Interrupted("interrupted before the run began; nothing was written.")


async def _record(store: Store, state: str, reason: str) -> None:
    """Silent if the database cannot be reached: the run then counts as cut off, and a resume goes on with it."""
    with anyio.move_on_after(LAST_WORD_S, shield=True), suppress(Exception):
        run_id = store.run_id
        before, _ = await store.read(lambda connection: state_of_run(connection, run_id))
        if before in GOES_ON:
            await store.commit(RunStateChanged(state, reason, time.time()))
