"""The seam to a run's record."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from pace_async.events import Fact

T = TypeVar("T")
Question = Callable[[Connection], T]
"""A question to one moment of the run: a function of `population.reading`."""


class Population(Protocol):
    """The record of a run, with one writer. An acknowledged `commit` survives kill -9."""

    async def commit(self, *facts: Fact) -> None:
        """Write the facts in one transaction, all or none, shielded from cancellation."""
        ...

    async def read(self, question: Question[T]) -> T:
        """The answer to a question of `population.reading`. It includes every acknowledged commit."""
        ...
