"""The seam to the one truth about a run."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pace_async.events import Fact


class Population(Protocol):
    """One writer. What `commit` has acknowledged survives kill -9."""

    async def commit(self, *facts: Fact) -> None:
        """Write the facts in one transaction, all or none, shielded from cancellation."""
        ...

    async def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> Sequence[Mapping[str, Any]]:
        """Rows of a read-only statement."""
        ...
