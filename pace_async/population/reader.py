"""A population opened for reading only, while a run writes it or after.

Invariant: it never creates or changes the file, and whatever is wrong with it is one UsageError in one sentence. Not
asynchronous: commands use it, and it loads no event loop.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DatabaseError

from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.population import questions, stream
from pace_async.population.audit import Check, audit
from pace_async.population.connect import Place, damage, dangling, engine, in_words, locate, refuse_unless_sound
from pace_async.population.load import find_run, header_of, load_record
from pace_async.population.models import Run
from pace_async.population.read_facts import advice_of
from pace_async.population.record import RunRecord
from pace_async.population.schema import refuse_unless_current, state_of
from pace_async.population.typed import Answer, ask

TYPED_S = 60.0
"""How long a statement that a person typed may take, unless they say otherwise."""


class Reader:
    """Questions to one population. `run` may be left out where it holds only one, or was opened for one."""

    def __init__(self, place: Place, reader: Engine, run: str | None = None) -> None:
        self.place = place
        self._engine = reader
        self._run = run

    def runs(self) -> tuple[str, ...]:
        """Names of the runs, oldest first."""
        with self._open() as connection:
            return tuple(connection.execute(select(Run.name).order_by(Run.run_id)).scalars())

    def header(self, run: str | None = None) -> RunHeader:
        """What the run is."""
        with self._open() as connection:
            return header_of(connection, find_run(connection, run or self._run))

    def record(self, run: str | None = None) -> RunRecord:
        """The run as a resumed runtime would find it."""
        with self._open() as connection:
            return load_record(connection, run or self._run)

    def conservation(self, run: str | None = None) -> dict[str, int]:
        """See `questions.conservation`."""
        with self._open() as connection:
            return questions.conservation(connection, run or self._run)

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

    def advisor_prompts(self, candidate: int, run: str | None = None) -> list[tuple[int, ...]]:
        """Token ids of each question that the advisor was put for a candidate, in order."""
        with self._open() as connection:
            advice = advice_of(connection, find_run(connection, run), [candidate]).get(candidate)
            return [call.prompt_ids for call in advice.calls] if advice is not None else []

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Rows of a statement of our own; `:name` stands for a parameter."""
        with self._open() as connection:
            return questions.rows_of(connection, sql, parameters)

    def sql(self, statement: str, timeout_s: float = TYPED_S) -> Answer:
        """One statement as a person typed it (`typed`). Raises UsageError where it does anything but read this
        database, or takes longer than `timeout_s` seconds."""
        with self._open() as connection:
            try:
                return ask(connection, statement, timeout_s)
            except UsageError as error:
                raise UsageError(f"{_short(self.place)} refuses the statement: {error}.") from None

    def check(self) -> tuple[str, ...]:
        """What is wrong with the file: the database's own check, and, if that finds nothing,
        rows that refer to nothing. Empty when sound."""
        with self._open() as connection:
            return tuple(damage(connection) or dangling(connection))

    def audit(self) -> tuple[Check, ...]:
        """See `audit`: every promise of the file and of the runs in it."""
        with self._open() as connection:
            return tuple(audit(connection))

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
        try:
            with self._engine.connect() as connection:
                yield connection
        except DatabaseError as error:
            raise UsageError(f"{self.place} cannot be read ({in_words(error)}): restore it from a backup.") from None


def _short(place: Place) -> str:
    return place.name if isinstance(place, Path) else str(place)


@contextmanager
def open_readonly(where: str | Place, run: str | None = None) -> Generator[Reader]:
    """A population to ask, about `run` unless a question names another. Raises UsageError for a file that is missing,
    damaged, no population, or of another schema, and for a server that cannot be reached."""
    place = locate(where)
    refuse_unless_sound(place)
    opened = engine(place, "read")
    reader = Reader(place, opened, run)
    try:
        with reader._open() as connection:  # pyright: ignore[reportPrivateUsage]
            state = state_of(connection, str(place))
        refuse_unless_current(state, str(place))
        yield reader
    finally:
        opened.dispose()
