"""Which of its programs an island changes next, as `search.parents` says. Each way is a pure function of its own."""

import random

from pace_async.config import Search
from pace_async.search.grid import choose_elite
from pace_async.search.parents import choose_among_best, choose_parent
from pace_async.search.puct import choose_puct
from pace_async.search.state import Island, Member, Rules


def parent_of(island: Island, search: Search, direction: str, draw: random.Random) -> Member:
    """The next parent among the island's members."""
    match search.parents:
        case "tournament":
            return choose_parent(
                island.members, direction, draw, size=search.tournament_size, pool=search.tournament_pool
            )
        case "puct":
            return choose_puct(island.members, island.visits, direction, search.puct_exploration)
        case "map_elites":
            origin = island.course.history[0].best.program
            return choose_elite(island.members, origin, direction, draw, search.grid_bins)
        case "top_k":
            return choose_among_best(island.members, direction, draw, search.top_k)


def rules_of(search: Search, direction: str, goal: float) -> Rules:
    """What the settings fix about the islands of a run whose task has this direction and goal."""
    return Rules(
        direction=direction,
        goal=goal,
        ideas_kept=search.ideas_kept,
        members_kept=search.members_kept,
        backtracking=search.backtracking,
        actions=search.actions,
        decay=search.momentum_decay,
        trigger=search.momentum_trigger,
        interval=search.action_interval,
        stay=search.backtrack_stay,
    )
