"""Writes a fact's rows and its entry in the journal. The only map from `pace_async.events` to the tables."""

from typing import assert_never

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
    LeaseAborted,
    LeaseOpened,
    LeaseReleased,
    LoopMeasured,
    Practised,
    RescoreBegan,
    Rescored,
    RunStateChanged,
    SettingChanged,
    TryEvaluated,
    VersionPublished,
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
        _write(scope, fact)
    except IntegrityError as error:
        raise PaceBug(f"the record refuses {_named(fact)}: {error.orig}") from error


def _write(scope: Scope, fact: Fact) -> None:
    match fact:
        case LeaseOpened():
            write_rollouts.lease_opened(scope, fact)
        case IslandActed():
            write_rollouts.island_acted(scope, fact)
        case Advised():
            write_rollouts.advised(scope, fact)
        case ImplementerChosen():
            write_spending.implementer_chosen(scope, fact)
        case ImplementerReserved():
            write_spending.implementer_reserved(scope, fact)
        case ImplementerCalled():
            write_spending.implementer_called(scope, fact)
        case ImplementerChecked():
            write_spending.implementer_checked(scope, fact)
        case TryEvaluated():
            write_spending.try_evaluated(scope, fact)
        case CascadeStageEnded():
            write_rollouts.cascade_stage_ended(scope, fact)
        case EvaluationAttempted():
            write_rollouts.evaluation_attempted(scope, fact)
        case Practised():
            write_rollouts.practised(scope, fact)
        case Claimed():
            write_rollouts.claimed(scope, fact)
        case Evaluated():
            write_rollouts.evaluated(scope, fact)
        case LeaseAborted():
            write_rollouts.lease_aborted(scope, fact)
        case GroupShipped():
            write_learning.group_shipped(scope, fact)
        case GroupEnded():
            write_learning.group_ended(scope, fact)
        case LeaseReleased():
            write_learning.lease_released(scope, fact)
        case VersionPublished():
            write_learning.version_published(scope, fact)
        case FaultSeen():
            write_run.fault_seen(scope, fact)
        case RunStateChanged():
            write_run.run_state_changed(scope, fact)
        case LoopMeasured():
            write_run.loop_measured(scope, fact)
        case SettingChanged():
            write_spending.setting_changed(scope, fact)
        case RescoreBegan():
            write_epochs.rescore_began(scope, fact)
        case Rescored():
            write_epochs.rescored(scope, fact)
        case EpochInForce():
            write_epochs.epoch_in_force(scope, fact)
        case IdeaGiven():
            write_people.idea_given(scope, fact)
        case _:
            assert_never(fact)


def _named(fact: Fact) -> str:
    key = next((name for name in ("lease", "number", "version", "entry") if hasattr(fact, name)), None)
    return type(fact).__name__ + (f" of {key} {getattr(fact, key)}" if key else "")
