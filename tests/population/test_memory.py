"""The tables of a population in memory have the checks of the models, in a form that SQLite evaluates faster."""

import re
import sqlite3

from sqlalchemy import CheckConstraint

from pace_async.population.memory import MemoryPopulation
from pace_async.population.models import Base
from tests.support.population_facts import HEADER


def _lists() -> dict[str, str]:
    """The conditions of the models that list the words of a column, by the names of their constraints."""
    checks = [each for table in Base.metadata.tables.values() for each in table.constraints]
    conditions = {str(each.name): str(each.sqltext) for each in checks if isinstance(each, CheckConstraint)}
    return {name: condition for name, condition in conditions.items() if " IN (" in condition}


async def _in_memory() -> dict[str, str]:
    """The conditions of all checks of a population in memory, by the names of their constraints."""
    population = MemoryPopulation(HEADER)
    rows = await population.query("SELECT sql FROM sqlite_master WHERE type = 'table'")
    population.close()
    return {
        name: condition
        for row in rows
        for name, condition in re.findall(r"CONSTRAINT (\w+) CHECK \((.*)\),? *$", str(row["sql"]), re.MULTILINE)
    }


async def test_a_check_in_memory_takes_the_words_that_the_models_list_and_no_others() -> None:
    listed, in_memory, database = _lists(), await _in_memory(), sqlite3.connect(":memory:")
    assert len(listed) > 10
    for name, condition in listed.items():
        column, words = condition.split()[0], re.findall(r"'(\w+)'", condition)
        for value in (*words, "", "none_of_them", words[0].upper(), None):
            expected, found = (
                database.execute(f"SELECT {each} FROM (SELECT ? AS {column})", (value,)).fetchone()[0]
                for each in (condition, in_memory[name])
            )
            assert found == expected == (None if value is None else value in words), (name, value)
    database.close()


async def test_no_check_in_memory_makes_a_temporary_table_of_a_list() -> None:
    conditions = await _in_memory()
    assert len(conditions) > 30
    assert [name for name, condition in conditions.items() if " IN " in condition] == []
