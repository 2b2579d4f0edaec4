"""The page of a run's islands. Pure."""

from collections.abc import Sequence

from pace_async.events import IslandActed
from pace_async.report.facts import Facts
from pace_async.report.islands import islands
from pace_async.report.markup import Content, tag
from pace_async.web.shell import address, document


def islands_page(name: str, facts: Facts, actions: Sequence[IslandActed]) -> str:
    """The islands, and each of their actions with its candidate."""

    def link(number: int) -> Content:
        return tag("a", f"#{number}", href=address(name, candidate=number))

    return document(
        f"{facts.header.name}: islands",
        tag("h1", "Islands"),
        islands(facts, actions, link),
        run=name,
        page="islands",
    )
