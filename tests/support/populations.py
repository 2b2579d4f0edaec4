"""Looks at whole populations."""

from pace_async.population.connect import damage, dangling
from pace_async.population.reading.reader import Reader


def damage_of(reader: Reader) -> tuple[str, ...]:
    """The problems of the file: those of the database's own check, or else rows with broken references."""
    return reader.answer(lambda connection: tuple(damage(connection) or dangling(connection)))
