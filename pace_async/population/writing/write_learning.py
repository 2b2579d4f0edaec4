"""Writes rows of the learning side: groups, their ends, versions.

A group takes complete leases and ends once. If it is trained, there is a new version, and its leases close as trained.
If it is skipped, its leases close as skipped, and the version stays, or the next one is made of an earlier one.
Invariant: no lease is trained beyond the run's staleness bound, nor twice. Versions only grow, one at a time.
"""

from functools import partial

from sqlalchemy import bindparam, func, select, update

from pace_async.errors import PaceBug
from pace_async.events import GroupEnded, GroupShipped, LeaseReleased, VersionPublished
from pace_async.population.fields import NAMED_METRICS
from pace_async.population.models import GroupRow, LeaseRow, VersionRow
from pace_async.population.prepared import Prepared
from pace_async.population.writing.scope import OF_LEASE, OF_RUN, STANDING, Scope

SHIP = Prepared(
    update(LeaseRow)
    .where(*STANDING, LeaseRow.stage == "complete", LeaseRow.oldest_version == bindparam("sampled_by"))
    .values(
        stage="shipped",
        group_number=bindparam("number"),
        staleness=bindparam("age"),
        group_reward=bindparam("earned"),
        advantage=bindparam("weight"),
    )
)
END = Prepared(
    update(GroupRow)
    .where(
        GroupRow.run_id == OF_RUN,
        GroupRow.group_number == bindparam("of_group"),
        GroupRow.update_number == bindparam("of_update"),
        GroupRow.state == "shipped",
    )
    .values(
        state=bindparam("closing"),
        reason=bindparam("why"),
        seconds=bindparam("took"),
        ended_at=bindparam("now"),
        metrics=bindparam("others", type_=GroupRow.metrics.type),
        **{name: bindparam(f"its_{name}") for name in NAMED_METRICS},
    )
)
CLOSE = Prepared(
    update(LeaseRow)
    .where(LeaseRow.run_id == OF_RUN, LeaseRow.group_number == bindparam("of_group"), LeaseRow.state == "open")
    .values(
        state=bindparam("closing"), trained_by=bindparam("update"), reason=bindparam("why"), closed_at=bindparam("now")
    )
    .returning(LeaseRow.lease)
)
TAKEN = Prepared(
    select(LeaseRow.lease).where(
        LeaseRow.run_id == OF_RUN, LeaseRow.group_number == bindparam("of_group"), LeaseRow.stage == "shipped"
    )
)
SHIPPED = Prepared(
    select(func.count()).where(LeaseRow.run_id == OF_RUN, LeaseRow.group_number == bindparam("of_group"))
)
SAMPLED_BY = Prepared(select(LeaseRow.oldest_version).where(LeaseRow.run_id == OF_RUN, LeaseRow.lease == OF_LEASE))
NEWEST = Prepared(select(func.max(VersionRow.version)).where(VersionRow.run_id == OF_RUN))
RELEASE = Prepared(
    update(LeaseRow)
    .where(*STANDING, LeaseRow.stage == "complete")
    .values(state=bindparam("closing"), closed_at=bindparam("now"))
)
PUBLISH = Prepared(
    update(VersionRow)
    .where(VersionRow.run_id == OF_RUN, VersionRow.version == bindparam("of_version"), VersionRow.state == "written")
    .values(
        state="published",
        published_at=bindparam("now"),
        seconds=bindparam("took"),
        paused_seconds=bindparam("paused"),
        receipt=bindparam("digests", type_=VersionRow.receipt.type),
        probe_k3=bindparam("k3"),
    )
)


def group_shipped(scope: Scope, fact: GroupShipped) -> None:
    """Leases complete → shipped, with each lease's staleness, reward and advantage."""
    label = f"group {fact.number}"
    if not fact.leases:
        raise PaceBug(f"{label} needs leases")
    begun: dict[str, object] = {"state": "shipped", "reason": "", "metrics": {}, "shipped_at": fact.at}
    scope.record(GroupRow, fact, group_number=fact.number, update_number=fact.update, **begun)
    advantages = fact.advantages if fact.advantages is not None else (None,) * len(fact.leases)
    rows: list[dict[str, object]] = []
    for lease, age, earned, weight in zip(fact.leases, fact.staleness, fact.rewards, advantages, strict=True):
        if age < 0 or (scope.max_staleness is not None and age > scope.max_staleness):
            raise PaceBug(f"{label}: lease {lease} is {age} stale; the run allows 0 to {scope.max_staleness}")
        parameters = {"of_lease": lease, "sampled_by": fact.update - age, "number": fact.number}
        rows.append({**parameters, "age": age, "earned": earned, "weight": weight})
    scope.each(SHIP, partial(_not_shipped, scope, fact), rows)


