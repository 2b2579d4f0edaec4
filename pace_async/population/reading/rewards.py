"""The rewards of each group, summed up by the database, and the ages of what was trained."""

import math
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from pace_async.population.models import LeaseRow


class RewardsOfGroup(NamedTuple):
    """The rewards in one group's advantages. `spread` is their standard deviation over the group."""

    group_number: int
    rollouts: int
    mean: float
    least: float
    most: float
    spread: float


def rewards_of(connection: Connection, run_id: int) -> tuple[RewardsOfGroup, ...]:
    """Each group that has a reward, by its number."""
    reward = LeaseRow.group_reward
    rows = connection.execute(
        select(
            *(LeaseRow.group_number, func.count(reward), func.avg(reward), func.min(reward), func.max(reward)),
            func.avg(reward * reward),
        )
        .where(LeaseRow.run_id == run_id, LeaseRow.group_number.is_not(None), reward.is_not(None))
        .group_by(LeaseRow.group_number)
        .order_by(LeaseRow.group_number)
    )
    return tuple(_rewards(*row) for row in rows)


def _rewards(number: Any, rollouts: int, mean: Any, least: Any, most: Any, squares: Any) -> RewardsOfGroup:
    return RewardsOfGroup(number, rollouts, mean, least, most, math.sqrt(max(0.0, squares - mean * mean)))


def ages_of(connection: Connection, run_id: int) -> dict[int, int]:
    """How many rollouts were trained at each staleness."""
    trained = LeaseRow.run_id == run_id, LeaseRow.state == "trained"
    rows = connection.execute(select(LeaseRow.staleness, func.count()).where(*trained).group_by(LeaseRow.staleness))
    return {age or 0: rollouts for age, rollouts in rows}
