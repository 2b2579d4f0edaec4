"""The page of a run's islands. Pure."""

from collections.abc import Sequence

from pace_async.events import IslandActed
from pace_async.report.facts import Facts
from pace_async.report.islands import islands
from pace_async.report.markup import tag
from pace_async.web.shell import document, linking


def islands_page(name: str, facts: Facts, actions: Sequence[IslandActed]) -> str:
    """The islands, and each of their actions with its candidate."""
    return document(
        f"{facts.header.name}: islands",
        tag("h1", "Islands"),
        islands(facts, actions, linking(name)),
        run=name,
        page="islands",
    )
