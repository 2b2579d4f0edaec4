"""Statements that are compiled once and then run directly.

For every execution SQLAlchemy looks up the statement, checks and binds its parameters and wraps the result. This takes
more than twice the database's own time, and a candidate takes a dozen statements, so it dominated the cost of a commit.
The SQL, the order of parameters, the conversion of values (`columns`) and the errors are still SQLAlchemy's. The cursor
is the driver's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import Connection, Dialect, LargeBinary
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement

from pace_async.outside import sound
from pace_async.population.columns import clean_or_none

_Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """`parameters` makes of a row what the driver takes."""

    sql: str
    parameters: Callable[[Mapping[str, Any]], Any]


class Prepared:
    """A statement with a fixed set of parameters: its bindparams, or for an INSERT without values its `columns`. No
    expanding parameter."""

    def __init__(self, statement: ClauseElement, columns: tuple[str, ...] | None = None) -> None:
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}

    def run(self, connection: Connection, *rows: Mapping[str, Any]) -> int:
        """Execute with one row of parameters, or with each of several. Returns how many rows of the database it
        changed. Raises what `Connection.execute` raises."""
        cursor = self._executed(connection, rows)
        try:
            return cursor.rowcount
        finally:
            cursor.close()

    def value(self, connection: Connection, row: Mapping[str, Any]) -> Any:
        """The first column of the first row, as the driver returns it, or None without a row."""
        cursor = self._executed(connection, (row,))
        try:
            record = cursor.fetchone()
        finally:
            cursor.close()
        return None if record is None else record[0]

    def values(self, connection: Connection, row: Mapping[str, Any]) -> list[Any]:
        """The first column of every row selected or returned, as the driver returns it."""
        cursor = self._executed(connection, (row,))
        try:
            return [record[0] for record in cursor.fetchall()]
        finally:
            cursor.close()

    def _executed(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> Any:
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = _compile(self._statement, self._columns, dialect)
        is_single = len(rows) == 1
        parameters: Any = compiled.parameters(rows[0]) if is_single else [compiled.parameters(row) for row in rows]
        driver: Any = connection.connection.dbapi_connection
        cursor = driver.cursor()
        try:
            if is_single:
                cursor.execute(compiled.sql, parameters)
            else:
                cursor.executemany(compiled.sql, parameters)
        except dialect.loaded_dbapi.Error as error:
            cursor.close()
            raise DBAPIError.instance(
                compiled.sql, parameters, error, dialect.loaded_dbapi.Error, dialect=dialect
            ) from error
        return cursor


def _compile(statement: ClauseElement, columns: tuple[str, ...] | None, dialect: Dialect) -> _Compiled:
    compiled: Any = statement.compile(dialect=dialect, column_keys=None if columns is None else list(columns))
    converts: dict[str, _Convert] = {}
    for parameter, name in compiled.bind_names.items():
        convert = parameter.type.dialect_impl(dialect).bind_processor(dialect)
        if isinstance(parameter.type, LargeBinary) and dialect.name == "sqlite":
            convert = _taken_as_it_is
        if convert is not None:
            converts[name] = convert
    fixed = {name: value for name, value in compiled.params.items() if value is not None}
    names = tuple(cast("list[str]", compiled.positiontup) if compiled.positional else compiled.bind_names.values())
    values = _values(names, converts, fixed)
    if compiled.positional:
        return _Compiled(str(compiled), values)
    return _Compiled(str(compiled), lambda row: dict(zip(names, values(row), strict=True)))


def _taken_as_it_is(blob: bytes | None) -> bytearray | None:
    """SQLite's driver takes a bytearray at once. For `bytes` and `memoryview` it first searches for an adapter."""
    return None if blob is None else bytearray(blob)


def _values(
    names: tuple[str, ...], converts: Mapping[str, _Convert], fixed: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """A function from a row to the values of `names`, in their order. `converts` has the names whose values are
    converted. `fixed` are values that stand in the statement itself. Most of what is converted is text that is clean
    already, so it is looked at here and not by a call for each."""
    pick: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    pick = itemgetter(*names) if len(names) > 1 else lambda row: tuple(row[name] for name in names)
    texts = tuple(place for place, name in enumerate(names) if converts.get(name) is clean_or_none)
    others = tuple(
        (place, converts[name]) for place, name in enumerate(names) if name in converts and place not in texts
    )

    def values(row: Mapping[str, Any]) -> Sequence[Any]:
        picked = list(pick({**fixed, **row} if fixed else row))
        for place in texts:
            text = picked[place]
            if text is not None and not (text.isascii() and "\0" not in text):
                picked[place] = sound(text)
        for place, convert in others:
            picked[place] = convert(picked[place])
        return picked

    return values if converts or fixed else pick
