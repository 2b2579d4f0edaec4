"""Rows of the learning side: groups, how they ended, versions.

A group takes complete leases and ends once: trained (a new version, leases closed as trained) or skipped (the version
stays, leases closed as skipped). Invariant: no lease is trained beyond the run's staleness bound, nor twice; versions
only grow, one at a time.
"""

from sqlalchemy import BindParameter, bindparam, func, select, update

from pace_async.errors import PaceBug
from pace_async.events import GroupEnded, GroupShipped, LeaseReleased, VersionPublished
from pace_async.population.models import GroupRow, LeaseRow, VersionRow
from pace_async.population.scope import Scope

NAMED_METRICS = ("loss", "entropy", "grad_norm", "clip_fraction", "ess", "k3", "mean_ratio")

OF_RUN: BindParameter[int] = bindparam("of_run")
TAKEN = select(LeaseRow.lease, LeaseRow.state, LeaseRow.stage, LeaseRow.oldest_version).where(
    LeaseRow.run_id == OF_RUN, LeaseRow.lease.in_(bindparam("of_leases", expanding=True))
)
SHIP = (
    update(LeaseRow)
    .where(LeaseRow.run_id == OF_RUN, LeaseRow.lease == bindparam("of_lease"))
    .values(
        stage="shipped",
        group_number=bindparam("number"),
        staleness=bindparam("age"),
        group_reward=bindparam("earned"),
        advantage=bindparam("weight"),
    )
)
END = update(GroupRow).where(
    GroupRow.run_id == OF_RUN,
    GroupRow.group_number == bindparam("of_group"),
    GroupRow.update_number == bindparam("of_update"),
    GroupRow.state == "shipped",
)
CLOSE = (
    update(LeaseRow)
    .where(
        LeaseRow.run_id == OF_RUN,
        LeaseRow.group_number == bindparam("of_group"),
        LeaseRow.lease.in_(bindparam("of_leases", expanding=True)),
        LeaseRow.state == "open",
    )
    .values(
        state=bindparam("closing"), trained_by=bindparam("update"), reason=bindparam("why"), closed_at=bindparam("now")
    )
)
SHIPPED = select(func.count()).where(LeaseRow.run_id == OF_RUN, LeaseRow.group_number == bindparam("of_group"))
NEWEST = select(func.max(VersionRow.version)).where(VersionRow.run_id == OF_RUN)


def group_shipped(scope: Scope, fact: GroupShipped) -> None:
    """Leases complete → shipped, with what the learner was given for each."""
    _check_shipment(scope, fact)
    scope.add(
        GroupRow,
        {
            "group_number": fact.number,
            "update_number": fact.update,
            "state": "shipped",
            "reason": "",
            "alpha": fact.alpha,
            "digest": fact.digest,
            "metrics": {},
            "shipped_at": fact.at,
        },
    )
    advantages = fact.advantages if fact.advantages is not None else (None,) * len(fact.leases)
    rows = zip(fact.leases, fact.staleness, fact.rewards, advantages, strict=True)
    scope.connection.execute(
        SHIP,
        [
            {
                "of_run": scope.run_id,
                "of_lease": lease,
                "number": fact.number,
                "age": age,
                "earned": earned,
                "weight": weight,
            }
            for lease, age, earned, weight in rows
        ],
    )


