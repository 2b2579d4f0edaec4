"""What holds after every fault, looked at from outside, over the database alone.

`pace db check` knows most of it (`population.audit`): the file, references, the conservation line, staleness, versions,
candidates. Here stands the rest, which is not one moment's: money against calls, the order of versions in time, nothing
trained twice, and nothing of what had been committed before the fault lost or changed.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pace_async.population.checking import check_population
from pace_async.population.reading.reader import open_readonly

Kept = Mapping[int, tuple[Any, ...]]


def candidates_of(database: Path) -> Kept:
    """Every candidate that is committed: its program, outcome, score and reward."""
    rows = _rows(database, "select candidate, program_hash, outcome, score, reward from candidates")
    return {row[0]: row[1:] for row in rows}


def versions_of(database: Path) -> Kept:
    """Every version that is written, with the group that made it."""
    rows = _rows(database, "select version, group_number from versions")
    return {row[0]: row[1:] for row in rows}


def assert_sound(
    database: Path, *, kept: Kept | None = None, finished: bool = False, budget: float | None = None
) -> None:
    """Raise AssertionError if an invariant is broken. `kept` are the candidates before the fault. `finished`: the run
    has ended normally, so that nothing is in flight."""
    with open_readonly(database) as reader:
        wrong = [line for check in check_population(reader) for line in check.wrong]
    assert wrong == []
    after = candidates_of(database)
    lost = {number for number, row in (kept or {}).items() if after.get(number) != row}
    assert lost == set(), "committed candidates were lost or changed"
    assert _rows(database, _TWICE) == [], "a group was trained twice"
    assert _rows(database, _BACKWARDS) == [], "a version was served after a later one, or before it was written"
    assert _rows(database, _UPDATES_BACK) == [], "a group was chosen for an earlier version than the group before it"
    assert _rows(database, _FUTURE) == [], "a token is of a version that was not there when its rollout was complete"
    assert _rows(database, _MONEY) == [], "a call cost more than was set aside for it, or was counted twice"
    if budget is not None:
        [(spent,)] = _rows(database, _SPENT)
        assert spent <= budget + 1e-9
    if finished:
        in_flight = _rows(database, "select lease, stage from leases where stage in ('admitted', 'advised')")
        aborted = _rows(database, "select lease from leases where state = 'aborted'")
        assert {lease for lease, _ in in_flight} <= {lease for (lease,) in aborted}, "a lease was left in flight"
        assert _rows(database, "select group_number from groups where state = 'shipped'") == []
        assert _rows(database, "select number from reservations where ordinal is null") == []


_TWICE = """select digest from groups where state = 'trained' and digest <> '' group by digest having count(*) > 1
            union all select cast(update_number as text) from groups where state = 'trained'
            group by update_number having count(*) > 1"""
_BACKWARDS = """select a.version from versions a join versions b on a.run_id = b.run_id and a.version < b.version
                where a.published_at > b.published_at or a.written_at > b.written_at
                or a.published_at < a.written_at"""
_UPDATES_BACK = """select a.group_number from groups a join groups b
                   on a.run_id = b.run_id and b.group_number = a.group_number + 1
                   where b.update_number <> a.update_number
                   + (a.state = 'trained' or a.state = 'skipped' and a.restores is not null)"""
_FUTURE = """select c.lease from advisor_calls c join leases l on l.run_id = c.run_id and l.lease = c.lease
             where c.oldest_version > (select max(version) from versions v where v.run_id = c.run_id)
             or c.oldest_version < l.admitted_version"""
_MONEY = """select r.number from reservations r join implementer_calls c
            on c.run_id = r.run_id and c.lease = r.lease and c.ordinal = r.ordinal where c.cost_usd > r.cost_usd + 1e-9
            union all select min(number) from reservations where ordinal is not null
            group by run_id, lease, ordinal having count(*) > 1"""
_SPENT = """select (select coalesce(sum(cost_usd), 0) from implementer_calls)
            + (select coalesce(sum(cost_usd), 0) from implementer_checks)
            + (select coalesce(sum(cost_usd), 0) from reservations where ordinal is null)"""


def _rows(database: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()
