"""The facts of a run that began without a journal, inferred from its rows.

What no row keeps is left out: a claim or an answer that a later one replaced, and practice before a lease's last. The
facts give the same rows again, and come in the order that `order` states.
"""

from collections.abc import Iterator, Set
from dataclasses import replace

from sqlalchemy import Connection, select

from pace_async.events import RunHeader
from pace_async.population.fields import fact_of
from pace_async.population.journal.bodies import Recorded
from pace_async.population.models import RunRow
from pace_async.population.reading.epochs import epochs_of
from pace_async.population.reading.importing.calls import steps_of_calls
from pace_async.population.reading.importing.learning import (
    first_bound,
    steps_of_epochs,
    steps_of_groups,
    steps_of_run,
)
from pace_async.population.reading.importing.order import Key, in_order
from pace_async.population.reading.importing.rollouts import Rollouts
from pace_async.population.reading.importing.texts import Texts


def inferred_facts(
    connection: Connection, run_id: int, after: int = 0, whole: Set[int] | None = None
) -> Iterator[tuple[float, Recorded]]:
    """The facts, each with its time, the run's header first, without the first `after`. With `whole` those of other
    leases come without the advisor's calls and the implementers' tries. Raises PaceBug for rows that no run can have
    written."""
    row = connection.execute(select(RunRow).where(RunRow.run_id == run_id)).one()
    header = fact_of(RunHeader, RunRow, row)
    if not after:
        yield row.created_at, replace(header, max_staleness=first_bound(connection, run_id))
    ends_after: dict[int, list[Key]] = {}
    epochs = {epoch.number: epoch.last_lease or 0 for epoch in epochs_of(connection, run_id) if epoch.in_force}
    calls = list(steps_of_calls(connection, run_id, ends_after))
    steps = [
        *calls,
        *Rollouts(connection, run_id, ends_after, epochs).steps(),
        *steps_of_groups(connection, run_id),
        *steps_of_epochs(connection, run_id),
        *steps_of_run(connection, run_id),
    ]
    yield from Texts(connection, run_id, whole).facts(in_order(steps)[max(0, after - 1) :])
