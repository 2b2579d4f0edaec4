"""Implementers (`--implementer`).

The code of an implementer is a class that is made from a task and raises UsageError where the task lacks what it needs:
`implement.base.BuiltInFactory`. Every name that is not in the table is a model, asked over the network.
"""

from dataclasses import dataclass

from pace_async.registry.base import Entry, Registry


@dataclass(frozen=True, slots=True)
class ImplementerKind(Entry):
    """`asks_a_model`: it is checked before a run, its calls cost money, and they have prompts. `needs_catalogue`: the
    task must bring a catalogue of mechanisms."""

    asks_a_model: bool = False
    needs_catalogue: bool = False


MODEL = ImplementerKind("MODEL", "any model that litellm knows", asks_a_model=True)

IMPLEMENTERS = Registry(
    "implementer",
    ImplementerKind(
        "catalog",
        "edits by the task's catalogue, free",
        "pace_async.implement.catalogue:CatalogImplementer",
        needs_catalogue=True,
    ),
    MODEL,
)


def implementer_of(name: str) -> ImplementerKind:
    """The entry of this name. A name that is not in the table is a model's."""
    return IMPLEMENTERS.get(name, MODEL)
