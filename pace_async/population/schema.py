"""Reads a database's schema version and upgrades it: one alembic tree, applied in process.

The tree lies in the wheel (`_bundled/migrations`) or at the top of the checkout. Revisions are numbered 0001, 0002, …
so that versions compare without loading alembic. A test proves that SCHEMA is the tree's head.
"""

import logging
import os
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DatabaseError, DBAPIError

from pace_async.durable import sync
from pace_async.errors import GaveUp, UsageError
from pace_async.population.connect import (
    Place,
    alone,
    dangling,
    engine,
    in_words,
    locate,
    refuse_unless_sound,
    will_pass,
)
from pace_async.task import BUNDLED, CHECKOUT

SCHEMA = "0044"
State = Literal["none", "older", "current", "newer"]


def migrations_folder() -> Path:
    """The folder of the alembic tree."""
    for folder in (BUNDLED / "migrations", CHECKOUT / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise UsageError("This installation has no migrations folder: install pace-async again.")


def schema_state(where: str | Place) -> State:
    """The database's schema compared with this version of pace, "none" without a file or without tables on the server.
    Raises UsageError for a damaged file, a file that is not a population, or an unreachable server."""
    place = locate(where)
    if isinstance(place, Path) and not place.exists():
        return "none"
    refuse_unless_sound(place)
    reader = engine(place, "read")
    try:
        with reader.connect() as connection:
            if not isinstance(place, Path) and not inspect(connection).get_table_names():
                return "none"
            return state_of(connection, str(place))
    except DatabaseError as error:
        raise UsageError(
            f"{place} cannot be read as a population ({in_words(error)}): restore it from a backup."
        ) from None
    finally:
        reader.dispose()


def state_of(connection: Connection, name: str) -> State:
    """The same over an open connection. `name` names the database in errors."""
    revision = None
    if inspect(connection).has_table("alembic_version"):
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    if revision is None:
        raise UsageError(f"{name} is a database but not a population of pace.")
    return "current" if revision == SCHEMA else "older" if revision < SCHEMA else "newer"


def refuse_unless_current(state: State, name: str) -> None:
    """Raise UsageError, with the remedy, for an older or a newer schema."""
    if state == "older":
        raise UsageError(f"{name} was written by an older pace: run `pace db upgrade` on it first.")
    if state == "newer":
        raise UsageError(f"{name} was written by a newer pace than this one: install that version to use it.")


def upgrade(where: str | Place, revision: str = "head") -> None:
    """Create the database, or bring it to `revision`, in one transaction: all or nothing. A new file gets its name only
    when it is complete. Refuses a newer schema. Raises GaveUp if the disk is full or the database is locked."""
    place = locate(where)
    if schema_state(place) == "newer":
        refuse_unless_current("newer", str(place))
    try:
        if isinstance(place, Path) and not place.exists():
            _create(place, revision)
        else:
            _migrate(place, revision)
    except DBAPIError as error:
        if not will_pass(error):
            raise
        raise GaveUp(f"{place} cannot be written ({in_words(error)}): nothing was changed; try again later.") from None


def _create(path: Path, revision: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_drafts(path)  # left by killed processes
        _migrate(draft, revision)
        draft.replace(path)
        sync(path.parent)
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error.strerror}.") from None
    finally:
        _remove_drafts(path)


def _remove_drafts(path: Path) -> None:
    for draft in path.parent.glob(f".{path.name}.*.tmp*"):
        draft.unlink(missing_ok=True)


def _migrate(place: Place, revision: str) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    writer = engine(place, "migrate")
    logger = logging.getLogger("alembic")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with writer.begin() as connection:
            alone(connection)
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            broken = dangling(connection)
            if broken:
                raise UsageError(f"{place} was left as it was, because it is damaged: {broken[0]}.")
    finally:
        logger.setLevel(level)
        writer.dispose()
