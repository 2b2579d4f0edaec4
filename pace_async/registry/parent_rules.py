"""Parent rules (`search.parents`): how an island chooses the program to change.

The code of a rule is a function of one island: `search.parents.ParentRule`. Other packages add theirs by an
entry point of the group `pace.parent_rules`, which names the function.
"""

from pace_async.registry.base import Entry, Registry

PARENT_RULES = Registry(
    "parent rule",
    Entry("tournament", "the best of a few drawn among its best (PACEvolve)", "pace_async.search.parents:tournament"),
    Entry(
        "puct",
        "the program with the best balance of reached score and few tries (TTT-Discover)",
        "pace_async.search.puct:puct",
    ),
    Entry(
        "map_elites", "the best of one cell of a grid over features of programs", "pace_async.search.grid:map_elites"
    ),
    Entry("top_k", "one of its best, drawn uniformly", "pace_async.search.parents:top_k"),
    group="pace.parent_rules",
)
