"""Writes a fact's rows and its entry in the journal. The only map from `pace_async.events` to the tables."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.exc import IntegrityError

from pace_async.errors import PaceBug
from pace_async.events import (
    Advised,
    CascadeStageEnded,
    Claimed,
    EpochInForce,
    Evaluated,
    EvaluationAttempted,
    Fact,
    FaultSeen,
    GroupEnded,
    GroupShipped,
    IdeaGiven,
    ImplementerCalled,
    ImplementerChecked,
    ImplementerChosen,
    ImplementerReserved,
    IslandActed,
    LearnedBefore,
    LeaseAborted,
    LeaseOpened,
    LeaseReleased,
    LoopMeasured,
    MeasuredAgain,
    Practised,
    ProgramGiven,
    RescoreBegan,
    Rescored,
    RunStateChanged,
    SettingChanged,
    Steered,
    TryEvaluated,
    VersionPublished,
)
from pace_async.population.models import (
    Base,
    EvaluationAttemptRow,
    GivenProgramRow,
    ImplementerChoiceRow,
    ReservationRow,
)
from pace_async.population.writing import (
    write_epochs,
    write_learning,
    write_people,
    write_rollouts,
    write_run,
    write_spending,
)
from pace_async.population.writing.scope import Scope
from pace_async.population.writing.write_journal import append


def write(scope: Scope, fact: Fact) -> None:
    """Write `fact` into the open transaction, its rows and its entry in the journal. Raises PaceBug if it contradicts
    the record: an id used twice, a broken reference, a step out of order, a score without the outcome ok."""
    project(scope, fact)
    append(scope, fact)


def project(scope: Scope, fact: Fact) -> None:
    """Write the fact's rows without its entry in the journal. Raises PaceBug."""
    try:
        WRITERS[type(fact)](scope, fact)
    except IntegrityError as error:
        raise PaceBug(f"the record refuses {_name_of(fact)}: {error.orig}") from error


def _as_it_is(table: type[Base]) -> Callable[[Scope, Any], None]:
    """For a fact that is one row of this table."""
    return lambda scope, fact: scope.record(table, fact)


WRITERS: Mapping[type, Callable[[Scope, Any], None]] = {
    LeaseOpened: write_rollouts.lease_opened,
    IslandActed: write_rollouts.island_acted,
    Advised: write_rollouts.advised,
    ImplementerChosen: _as_it_is(ImplementerChoiceRow),
    ImplementerReserved: _as_it_is(ReservationRow),
    ImplementerCalled: write_spending.implementer_called,
    ImplementerChecked: write_spending.implementer_checked,
    TryEvaluated: write_spending.try_evaluated,
    CascadeStageEnded: write_rollouts.cascade_stage_ended,
    EvaluationAttempted: _as_it_is(EvaluationAttemptRow),
    Practised: write_rollouts.practised,
    Claimed: write_rollouts.claimed,
    Evaluated: write_rollouts.evaluated,
    MeasuredAgain: write_rollouts.measured_again,
    LeaseAborted: write_rollouts.lease_aborted,
    GroupShipped: write_learning.group_shipped,
    GroupEnded: write_learning.group_ended,
    LeaseReleased: write_learning.lease_released,
    VersionPublished: write_learning.version_published,
    FaultSeen: write_run.fault_seen,
    RunStateChanged: write_run.run_state_changed,
    LoopMeasured: write_run.loop_measured,
    SettingChanged: write_spending.setting_changed,
    RescoreBegan: write_epochs.rescore_began,
    Rescored: write_epochs.rescored,
    EpochInForce: write_epochs.epoch_in_force,
    IdeaGiven: write_people.idea_given,
    ProgramGiven: _as_it_is(GivenProgramRow),
    Steered: write_people.steered,
    LearnedBefore: write_people.learned_before,
}
"""What writes the rows of each fact."""


def _name_of(fact: Fact) -> str:
    key = next((name for name in ("lease", "number", "version", "entry") if hasattr(fact, name)), None)
    return type(fact).__name__ + (f" of {key} {getattr(fact, key)}" if key else "")
