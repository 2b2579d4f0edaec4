"""Statements that are compiled once and then run as they are.

For every execution SQLAlchemy looks the statement up, checks its parameters, and binds and wraps anew, which takes more
than twice the time that the database does; a candidate takes a dozen statements, so that was what a commit cost. The
SQL, the order of parameters and the conversion of values (`columns`) are still SQLAlchemy's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, CursorResult, Dialect
from sqlalchemy.sql import ClauseElement

_Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """`names` in the order of the placeholders, or None where they are named; `fixed` are values that stand in the
    statement itself."""

    sql: str
    names: tuple[str, ...] | None
    fixed: Mapping[str, Any]
    converts: Mapping[str, _Convert]


class Prepared:
    """A statement whose parameters are always the same ones. Its parameters are its bindparams, or for an INSERT
    without values its `columns`. No expanding parameter."""

    def __init__(self, statement: ClauseElement, columns: tuple[str, ...] | None = None) -> None:
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}

    def run(self, connection: Connection, *rows: Mapping[str, Any]) -> CursorResult[Any]:
        """Execute with one row of parameters, or with each of several. Raises what `Connection.execute` raises."""
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = _compile(self._statement, self._columns, dialect)
        parameters = [_parameters(compiled, row) for row in rows]
        return connection.exec_driver_sql(compiled.sql, parameters if len(rows) > 1 else parameters[0])


def _compile(statement: ClauseElement, columns: tuple[str, ...] | None, dialect: Dialect) -> _Compiled:
    made: Any = statement.compile(dialect=dialect, column_keys=None if columns is None else list(columns))
    converts: dict[str, _Convert] = {}
    for parameter, name in made.bind_names.items():
        convert = parameter.type.dialect_impl(dialect).bind_processor(dialect)
        if convert is not None:
            converts[name] = convert
    fixed = {name: value for name, value in made.params.items() if value is not None}
    return _Compiled(str(made), tuple(made.positiontup) if made.positional else None, fixed, converts)


def _parameters(compiled: _Compiled, row: Mapping[str, Any]) -> Any:
    values = {**compiled.fixed, **row}
    for name, convert in compiled.converts.items():
        values[name] = convert(values[name])
    return values if compiled.names is None else tuple([values[name] for name in compiled.names])
