"""What one run had paid at given times."""

from collections.abc import Sequence
from itertools import accumulate

from sqlalchemy import Connection, select

from pace_async.population.models import ImplementerCallRow


def paid_until(connection: Connection, run_id: int, times: Sequence[float]) -> list[float]:
    """USD of all calls up to each of the times, which are in order."""
    calls = connection.execute(
        select(ImplementerCallRow.at, ImplementerCallRow.cost_usd)
        .where(ImplementerCallRow.run_id == run_id, ImplementerCallRow.cost_usd > 0)
        .order_by(ImplementerCallRow.at)
    ).all()
    whole = list(accumulate((usd for _, usd in calls), initial=0.0))
    place, found = 0, list[float]()
    for end in times:
        while place < len(calls) and calls[place][0] <= end:
            place += 1
        found.append(whole[place])
    return found
