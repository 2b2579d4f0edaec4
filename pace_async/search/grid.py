"""Parent choice by MAP-Elites: a grid over two features of programs. The parent is the best program of a random cell.

The features are the length of the text in characters and the number of lines that the task's own program does not have.
Each is cut into `bins` equal parts between its least and greatest value among the members, so the grid is as fine as
the members are different. A feature in which all agree has one part. The grid is not an archive: it covers only the
programs that the island keeps (`search.members_kept`, the best), so a cell whose programs were dropped is empty.
"""

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache

from pace_async.config import SearchConfig
from pace_async.search.state import Island, Member

Cell = tuple[int, int]


def map_elites(island: Island, search: SearchConfig, draw: random.Random) -> Member:
    """The parent rule `map_elites`."""
    origin = island.course.history[0].best.program
    return choose_elite(island.members, origin, draw, search.grid_bins)


def choose_elite(members: Sequence[Member], origin: str, draw: random.Random, bins: int) -> Member:
    """The elite of one cell. Draws one number. `origin` is the task's own program. `members` are the best
    first, at least one."""
    elites = elites_of(members, origin, bins)
    return elites[sorted(elites)[draw.randrange(len(elites))]]


def elites_of(members: Sequence[Member], origin: str, bins: int) -> Mapping[Cell, Member]:
    """The best member of each cell that has any, equal scores by age."""
    lengths = _parts([len(member.program) for member in members], bins)
    strange = _parts([_strange(member.program, origin) for member in members], bins)
    elites: dict[Cell, Member] = {}
    for cell, member in zip(zip(lengths, strange, strict=True), members, strict=True):
        elites.setdefault(cell, member)
    return elites


@lru_cache(maxsize=256)  # of members, which are asked for with every rollout
def _strange(program: str, origin: str) -> int:
    known = set(origin.splitlines())
    return sum(line not in known for line in program.splitlines())


def _parts(values: Sequence[int], bins: int) -> list[int]:
    """The part, 0 to bins − 1, into which each value falls."""
    least, width = min(values), max(values) - min(values) + 1
    return [(value - least) * bins // width for value in values]
