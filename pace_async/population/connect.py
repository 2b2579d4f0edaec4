"""Locates and opens a population. Only this module distinguishes the two kinds of database.

All other code uses SQLAlchemy alone. The differences are in `sqlite` and `postgres`.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from pace_async.durable import refuse_unless_utf8
from pace_async.errors import PaceError, UsageError
from pace_async.population import postgres, sqlite
from pace_async.population.postgres import Server

Access = Literal["write", "read", "migrate"]
Place = Path | Server
"""A SQLite file, or a database on a server."""


def locate(where: str | Place) -> Place:
    """The place of a population, given as a path, sqlite:///PATH or postgresql://USER@HOST/NAME. Raises UsageError for
    anything else. The message never repeats a password."""
    if isinstance(where, Server):
        return where
    if isinstance(where, Path) or "://" not in where:
        path = Path(where).absolute()
        refuse_unless_utf8(path)
        return path
    if where.startswith(("postgresql:", "postgresql+", "postgres:")):
        return postgres.server(where.replace("postgres:", "postgresql:", 1))
    try:
        url = make_url(where)
    except ArgumentError:
        raise UsageError("That is not the URL of a database.") from None
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        raise UsageError(
            "A population lives in a SQLite file, as in sqlite:///runs/NAME/population.db, or in PostgreSQL, as in "
            f"postgresql://USER@HOST/NAME; {url.get_backend_name()} is neither."
        )
    return Path(url.database).absolute()


def refuse_unless_sound(place: Place) -> None:
    """Raise UsageError, in one sentence, if a quick check finds the database missing or damaged."""
    if isinstance(place, Path):
        sqlite.refuse_unless_sound(place)
    else:
        postgres.refuse_unless_there(place)


def engine(place: Place, access: Access) -> Engine:
    """An engine for synchronous code. The caller disposes of it."""
    return sqlite.engine(place, access) if isinstance(place, Path) else postgres.engine(place, access)


def reading_engine(place: Place) -> AsyncEngine:
    """An engine with a few connections for reading beside an event loop. The caller disposes of it."""
    return sqlite.reading_engine(place) if isinstance(place, Path) else postgres.reading_engine(place)


def dangling(connection: Connection) -> list[str]:
    """Rows with broken references, in words. A server never has any."""
    return sqlite.dangling(connection) if _is_file(connection) else []


def damage(connection: Connection) -> list[str]:
    """The damage that the database's own check finds, in words. A server checks its own files."""
    return sqlite.damage(connection) if _is_file(connection) else []


def changed_meanwhile(connection: Connection) -> bool:
    """Whether what this connection read may be of two moments. A server never mixes them."""
    return _is_file(connection) and sqlite.changed_meanwhile(connection)


def damage_soon(place: Place) -> str:
    """The first damage that a quick check finds, in words, empty if there is none. A server checks its own files."""
    return sqlite.damage_soon(place) if isinstance(place, Path) else ""


def identity(place: Place) -> tuple[int, int] | None:
    """What tells a file from one that stands in its place later. None for a server, and for a file that is gone."""
    try:
        status = place.stat() if isinstance(place, Path) else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status is not None else None


@contextmanager
def told_if_damaged(place: Place) -> Generator[None]:
    """Raises UsageError, in one sentence, for the errors of a damaged file, and of one with a value of another type
    than its column's."""
    try:
        yield
    except PaceError:
        raise  # some are a ValueError, too, and say already what is wrong
    except DBAPIError as error:
        if not (isinstance(place, Path) and sqlite.is_damage(error)):
            raise
        raise _damaged(place, error) from None
    except (TypeError, ValueError, AttributeError):
        try:
            mismatch = sqlite.mistyped(place) if isinstance(place, Path) else ""
        except DBAPIError as error:
            raise _damaged(place, error) from None
        if not mismatch:
            raise
        raise UsageError(f"{place} was changed by another program ({mismatch}): restore it from a backup.") from None


def _damaged(place: Place, error: DBAPIError) -> UsageError:
    return UsageError(f"{place} cannot be read, because it is damaged ({in_words(error)}): restore it from a backup.")


def will_pass(error: DBAPIError) -> bool:
    """Whether a later try can succeed: the database is locked, full or unreachable."""
    return sqlite.will_pass(error) if _of_file(error) else postgres.will_pass(error)


def in_words(error: DBAPIError) -> str:
    """The error in a few words, without secrets."""
    return sqlite.in_words(error) if _of_file(error) else postgres.in_words(error)


def number_of(connection: Connection, run_id: int | None) -> str | None:
    """The number of the open transaction that writes the run, to ask later whether it was committed. None if a failed
    transaction is certainly not committed."""
    return None if _is_file(connection) else postgres.number_of(connection, run_id)


def was_made(connection: Connection, number: str, run_id: int | None) -> bool:
    """Whether the transaction of that number, the last that wrote the run, was committed."""
    return not _is_file(connection) and postgres.was_made(connection, number, run_id)


def is_held_by_session(place: Place) -> bool:
    """Whether the writing session holds the run. For a file, the lock in its folder holds it."""
    return not isinstance(place, Path)


def hold(connection: Connection, run_id: int) -> None:
    """Take the run for this connection, or raise RunLocked. Does nothing for a file."""
    if not _is_file(connection):
        postgres.hold(connection, run_id)


def alone(connection: Connection) -> None:
    """Lock the schema until the transaction ends. A file is locked as a whole already."""
    if not _is_file(connection):
        postgres.alone(connection)


def _is_file(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _of_file(error: DBAPIError) -> bool:
    return type(error.orig).__module__.startswith("sqlite3")
