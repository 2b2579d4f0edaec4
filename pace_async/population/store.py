"""The population, open for writing: the only writer of a run.

Invariant: an acknowledged `commit` is completely on the disk and survives kill -9 and a power cut. An unacknowledged
one is there completely or not at all. Commits happen in the order of the calls (`writer`), and cancelling the caller
does not interrupt one. Reads use their own connections and never wait for the writer.
"""

import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

import anyio
from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from pace_async.errors import GaveUp, PaceBug, UsageError
from pace_async.events import Fact, RunHeader
from pace_async.population.checking import import_journal
from pace_async.population.connect import (
    Place,
    damage_soon,
    engine,
    hold,
    identity,
    in_words,
    is_held_by_session,
    locate,
    reading_engine,
    told_if_damaged,
)
from pace_async.population.reading.load import header_of, load_record, load_standing
from pace_async.population.reading.questions import rows_of
from pace_async.population.reading.record import RunRecord, Standing
from pace_async.population.schema import refuse_unless_current, schema_state, upgrade
from pace_async.population.writing.outage import Outage, Recovered, Say, ignore_news
from pace_async.population.writing.scope import scope_of
from pace_async.population.writing.uncut import Uncut
from pace_async.population.writing.write_people import NewEntry, inserted
from pace_async.population.writing.write_run import run_created
from pace_async.population.writing.write_snapshots import snapshot_kept
from pace_async.population.writing.writer import REFUSALS, Writer
from pace_async.population.writing.writes import write

log = logging.getLogger(__name__)

CLOSE_S = 30.0
SECRET_BYTES = 32
RESUME = "`pace resume` the run"
T = TypeVar("T")


