"""Parent rules (`search.parents`): how an island chooses the program to change.

The code of a rule is a function of one island. Other packages add theirs by an
entry point of the group `pace.parent_rules`, which names the function.
"""

from typing import TYPE_CHECKING

from pace_async.registry.base import Entry, Registry, later

if TYPE_CHECKING:
    from pace_async.search import grid, parents, puct
    from pace_async.search.parents import ParentRule
else:
    grid, parents, puct = later("pace_async.search", "grid", "parents", "puct")

PARENT_RULES: Registry[Entry["ParentRule"]] = Registry(
    "parent rule",
    Entry("tournament", "the best of a few drawn among its best (PACEvolve)", lambda: parents.tournament),
    Entry(
        "puct",
        "the program with the best balance of reached score and few tries (TTT-Discover)",
        lambda: puct.puct,
    ),
    Entry("map_elites", "the best of one cell of a grid over features of programs", lambda: grid.map_elites),
    Entry("top_k", "one of its best, drawn uniformly", lambda: parents.top_k),
    group="pace.parent_rules",
)