def group_ended(scope: Scope, fact: GroupEnded) -> None:
    """The end of a group, and of its leases. A version is written if the group trained or the advisor went back to an
    earlier version."""
    label = f"group {fact.number}"
    if fact.closing not in ("trained", "skipped"):
        raise PaceBug(f"{label} ended as {fact.closing}: a group is trained or skipped")
    if fact.restored is not None and fact.closing == "trained":
        raise PaceBug(f"{label} cannot both train and go back to version {fact.restored}")
    makes = fact.closing == "trained" or fact.restored is not None
    expected = fact.update + 1 if makes else fact.update
    if fact.version != expected:
        raise PaceBug(
            f"{label} {fact.closing} at update {fact.update} must leave version {expected}, not {fact.version}"
        )
    scope.one(
        END,
        lambda: (
            f"{label} at update {fact.update} cannot end as {fact.closing}: it was not shipped so, or has ended already"
        ),
        of_group=fact.number,
        of_update=fact.update,
        closing=fact.closing,
        why=fact.reason,
        took=fact.seconds,
        now=fact.at,
        others={name: value for name, value in fact.metrics.items() if name not in NAMED_METRICS},
        **{f"its_{name}": fact.metrics.get(name) for name in NAMED_METRICS},
    )
    closed = scope.values(
        CLOSE,
        of_group=fact.number,
        closing=fact.closing,
        update=fact.update if fact.closing == "trained" else None,
        why=fact.reason or None,
        now=fact.at,
    )
    for lease in fact.leases:
        if lease not in closed:
            raise PaceBug(
                f"{label} cannot close lease {lease}, which was not shipped with it: it {scope.lease_is(lease)}"
            )
    if sorted(closed) != sorted(fact.leases) or scope.value(SHIPPED, of_group=fact.number) != len(closed):
        raise PaceBug(f"{label} must close exactly the leases it was shipped with, not {list(fact.leases)}")
    if makes:
        _version_written(scope, fact)


def lease_released(scope: Scope, fact: LeaseReleased) -> None:
    """A complete lease closes without a learner."""
    if fact.closing == "trained":
        raise PaceBug(f"lease {fact.lease} cannot be released as trained: only a group trains")
    scope.one(
        RELEASE,
        lambda: f"lease {fact.lease} cannot be released: it {scope.lease_is(fact.lease)}",
        of_lease=fact.lease,
        closing=fact.closing,
        now=fact.at,
    )


def version_published(scope: Scope, fact: VersionPublished) -> None:
    """Written → published, once. (Loading it into a restarted engine writes no fact.)"""
    scope.one(
        PUBLISH,
        lambda: f"version {fact.version} cannot be published: no group has written it, or it is published already",
        of_version=fact.version,
        now=fact.at,
        took=fact.seconds,
        paused=fact.paused_seconds,
        digests=dict(fact.receipt),
        k3=fact.k3,
    )


def _version_written(scope: Scope, fact: GroupEnded) -> None:
    if scope.value(NEWEST) != fact.update:
        raise PaceBug(f"group {fact.number} trained version {fact.update}, which is not the newest")
    scope.add(
        VersionRow,
        {
            "version": fact.version,
            "group_number": fact.number,
            "restored": fact.restored,
            "weights": fact.weights,
            "state": "written",
            "written_at": fact.at,
        },
    )


def _not_shipped(scope: Scope, fact: GroupShipped) -> str:
    """The error that names the lease which the group cannot take."""
    taken = scope.values(TAKEN, of_group=fact.number)
    both = zip(fact.leases, fact.staleness, strict=True)
    lease, age = next((pair for pair in both if pair[0] not in taken), (fact.leases[-1], fact.staleness[-1]))
    sampled_by = scope.value(SAMPLED_BY, of_lease=lease)
    return (
        f"group {fact.number} at update {fact.update} cannot take lease {lease} as {age} stale: it "
        f"{scope.lease_is(lease)}, and was sampled by version {sampled_by}"
    )
