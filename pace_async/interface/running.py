"""Runs from Python: `run` and `resume` wait for the end, `start` and `go_on` are for an event loop (anyio)."""

import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any, overload

import anyio
import anyio.to_thread
from anyio.abc import Process

from pace_async.durable import temporary_folder
from pace_async.errors import UsageError
from pace_async.interface.beginning import Settings
from pace_async.interface.following import events_of
from pace_async.interface.processes import LINE, RunProcess, resumed, start_process
from pace_async.interface.reading import Run


@overload
def run(
    task: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    *,
    config: Sequence[str | Path] = (),
    run_dir: str | Path | None = None,
    advisor_from: str | Path | Run | None = None,
    seeds: str | Path | None = None,
) -> Run: ...
@overload
def run(
    task: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    *,
    config: Sequence[str | Path] = (),
    run_dir: str | Path | None = None,
    advisor_from: str | Path | Run | None = None,
    seeds: int,
) -> list[Run]: ...
def run(
    task: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    *,
    config: Sequence[str | Path] = (),
    run_dir: str | Path | None = None,
    advisor_from: str | Path | Run | None = None,
    seeds: int | str | Path | None = None,
) -> Run | list[Run]:
    """Search to the end, as `pace run` does, and return the run. `config` are files of settings. `settings` override
    them. `advisor_from` is a run whose trained advisor this one begins with. With a number of `seeds` so many runs
    follow one another that differ only in the seed, and are returned in its order. The programs in a folder of `seeds`
    are evaluated first, as those of `search.start_with`. The run is a process of its own. Ctrl-C drains
    it, and raises Interrupted when it has ended. Raises PaceError for what the command refuses, with its sentence."""
    run = _to_its_end(start_process(task, _with_advisor(settings, advisor_from), config, run_dir, seeds))
    if not isinstance(seeds, int):
        return run
    from pace_async.runtime.series import read_series

    series = read_series(Path(run.name))
    return [Run(str(series.paths(seed).folder)) for seed in series.seeds]


def resume(run: str | Path | None = None, settings: Settings | None = None) -> Run:
    """Go on with a run to its end, as `pace resume` does. Raises as `run` does, and RunLocked if another process drives
    it."""
    return _to_its_end(resumed(run, settings))


def _with_advisor(settings: Settings | None, run: str | Path | Run | None) -> Settings:
    advisor = {} if run is None else {"advisor.start_from": run.name if isinstance(run, Run) else str(run)}
    return {**(settings or {}), **advisor}


def _to_its_end(run: RunProcess) -> Run:
    with _file_with(run.document) as document, tempfile.TemporaryFile(dir=temporary_folder()) as errors:
        process = subprocess.Popen(
            LINE, stdin=document, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        while True:
            try:
                return run.ended(process.wait(), errors)
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)


@contextmanager
def _file_with(document: bytes) -> Generator[IO[bytes]]:
    """A file to read it from, which has no name and that nobody else can read."""
    with tempfile.TemporaryFile(dir=temporary_folder()) as file:
        file.write(document)
        file.seek(0)
        yield file


@dataclass(frozen=True, slots=True)
class Going:
    """A run that goes on beside the event loop."""

    run: Run
    _of: RunProcess
    _process: Process
    _said: IO[bytes]

    async def wait(self) -> Run:
        """Wait for the end. Raises PaceError as `run` does."""
        return self._of.ended(await self._process.wait(), self._said)

    def stop(self) -> None:
        """Drain: what runs may finish, nothing new begins. A second time what runs is cancelled."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)

    async def events(self, after: int = 0) -> AsyncIterator[dict[str, Any]]:
        """The run's events as `Run.events` gives them, until its process ended, without the evaluation of the task's
        own program, which comes before the search. For a resumed run the earlier ones come first. Raises PaceError as
        `run` does if there is nothing to read because the run failed."""
        try:
            process = self._process
            async for event in events_of(self.run.name, after, lambda: process.returncode is None, process.wait):
                if (event["event"], event.get("lease")) != ("Evaluated", 0):
                    yield event
        except UsageError:
            await self.wait()
            raise


@asynccontextmanager
async def start(
    task: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    *,
    config: Sequence[str | Path] = (),
    run_dir: str | Path | None = None,
    advisor_from: str | Path | Run | None = None,
) -> AsyncGenerator[Going]:
    """Begin a run beside the event loop. Leaving the block waits for its end. Leaving it by an exception or a
    cancellation drains it first. Raises as `run` does."""
    process = await anyio.to_thread.run_sync(
        start_process, task, _with_advisor(settings, advisor_from), config, run_dir
    )
    async with _beside(process) as going:
        yield going


@asynccontextmanager
async def go_on(run: str | Path | None = None, settings: Settings | None = None) -> AsyncGenerator[Going]:
    """Go on with a run beside the event loop: `start` for `resume`."""
    process = await anyio.to_thread.run_sync(resumed, run, settings)
    async with _beside(process) as going:
        yield going


@asynccontextmanager
async def _beside(run: RunProcess) -> AsyncGenerator[Going]:
    with _file_with(run.document) as document, tempfile.TemporaryFile(dir=temporary_folder()) as errors:
        process = await anyio.open_process(
            LINE, stdin=document, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        going = Going(Run(str(run.folder)), run, process, errors)
        try:
            yield going
        except BaseException:
            going.stop()
            with anyio.CancelScope(shield=True):
                await process.wait()
            run.give_back()
            raise
        await going.wait()