def group_ended(scope: Scope, fact: GroupEnded) -> None:
    """Trained: a version is written. Skipped: it is not. Either way the group's leases close with it."""
    what = f"group {fact.number}"
    if fact.closing not in ("trained", "skipped"):
        raise PaceBug(f"{what} ended as {fact.closing}: a group is trained or skipped")
    expected = fact.update + 1 if fact.closing == "trained" else fact.update
    if fact.version != expected:
        raise PaceBug(
            f"{what} {fact.closing} at update {fact.update} must leave version {expected}, not {fact.version}"
        )
    named = {name: fact.metrics.get(name) for name in NAMED_METRICS}
    of = {"of_run": scope.run_id, "of_group": fact.number}
    scope.one(
        END.values(
            state=fact.closing,
            reason=fact.reason,
            seconds=fact.seconds,
            ended_at=fact.at,
            metrics={name: value for name, value in fact.metrics.items() if name not in named},
            **named,
        ),
        lambda: (
            f"{what} at update {fact.update} cannot end as {fact.closing}: it was not shipped so, or has ended already"
        ),
        {**of, "of_update": fact.update},
    )
    closed = scope.connection.execute(
        CLOSE,
        {
            **of,
            "of_leases": fact.leases,
            "closing": fact.closing,
            "update": fact.update if fact.closing == "trained" else None,
            "why": fact.reason or None,
            "now": fact.at,
        },
    ).rowcount
    shipped = scope.connection.execute(SHIPPED, of).scalar_one()
    if not closed == len(fact.leases) == shipped:
        raise PaceBug(f"{what} must close exactly the leases it was shipped with, not {list(fact.leases)}")
    if fact.closing == "trained":
        _version_written(scope, fact)


def lease_released(scope: Scope, fact: LeaseReleased) -> None:
    """A complete lease closes without a learner."""
    if fact.closing == "trained":
        raise PaceBug(f"lease {fact.lease} cannot be released as trained: only a group trains")
    statement = (
        update(LeaseRow)
        .where(
            LeaseRow.run_id == scope.run_id,
            LeaseRow.lease == fact.lease,
            LeaseRow.state == "open",
            LeaseRow.stage == "complete",
        )
        .values(state=fact.closing, closed_at=fact.at)
    )
    scope.one(statement, lambda: f"lease {fact.lease} cannot be released: it {scope.lease_is(fact.lease)}")


def version_published(scope: Scope, fact: VersionPublished) -> None:
    """Written → published, once. (Loading it again into a restarted engine is no new fact.)"""
    scope.one(
        update(VersionRow)
        .where(VersionRow.run_id == scope.run_id, VersionRow.version == fact.version, VersionRow.state == "written")
        .values(
            state="published",
            published_at=fact.at,
            seconds=fact.seconds,
            paused_seconds=fact.paused_seconds,
            receipt=dict(fact.receipt),
            probe_k3=fact.k3,
        ),
        lambda: f"version {fact.version} cannot be published: no group has written it, or it is published already",
    )


def _version_written(scope: Scope, fact: GroupEnded) -> None:
    if scope.connection.execute(NEWEST, {"of_run": scope.run_id}).scalar_one() != fact.update:
        raise PaceBug(f"group {fact.number} trained version {fact.update}, which is not the newest")
    scope.add(
        VersionRow,
        {
            "version": fact.version,
            "group_number": fact.number,
            "weights": fact.weights,
            "state": "written",
            "written_at": fact.at,
        },
    )


def _check_shipment(scope: Scope, fact: GroupShipped) -> None:
    what = f"group {fact.number}"
    if not fact.leases or len(set(fact.leases)) != len(fact.leases):
        raise PaceBug(f"{what} needs distinct leases, not {list(fact.leases)}")
    found = scope.connection.execute(TAKEN, {"of_run": scope.run_id, "of_leases": fact.leases})
    rows = {row.lease: row for row in found}
    for lease, staleness in zip(fact.leases, fact.staleness, strict=True):
        row = rows.get(lease)
        if row is None or (row.state, row.stage) != ("open", "complete"):
            raise PaceBug(f"{what} cannot take lease {lease}: it {scope.lease_is(lease)}")
        if row.oldest_version is None or staleness != fact.update - row.oldest_version:
            raise PaceBug(
                f"{what}: lease {lease} sampled by version {row.oldest_version} is not {staleness} "
                f"stale at update {fact.update}"
            )
        limit = scope.max_staleness if scope.max_staleness is not None else staleness
        if not 0 <= staleness <= limit:
            raise PaceBug(f"{what}: lease {lease} is {staleness} stale; the run allows 0 to {limit}")
