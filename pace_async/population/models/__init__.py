"""The tables. Every key starts with run_id, so that several runs can share one database.

The database itself enforces these rules. An id is used once. Every reference exists. A score exists if and only if the
outcome is ok, and is finite. A lease is closed if and only if its state is a closing one. A lease is trained in at most
one group. `writing` enforces rules over several rows (legal order, staleness within the bound). Times are seconds since
the epoch, durations seconds. Names are those of `pace_async.events`. `update` and `group` are SQL keywords, so the
columns are update_number and group_number.
"""

from pace_async.population.models.advice import (
    AdvisorCallRow,
    ExperimentRow,
    IdeaRow,
    IslandActionRow,
    IslandRow,
    LeaseRow,
    ProposalRow,
)
from pace_async.population.models.base import (
    ATTEMPT_OUTCOMES,
    GROUP_STATES,
    LEASE_STAGES,
    LEASE_STATES,
    PRACTICE_OUTCOMES,
    RUN_STATES,
    SCORED_OUTCOMES,
    STAGE_OUTCOMES,
    Base,
)
from pace_async.population.models.candidates import (
    CandidateRow,
    CascadeScoreRow,
    ClaimRow,
    EvaluationAttemptRow,
    FreshScoreRow,
    PracticeRow,
)
from pace_async.population.models.implementing import (
    IdeasLeftRow,
    ImplementerCallRow,
    ImplementerCheckRow,
    ImplementerChoiceRow,
    ImplementerTryRow,
    NotesPageRow,
    ReservationRow,
)
from pace_async.population.models.journal import BlobRow, JournalRow, SnapshotRow
from pace_async.population.models.learning import GroupRow, VersionRow
from pace_async.population.models.people import GivenIdeaRow, GivenProgramRow, InboxRow, SteeringRow
from pace_async.population.models.rescoring import EpochScoreRow, EvaluationEpochRow
from pace_async.population.models.running import FaultRow, RunRow, RunStateRow, SecretRow, SettingChangeRow

__all__ = [
    "ATTEMPT_OUTCOMES",
    "GROUP_STATES",
    "LEASE_STAGES",
    "LEASE_STATES",
    "PRACTICE_OUTCOMES",
    "RUN_STATES",
    "SCORED_OUTCOMES",
    "STAGE_OUTCOMES",
    "AdvisorCallRow",
    "Base",
    "BlobRow",
    "CandidateRow",
    "CascadeScoreRow",
    "ClaimRow",
    "EpochScoreRow",
    "EvaluationAttemptRow",
    "EvaluationEpochRow",
    "ExperimentRow",
    "FaultRow",
    "FreshScoreRow",
    "GivenIdeaRow",
    "GivenProgramRow",
    "GroupRow",
    "IdeaRow",
    "IdeasLeftRow",
    "ImplementerCallRow",
    "ImplementerCheckRow",
    "ImplementerChoiceRow",
    "ImplementerTryRow",
    "InboxRow",
    "IslandActionRow",
    "IslandRow",
    "JournalRow",
    "LeaseRow",
    "NotesPageRow",
    "PracticeRow",
    "ProposalRow",
    "ReservationRow",
    "RunRow",
    "RunStateRow",
    "SecretRow",
    "SettingChangeRow",
    "SnapshotRow",
    "SteeringRow",
    "VersionRow",
]
