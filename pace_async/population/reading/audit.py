"""Checks the promises of a sound population from its rows. Each check has a text and a result.

Invariant: a check reads and never repairs. The file itself is checked first. If it is damaged the other checks are
skipped, because their results would be unreliable. Rules that the tables enforce (unique ids, references, finite
scores) are checked too, because a file may have been edited by hand.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from pace_async.events import RunHeader
from pace_async.population.connect import damage, dangling
from pace_async.population.reading.load import header_of
from pace_async.population.reading.lost import rows_given_up
from pace_async.registry.objectives import trains
from pace_async.registry.staleness_policies import policy_of

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Check:
    """One promise. `wrong` lists a few violations, `found` gives what was counted."""

    name: str
    found: str
    wrong: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the promise holds."""
        return not self.wrong


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one run. `:run_id` stands for it in each statement."""

    connection: Connection
    run_id: int

    @property
    def header(self) -> RunHeader:
        return header_of(self.connection, self.run_id)

    def of(self, statement: str) -> Sequence[Any]:
        return self.connection.execute(text(statement), {"run_id": self.run_id}).all()

    def number(self, statement: str) -> int:
        """The one value of a statement."""
        return self.of(statement)[0][0]

    def wrong(self, words: str, statement: str) -> list[str]:
        """The first rows of a statement that finds violations, in words."""
        return [words.format(*row) for row in self.of(f"{statement} LIMIT {SHOWN}")]


def audit(connection: Connection) -> Iterator[Check]:
    """Every check of the file, then those of each run in it."""
    broken = damage(connection)
    yield Check("file", "the database's own check", tuple(broken[:SHOWN]))
    if broken:
        return
    yield Check("references", "foreign keys", tuple(dangling(connection)[:SHOWN]))
    for run_id, name in connection.execute(text("SELECT run_id, name FROM runs ORDER BY run_id")).all():
        rows = _Rows(connection, run_id)
        for check in _RUN_CHECKS:
            result = check(rows)
            yield Check(f"{result.name} ({name})", result.found, result.wrong)


def _conservation(rows: _Rows) -> Check:
    states = rows.of("SELECT state, COUNT(*) FROM leases WHERE run_id = :run_id GROUP BY state")
    counts = dict.fromkeys(("trained", "skipped", "aborted", "expired", "open"), 0)
    counts |= {str(state): int(number) for state, number in states}
    admitted = rows.number("SELECT COALESCE(MAX(lease), 0) FROM leases WHERE run_id = :run_id")
    line = f"admitted {admitted} = " + " + ".join(f"{state} {number}" for state, number in counts.items())
    wrong = [] if sum(counts.values()) == admitted else [f"{line} does not add up"]
    wrong += rows.wrong(
        "lease {} is {}, and its group {} is {}",
        """SELECT l.lease, l.state, g.group_number, g.state FROM leases l
           JOIN groups g ON g.run_id = l.run_id AND g.group_number = l.group_number
           WHERE l.run_id = :run_id AND l.state <> CASE g.state WHEN 'shipped' THEN 'open' ELSE g.state END
           ORDER BY l.lease""",
    )
    if trains(rows.header.objective):
        wrong += rows.wrong(
            "lease {} is {} without a group",
            """SELECT l.lease, l.state FROM leases l
               LEFT JOIN given_programs p ON p.run_id = l.run_id AND p.lease = l.lease
               WHERE l.run_id = :run_id AND l.group_number IS NULL AND p.lease IS NULL
               AND l.state IN ('trained', 'skipped') ORDER BY l.lease""",
        )
    wrong += rows.wrong(
        "group {} holds {} rollouts where {} belong",
        """SELECT g.group_number, COUNT(l.lease), r.group_size FROM groups g JOIN runs r ON r.run_id = g.run_id
           LEFT JOIN leases l ON l.run_id = g.run_id AND l.group_number = g.group_number
           WHERE g.run_id = :run_id GROUP BY g.group_number, r.group_size HAVING COUNT(l.lease) <> r.group_size
           ORDER BY g.group_number""",
    )
    return Check("conservation", line, tuple(wrong[:SHOWN]))


def _staleness(rows: _Rows) -> Check:
    bound = rows.number("SELECT max_staleness FROM runs WHERE run_id = :run_id")
    [(trained, worst)] = rows.of(
        "SELECT COUNT(*), COALESCE(MAX(staleness), 0) FROM leases WHERE run_id = :run_id AND state = 'trained'"
    )
    soft = not policy_of(rows.header.policy).bounds_maximum
    wrong = rows.wrong(
        "lease {} trained update {} at staleness {}, with tokens of version {} and a bound of {}",
        f"""SELECT l.lease, l.trained_by, l.staleness, l.oldest_version, r.max_staleness
           FROM leases l JOIN runs r ON r.run_id = l.run_id
           WHERE l.run_id = :run_id AND l.state = 'trained'
           AND ({"" if soft else "l.staleness > r.max_staleness OR"}
                l.staleness <> l.trained_by - l.oldest_version OR l.staleness IS NULL)
           ORDER BY l.lease""",
    )
    promise = f"no bound under the policy soft, {bound} in the mean" if soft else f"bound {bound}"
    summary = f"at most {worst} in what was trained" if trained else "nothing was trained"
    return Check("staleness", f"{summary}, {promise}", tuple(wrong[:SHOWN]))


def _versions(rows: _Rows) -> Check:
    newest = rows.number("SELECT COALESCE(MAX(version), 0) FROM versions WHERE run_id = :run_id")
    wrong: list[str] = []
    count = rows.number("SELECT COUNT(*) FROM versions WHERE run_id = :run_id")
    if count != newest + 1:
        wrong.append(f"{count} versions are recorded where 0 to {newest} belong")
    wrong += rows.wrong(
        "version {} was not written by the one group of update {} that may",
        """SELECT v.version, v.version - 1 FROM versions v WHERE v.run_id = :run_id AND v.version > 0
           AND (SELECT COUNT(*) FROM groups g WHERE g.run_id = v.run_id
                AND (g.state = 'trained' OR g.restores IS NOT NULL AND g.state = 'skipped')
                AND g.update_number = v.version - 1) <> 1
           OR v.run_id = :run_id AND v.version > 0 AND NOT EXISTS (SELECT 1 FROM groups g WHERE g.run_id = v.run_id
                AND g.group_number = v.group_number AND g.update_number = v.version - 1
                AND g.state = CASE WHEN v.restored IS NULL THEN 'trained' ELSE 'skipped' END)
           ORDER BY v.version""",
    )
    wrong += rows.wrong(
        "group {} trained update {} and left no version",
        """SELECT g.group_number, g.update_number FROM groups g WHERE g.run_id = :run_id AND g.state = 'trained'
           AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.run_id = g.run_id AND v.version = g.update_number + 1)
           ORDER BY g.group_number""",
    )
    wrong += rows.wrong(
        "lease {} has tokens of version {}, which is not there",
        """SELECT lease, oldest_version FROM leases l WHERE run_id = :run_id AND oldest_version IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.run_id = l.run_id AND v.version = l.oldest_version)
           ORDER BY lease""",
    )
    return Check("versions", f"0 to {newest}", tuple(wrong[:SHOWN]))


def _candidates(rows: _Rows) -> Check:
    count = rows.number("SELECT COUNT(*) FROM candidates WHERE run_id = :run_id AND candidate > 0")
    wrong = rows.wrong(
        "candidate {} stands beside a lease that is {}",
        """SELECT c.candidate, l.stage FROM candidates c JOIN leases l ON l.run_id = c.run_id AND l.lease = c.lease
           WHERE c.run_id = :run_id AND l.stage NOT IN ('complete', 'shipped') ORDER BY c.candidate""",
    )
    wrong += rows.wrong(
        "lease {} is {} and has no candidate",
        """SELECT l.lease, l.stage FROM leases l WHERE l.run_id = :run_id AND l.stage IN ('complete', 'shipped')
           AND NOT EXISTS (SELECT 1 FROM candidates c WHERE c.run_id = l.run_id AND c.candidate = l.lease)
           ORDER BY l.lease""",
    )
    return Check("candidates", f"{count} evaluated", tuple(wrong[:SHOWN]))


def _attempts(rows: _Rows) -> Check:
    count = rows.number("SELECT COUNT(*) FROM evaluation_attempts WHERE run_id = :run_id")
    wrong = rows.wrong(
        "lease {} has {} attempts in stage {} (fresh {}), and the last is number {}",
        """SELECT lease, COUNT(*), stage, fresh, MAX(attempt) FROM evaluation_attempts WHERE run_id = :run_id
           GROUP BY lease, stage, fresh HAVING MAX(attempt) <> COUNT(*) ORDER BY lease, stage, fresh""",
    )
    wrong += rows.wrong(
        "attempt {} of lease {} belongs to no lease",
        """SELECT a.attempt, a.lease FROM evaluation_attempts a WHERE a.run_id = :run_id AND a.lease > 0
           AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.run_id = a.run_id AND l.lease = a.lease)
           ORDER BY a.lease, a.attempt""",
    )
    return Check("attempts", f"{count} to evaluate a program", tuple(wrong[:SHOWN]))


def _given_up(rows: _Rows) -> Check:
    """Told, and never wrong: what a resume went on without was accepted, and the other checks hold for what is left."""
    return Check("rows lost", rows_given_up(rows.connection, rows.run_id) or "none was given up")


_RUN_CHECKS: tuple[Callable[[_Rows], Check], ...] = (
    _conservation,
    _staleness,
    _versions,
    _candidates,
    _attempts,
    _given_up,
)
