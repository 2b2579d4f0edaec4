"""The tables. Every one is keyed by run_id first, so that several runs can share one database.

Invariants that the database itself holds: an id is used once; every reference exists; a score is there if and only if
the outcome is ok, and is finite; a lease is closed if and only if its state says how; a lease is trained in one group
at most. What needs two rows to decide (legal order, staleness within the bound) is held by `writes`. Times are seconds
since the epoch, durations seconds. The words are those of `pace_async.events`; `update` and `group` are words of SQL,
so the columns are update_number and group_number.
"""

from pace_async.population.models.advice import (
    AdvisorCallRow,
    ExperimentRow,
    IdeaRow,
    IslandActionRow,
    IslandRow,
    LeaseRow,
    Proposal,
)
from pace_async.population.models.base import (
    GROUP_STATES,
    LEASE_STAGES,
    LEASE_STATES,
    RUN_STATES,
    SCORED_OUTCOMES,
    STAGE_OUTCOMES,
    Base,
)
from pace_async.population.models.candidates import CandidateRow, CascadeScoreRow, ClaimRow, FreshScoreRow
from pace_async.population.models.implementing import (
    ImplementerCallRow,
    ImplementerCheckRow,
    ImplementerChoiceRow,
    ImplementerTryRow,
    ReservationRow,
)
from pace_async.population.models.learning import GroupRow, VersionRow
from pace_async.population.models.running import Fault, Run, RunState, SecretRow, SettingChangeRow

__all__ = [
    "GROUP_STATES",
    "LEASE_STAGES",
    "LEASE_STATES",
    "RUN_STATES",
    "SCORED_OUTCOMES",
    "STAGE_OUTCOMES",
    "AdvisorCallRow",
    "Base",
    "CandidateRow",
    "CascadeScoreRow",
    "ClaimRow",
    "ExperimentRow",
    "Fault",
    "FreshScoreRow",
    "GroupRow",
    "IdeaRow",
    "ImplementerCallRow",
    "ImplementerCheckRow",
    "ImplementerChoiceRow",
    "ImplementerTryRow",
    "IslandActionRow",
    "IslandRow",
    "LeaseRow",
    "Proposal",
    "ReservationRow",
    "Run",
    "RunState",
    "SecretRow",
    "SettingChangeRow",
    "VersionRow",
]
