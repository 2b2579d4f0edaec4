"""A population opened read-only, during a run or after it.

Invariant: it never creates or changes the file, and every problem is one UsageError in one sentence. Not asynchronous:
commands use it without an event loop.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, inspect, select
from sqlalchemy.exc import DatabaseError

from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.population.connect import (
    Place,
    changed_meanwhile,
    engine,
    in_words,
    locate,
    refuse_unless_sound,
    told_if_damaged,
)
from pace_async.population.models import RunRow
from pace_async.population.reading import questions, stream
from pace_async.population.reading.browse import Page, Selection, browse
from pace_async.population.reading.following import Follows, both_views, facts_of
from pace_async.population.reading.journal import JournalEntry
from pace_async.population.reading.load import find_run, header_of, load_record, load_standing
from pace_async.population.reading.news import News
from pace_async.population.reading.record import RunRecord, Standing
from pace_async.population.reading.summaries import RunSummary, summaries_of
from pace_async.population.reading.trajectory import Trajectory, trajectory_of
from pace_async.population.reading.typed import Answer, statements
from pace_async.population.schema import refuse_unless_current, schema_state, state_of

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Follows)
TYPED_S = 60.0
"""Default time limit of a typed statement."""


class Reader:
    """Questions to one population. `run` is optional if the population holds only one run or was opened for one. Each
    answer is of one moment, and several are within `at_one_moment`."""

    def __init__(
        self, place: Place, reader: Engine, run: str | None = None, connection: Connection | None = None
    ) -> None:
        self.place = place
        self._engine = reader
        self._run = run
        self._held = connection
        self._news = News(place, reader)

    @contextmanager
    def at_one_moment(self) -> Generator["Reader"]:
        """A reader whose answers are all of one moment of the population, whatever is committed meanwhile."""
        with self._open() as connection:
            yield Reader(self.place, self._engine, self._run, connection)

    def runs(self) -> tuple[str, ...]:
        """Names of the runs, oldest first."""
        with self._open() as connection:
            return tuple(connection.execute(select(RunRow.name).order_by(RunRow.run_id)).scalars())

    def facts(self, after: int = 0, run: str | None = None, *, texts: bool = False) -> Iterator[JournalEntry]:
        """See `following.facts_of`."""
        with self._open() as connection:
            yield from facts_of(connection, find_run(connection, run or self._run), after, texts=texts)

    def both_views(
        self, begin: Callable[[RunHeader, bytes | None], F], run: str | None = None
    ) -> tuple[int, F, F] | None:
        """See `following.both_views`."""
        with self._open() as connection:
            return both_views(connection, find_run(connection, run or self._run), begin)

    def trajectory(self) -> Trajectory:
        """See `trajectory.trajectory_of`."""
        with self._open() as connection:
            return trajectory_of(connection, self._run)

    def standing(self) -> Standing:
        """See `load.load_standing`."""
        with self._open() as connection:
            return load_standing(connection, self._run)

    def summaries(self) -> tuple[RunSummary, ...]:
        """See `summaries.summaries_of`."""
        with self._open() as connection:
            return summaries_of(connection)

    def header(self, run: str | None = None) -> RunHeader:
        """The run's identity and settings."""
        with self._open() as connection:
            return header_of(connection, find_run(connection, run or self._run))

    def record(self, run: str | None = None) -> RunRecord:
        """The run as a resumed runtime would find it."""
        with self._open() as connection:
            return load_record(connection, run or self._run)

    def run_id(self) -> int:
        """The run's number in this population."""
        with self._open() as connection:
            return find_run(connection, self._run)

    def status(self, run: str | None = None) -> dict[str, Any]:
        """See `questions.status`."""
        with self._open() as connection:
            return questions.status(connection, run or self._run)

    def best(self, run: str | None = None) -> dict[str, Any]:
        """See `questions.best`."""
        with self._open() as connection:
            return questions.best(connection, run or self._run)

    def show(self, candidate: int, run: str | None = None) -> dict[str, Any]:
        """See `questions.show`."""
        with self._open() as connection:
            return questions.show(connection, candidate, run or self._run)

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Rows of a trusted statement. `:name` stands for a parameter."""
        with self._open() as connection:
            return questions.rows_of(connection, sql, parameters)

    def browse(self, chosen: Selection, first: int, most: int, run: str | None = None) -> Page:
        """See `browse.browse`."""
        with self._open() as connection:
            return browse(connection, find_run(connection, run or self._run), chosen, first, most)

    def mark(self) -> str:
        """A text that differs after every commit. Cheap, to be asked many times a second."""
        with self._in_words():
            return self._news.mark()

    async def news(self, mark: str) -> None:
        """Wait until the mark is another one: until something was committed after it was given."""
        with self._in_words():
            await self._news.wait(mark)

    def sql(self, statement: str, timeout_s: float = TYPED_S) -> Answer:
        """The answer to a typed statement (`typed`). Raises UsageError if it does anything but read this database, or
        takes longer than `timeout_s` seconds."""
        with self._open() as connection:
            try:
                with statements(connection, timeout_s, "; --timeout SECONDS allows more") as ask:
                    return ask(statement)
            except UsageError as error:
                known = columns_named(connection, statement) if "column" in str(error) else ""
                raise UsageError(f"{_short(self.place)} refuses the statement: {error}.{known}") from None

    def ask(self, question: Callable[Concatenate[Connection, int, P], T], *more: P.args, **keywords: P.kwargs) -> T:
        """The answer to a question about the run, which is given its number."""
        with self._open() as connection:
            return question(connection, find_run(connection, self._run), *more, **keywords)

    def answer(self, question: Callable[[Connection], T]) -> T:
        """The answer to a question to one moment of the population."""
        with self._open() as connection:
            return question(connection)

    def stream(self, kind: stream.Kind, run: str | None = None) -> Iterator[dict[str, Any]]:
        """See `stream.stream`: rows as they are read, of one moment of the run."""
        with self._open() as connection:
            yield from stream.stream(connection, find_run(connection, run or self._run), kind)

    def programs(self, run: str | None = None) -> Iterator[dict[str, Any]]:
        """See `stream.programs`."""
        with self._open() as connection:
            yield from stream.programs(connection, find_run(connection, run or self._run))

    @contextmanager
    def _open(self) -> Generator[Connection]:
        if self._held is not None:
            yield self._held
            return
        with self._in_words(), self._engine.connect() as connection:
            yield connection
            if changed_meanwhile(connection):
                raise UsageError(f"{self.place} was written while it was read: ask again.")

    @contextmanager
    def _in_words(self) -> Generator[None]:
        try:
            yield
        except DatabaseError as error:
            raise UsageError(f"{self.place} cannot be read ({in_words(error)}): restore it from a backup.") from None


def columns_named(connection: Connection, statement: str) -> str:
    """Which columns the tables and views have that a refused statement names, a sentence for each."""
    if connection.dialect.name != "sqlite":
        connection.rollback()  # a server answers nothing more in a transaction that failed
    known, words = inspect(connection), {*re.findall(r"\w+", statement.casefold())}
    tables = [name for name in (*known.get_table_names(), *known.get_view_names()) if name in words]
    return "".join(f" {name} has {', '.join(each['name'] for each in known.get_columns(name))}." for name in tables)


def _short(place: Place) -> str:
    return place.name if isinstance(place, Path) else str(place)


@contextmanager
def open_readonly(where: str | Place, run: str | None = None) -> Generator[Reader]:
    """Open a population for questions, about `run` unless a question names another. Raises UsageError for a file that
    is missing, damaged, no population, or of another schema, and for a server that cannot be reached."""
    place = locate(where)
    refuse_unless_sound(place)
    opened = engine(place, "read")
    reader = Reader(place, opened, run)
    try:
        with reader._open() as connection:  # pyright: ignore[reportPrivateUsage]
            state = state_of(connection, str(place))
        refuse_unless_current(state, str(place))
        with told_if_damaged(place):
            yield reader
    finally:
        reader._news.close()  # pyright: ignore[reportPrivateUsage]
        opened.dispose()


def names_of_runs(where: str | Place) -> tuple[str, ...]:
    """Names of the runs of a population, none if it has no tables yet. Raises UsageError as `open_readonly`."""
    if schema_state(where) == "none":
        return ()
    with open_readonly(where) as reader:
        return reader.runs()