class Store:
    """Implements `population.base.Population`. Opened by `Store.open`. `create_run` or `load` selects the run."""

    def __init__(self, place: Place, writer: Writer, reader: AsyncEngine) -> None:
        self.place = place
        self._writer = writer
        self._reader = reader
        self._uncut = Uncut()
        self._say: Say = ignore_news
        self._then = RESUME
        self._over: Recovered | None = None
        self._callers: set[anyio.CancelScope] = set()
        writer.tell = self._news
        self._run: tuple[int, RunHeader] | None = None
        self._may_lack_journal = True
        self._was_away = False

    @classmethod
    @asynccontextmanager
    async def open(cls, where: str | Place, *, create: bool = True) -> AsyncGenerator[Self]:
        """Open a population. With `create`, a missing one is created. Raises UsageError for a file that is damaged, no
        population, or of another schema."""
        place = locate(where)
        with told_if_damaged(place):
            state = await anyio.to_thread.run_sync(schema_state, place)
        if state == "none":
            if not create:
                raise UsageError(f"There is no population at {place}.")
            await anyio.to_thread.run_sync(upgrade, place)
        refuse_unless_current(state, str(place))
        store = cls(place, Writer(engine(place, "write")), reading_engine(place))
        try:
            with told_if_damaged(place):
                yield store
        finally:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await store.close()

    def be_patient(self, seconds: float, say: Say, then: str = RESUME) -> None:
        """Set how long to wait for a database that is locked, full or unreachable, who is notified, and what the
        message tells the user to do after that, as in RESUME."""
        self._writer.patience_s, self._say, self._then = seconds, say, then

    def guard(self, check: Callable[[], None]) -> None:
        """Call `check` before every transaction, in the writer's thread. What it raises refuses the commit. A file that
        another one replaced is refused too: SQLite would write on into the one without a name."""
        first = identity(self.place)

        def same() -> None:
            check()
            if identity(self.place) != first:
                raise GaveUp(
                    f"{self.place} was removed or replaced while its run went on: nothing more is written, and what "
                    "was committed is in the file that stood there. Put that one, or a backup, in its place, and "
                    f"{self._then}."
                )

        self._writer.guard = same

    async def refuse_if_damaged(self) -> None:
        """A last look when a run has ended. Raises GaveUp if its file was replaced, or a quick check finds damage."""
        await anyio.to_thread.run_sync(self._writer.guard)
        if flaw := await anyio.to_thread.run_sync(damage_soon, self.place):
            raise GaveUp(
                f"{self.place} was damaged while its run went on ({flaw}): `pace db check` says more; restore it from "
                f"a backup, and {self._then}."
            )

    async def close(self) -> None:
        """Finish pending writes and close the file. `open` calls this."""
        await self._uncut.settle()
        await self._reader.dispose()
        await self._writer.close()

    async def create_run(
        self, header: RunHeader, *, secret: str | None = None, programs: Sequence[tuple[str, str]] = ()
    ) -> int:
        """Begin a run and select it for writing. Returns run_id. Raises UsageError if the name is taken. `secret`, from
        which fresh instances derive, is drawn at random. A test gives it to get equal ones. `programs` are evaluated
        first, each with what it is: they are in the inbox as soon as there is a run."""

        def created(connection: Connection) -> int:
            run_id = run_created(connection, header, drawn, now)
            for program, about in programs:
                inserted(connection, run_id, NewEntry(about, program))
            return run_id

        now, drawn = time.time(), secrets.token_hex(SECRET_BYTES) if secret is None else secret
        try:
            run_id = await self._write(created)
        except IntegrityError as error:
            if not any(word in str(error.orig) for word in ("runs.name", "uq_runs_name")):
                raise PaceBug(f"the record refuses the run {header.name!r}: {error.orig}") from error
            raise UsageError(
                f"{self.place} already holds a run {header.name!r}: resume it, or choose another name."
            ) from None
        except (OverflowError, DataError):
            raise UsageError(f"seed {header.seed} is too large for the database: use one below 2**63.") from None
        await self._drive(run_id, header)
        return run_id

    async def load(self, name: str | None = None) -> RunRecord:
        """Read the record of the run called `name`, or of the only one, and select it for writing."""
        record = await anyio.to_thread.run_sync(self._loaded, name)
        await self._drive(record.run_id, record.header)
        return record

    async def standing(self, name: str | None = None) -> Standing:
        """Read how far the run called `name`, or the only one, is, and select it for writing."""
        standing = await self.read(lambda connection: load_standing(connection, name))
        await self._drive(standing.run_id, standing.header)
        return standing

    def _loaded(self, name: str | None) -> RunRecord:
        """Read in a thread, because the answer is long and must not block the event loop."""
        reader = engine(self.place, "read")
        try:
            with told_if_damaged(self.place), reader.begin() as connection:
                return load_record(connection, name)
        finally:
            reader.dispose()

    async def _drive(self, run_id: int, header: RunHeader) -> None:
        """Become the run's writer, on every connection. Raises RunLocked."""

        def drive(connection: Connection) -> None:
            hold(connection, run_id)

        if is_held_by_session(self.place):
            self._writer.hold = self._writer.run_id = None
            await self._write(drive)
            self._writer.hold, self._writer.run_id = drive, run_id
        self._run, self._may_lack_journal = (run_id, header), True

    async def commit(self, *facts: Fact) -> None:
        """Write the facts in one transaction, all or none, shielded from cancellation. A NUL or a lone surrogate in a
        text is written as U+FFFD, a metric that is not finite as null. The first commit to a run of a version without a
        journal gives it one. Raises PaceBug if a fact contradicts the record, GaveUp if the database stays unreachable.
        In both cases nothing was written."""
        if self._run is None:
            raise PaceBug("nothing can be committed before a run is created or loaded")
        run_id, header = self._run

        def write_all(connection: Connection) -> None:
            if self._may_lack_journal:
                import_journal(connection, run_id)
            scope = scope_of(connection, run_id, header)
            for fact in facts:
                write(scope, fact)

        await self._write(write_all)
        self._may_lack_journal = False
        if self._over is not None:
            (over, self._over), now = (self._over, None), time.time()
            fact = over.fact(now)
            await self._write(lambda connection: write(scope_of(connection, run_id, header), fact))
            self._say(fact)

    def keep_snapshot(self, seq: int, encode: Callable[[], tuple[bytes, bytes]]) -> None:
        """Keep in the background what the facts up to `seq` come to: the state and the view, which `encode` gives in a
        thread. The run does not depend on it: a failure is logged. After an outage none is kept, because a commit that
        waited through it may be answered after later ones."""
        if not self._was_away:
            self._uncut.begin(self._snapshot_kept(seq, encode))

    async def _snapshot_kept(self, seq: int, encode: Callable[[], tuple[bytes, bytes]]) -> None:
        run_id = self.run_id
        try:
            state, view = await anyio.to_thread.run_sync(encode)
            await self._write(lambda connection: snapshot_kept(connection, run_id, seq, time.time(), state, view))
        except Exception:  # the run does not depend on it
            log.exception("no snapshot of %d facts was kept", seq)

    async def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> Sequence[Mapping[str, Any]]:
        """Rows of a read-only statement. `:name` stands for a parameter. Sees every acknowledged commit."""
        return await self.read(lambda connection: rows_of(connection, sql, parameters))

    async def header(self) -> RunHeader:
        """The header of the run that is written, from its row."""
        run_id = self.run_id
        return await self.read(lambda connection: header_of(connection, run_id))

    @property
    def run_id(self) -> int:
        """The run that is written."""
        if self._run is None:
            raise PaceBug("no run was created or loaded")
        return self._run[0]

    async def read(self, question: Callable[[Connection], T]) -> T:
        """Answer `question` in one read-only transaction, so that all its parts are of one moment."""
        return await self._uncut.run(self._ask(question))

    async def _ask(self, question: Callable[[Connection], T]) -> T:
        with told_if_damaged(self.place):
            async with self._reader.begin() as connection:
                return await connection.run_sync(question)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        done: list[T] = []
        with anyio.CancelScope(shield=self._writer.outage is None) as caller:
            self._callers.add(caller)
            try:
                done.append(await self._writer.run(work))
            except REFUSALS:
                raise
            except DBAPIError as error:
                raise GaveUp(
                    f"{self.place} cannot be written ({in_words(error)}): nothing acknowledged is lost; "
                    f"see to the disk, or to what holds the file, and {self._then}."
                ) from error
            finally:
                self._callers.discard(caller)
        return done[0]

    def _news(self, news: Outage | Recovered) -> None:
        """Let callers be cancelled during an outage. Their queued writes stay queued."""
        self._was_away = True
        for caller in self._callers:
            caller.shield = isinstance(news, Recovered)
        if isinstance(news, Recovered):
            self._over = news
        else:
            self._say(news)
