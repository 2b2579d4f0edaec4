"""Rows of what an island does that has stopped improving."""

from pace_async.events import IslandActed
from pace_async.population.models import IdeaRow, IslandActionRow
from pace_async.population.scope import Scope

ACTION_FIELDS = tuple(name for name in IslandActed.__dataclass_fields__ if name != "ideas")


def island_acted(scope: Scope, fact: IslandActed) -> None:
    """The action, and the ideas that came over with it. The lease it opens with must be there."""
    scope.add(IslandActionRow, {name: getattr(fact, name) for name in ACTION_FIELDS})
    scope.add(
        IdeaRow,
        *(
            {
                "island": fact.island,
                "idea": idea.number,
                "lease": fact.lease,
                "description": idea.description,
                "origin": idea.origin,
            }
            for idea in fact.ideas
        ),
    )
