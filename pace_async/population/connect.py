"""Where a population is and how to talk to it: the one room that knows that there are two kinds of database.

Everything above speaks SQLAlchemy and does not ask which it is; `sqlite` and `postgres` have what differs.
"""

from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from pace_async.errors import UsageError
from pace_async.population import postgres, sqlite
from pace_async.population.postgres import Server

Access = Literal["write", "read", "migrate"]
Place = Path | Server
"""A SQLite file, or a database on a server."""


def locate(where: str | Place) -> Place:
    """The place of a population, given as a path, sqlite:///PATH or postgresql://USER@HOST/NAME. Raises UsageError for
    anything else; a password is never repeated."""
    if isinstance(where, Server):
        return where
    if isinstance(where, Path) or "://" not in where:
        return Path(where).absolute()
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
    """Raise UsageError, in one sentence, unless the database is there and whole, as far as can be told at once."""
    if isinstance(place, Path):
        sqlite.refuse_unless_sound(place)
    else:
        postgres.refuse_unless_there(place)


def engine(place: Place, access: Access) -> Engine:
    """One for code that is not asynchronous. Whoever makes an engine disposes of it."""
    return sqlite.engine(place, access) if isinstance(place, Path) else postgres.engine(place, access)


def reading_engine(place: Place) -> AsyncEngine:
    """A few connections for reading beside an event loop. Whoever makes an engine disposes of it."""
    return sqlite.reading_engine(place) if isinstance(place, Path) else postgres.reading_engine(place)


def dangling(connection: Connection) -> list[str]:
    """Rows that refer to nothing, in words. A server does not let them be."""
    return sqlite.dangling(connection) if _is_file(connection) else []


def damage(connection: Connection) -> list[str]:
    """What the database's own check finds broken, in words. A server keeps its files by itself."""
    return sqlite.damage(connection) if _is_file(connection) else []


def will_pass(error: DBAPIError) -> bool:
    """Whether trying again later can help: somebody else holds the database, it is full, or away."""
    return sqlite.will_pass(error) if _of_file(error) else postgres.will_pass(error)


def in_words(error: DBAPIError) -> str:
    """What is wrong, in a few words, without a secret."""
    return sqlite.in_words(error) if _of_file(error) else postgres.in_words(error)


def number_of(connection: Connection, run_id: int | None) -> str | None:
    """What the open transaction, which writes that run, is called, where it can be asked later whether it was made;
    None where a transaction that failed was not."""
    return None if _is_file(connection) else postgres.number_of(connection, run_id)


def was_made(connection: Connection, number: str, run_id: int | None) -> bool:
    """Whether the transaction of that number, the last that wrote that run, was committed."""
    return not _is_file(connection) and postgres.was_made(connection, number, run_id)


def is_held_by_session(place: Place) -> bool:
    """Whether a run is held by the session that writes it. A file is held by the lock in its folder."""
    return not isinstance(place, Path)


def hold(connection: Connection, run_id: int) -> None:
    """Drive a run from this connection, or raise RunLocked. Does nothing to a file."""
    if not _is_file(connection):
        postgres.hold(connection, run_id)


def alone(connection: Connection) -> None:
    """Until the transaction ends nobody else changes the schema; a file is locked as a whole anyway."""
    if not _is_file(connection):
        postgres.alone(connection)


def _is_file(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _of_file(error: DBAPIError) -> bool:
    return type(error.orig).__module__.startswith("sqlite3")
