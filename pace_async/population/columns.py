"""Column types that clean their values, so that no text or number is refused by a database.

Text: neither SQLite nor PostgreSQL keeps a NUL byte or a lone surrogate safely, so both are replaced by U+FFFD (the
replacement character) before writing, on every database. A model's bad character loses that character, never the row.
JSON: the same for every key and text. A number that is not finite becomes null, because strict JSON has no such value.
"""

import math
from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import JSON, Dialect, Text, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB

from pace_async.outside import sound


def clean_json(value: object) -> object:
    """`value` as strict JSON can hold it: texts cleaned, mappings and sequences copied, non-finite numbers None."""
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return {sound(str(key)): clean_json(item) for key, item in mapping.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in cast("list[object]", value)]
    return value


class CleanText(TypeDecorator[str]):
    """TEXT that passes through `sound`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return clean_or_none(value)

    def bind_processor(self, dialect: Dialect) -> Any:
        """The same in one call instead of three, if the database's own text type converts nothing."""
        own = super().bind_processor(dialect)
        return own if self.impl_instance.bind_processor(dialect) is not None else clean_or_none


def clean_or_none(text: str | None) -> str | None:
    """`sound`, for a column that may be NULL."""
    return text if text is None or (text.isascii() and "\0" not in text) else sound(text)


class CleanJson(TypeDecorator[dict[str, Any]]):
    """JSON (JSONB on PostgreSQL) that passes through `clean_json`."""

    impl = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> Any:
        return None if value is None else clean_json(value)

    def bind_processor(self, dialect: Dialect) -> Any:
        """The same, with the text of `{}` made once, because many candidates have no metrics."""
        own: Any = super().bind_processor(dialect)
        empty = own({})

        def process(value: object) -> Any:
            return empty if value == {} else own(value)

        return process
