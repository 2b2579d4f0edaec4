"""The tables of a population in SQLite, made without a migration, for a database that ends with its process."""

import re
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.pool import NullPool

from pace_async.population.models import Base

_LIST = re.compile(r"(\w+) IN \(('\w+'(?:, '\w+')*)\)")
"""The condition of a CHECK that a column has one of several words."""


@cache
def engine_in_memory() -> Engine:
    """Each connection is its own database. A statement is compiled once for all of them."""
    return create_engine(
        "sqlite://", poolclass=NullPool, connect_args={"isolation_level": None, "check_same_thread": False}
    )


def make_tables(connection: Connection) -> None:
    """Make the tables of a population in an empty database of SQLite."""
    database: Any = connection.connection.driver_connection
    database.executescript(_tables())


@cache
def _tables() -> str:
    """The statements that make the tables of an empty population."""
    with engine_in_memory().connect() as connection:
        Base.metadata.create_all(connection)
        statements = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").scalars()
        return _LIST.sub(_compared, ";\n".join(statements) + ";")


def _compared(match: re.Match[str]) -> str:
    """The same condition, as one comparison for each word. SQLite makes a temporary table of a list of three words or
    more in every execution, and a candidate has ten executions with such a list."""
    column, words = match.groups()
    return "(" + " OR ".join(f"{column} = {word}" for word in words.split(", ")) + ")"
