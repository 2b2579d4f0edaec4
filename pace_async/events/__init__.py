"""The facts of a run, as values.

Each fact is written to the population in one transaction (`Population.commit`) and then shown (`observe`). Only
committed facts are shown, and only facts are committed. Ids are small integers counted from 1 within a run. A lease,
its rollout and its candidate share one id, and the task's own initial program is candidate 0. Version 0 is the given
advisor. Update u trains version u into u + 1 unless it is skipped. Times are seconds since the epoch (wall clock), and
durations are in seconds.
"""

from pace_async.events.advice import Advised, AdvisorCall, IdeaNote, IdeaTaken, IslandActed, LeaseOpened, TokenSpan
from pace_async.events.candidates import (
    CUT_OFF,
    GIVEN_UP,
    CascadeScore,
    CascadeStageEnded,
    Claimed,
    Curve,
    Evaluated,
    EvaluationAttempted,
    FreshScore,
    ImplementerCalled,
    ImplementerChecked,
    ImplementerChosen,
    ImplementerReserved,
    ImplementerTry,
    MeasuredAgain,
    Practised,
    TryEvaluated,
    deviation_of,
)
from pace_async.events.causes import Cause, cause_of
from pace_async.events.learned import EarlierResult, LearnedBefore
from pace_async.events.learning import GroupEnded, GroupShipped, LeaseAborted, LeaseReleased, VersionPublished
from pace_async.events.literals import Action, Closing, Kind, Outcome, Purpose, Role, Subject
from pace_async.events.notes import IdeasLeft, NotesPage
from pace_async.events.people import IdeaGiven, ProgramGiven, Steered
from pace_async.events.rescoring import EpochInForce, RescoreBegan, Rescored
from pace_async.events.running import FaultSeen, LoopMeasured, RunHeader, RunStateChanged, SettingChanged
from pace_async.events.transient import (
    AdmissionHeld,
    CallUnaffordable,
    LearnerStageChanged,
    NodesSeen,
    StageChanged,
    Stalled,
    Starting,
    TransientEvent,
)

__all__ = [
    "CUT_OFF",
    "GIVEN_UP",
    "Action",
    "AdmissionHeld",
    "Advised",
    "AdvisorCall",
    "CallUnaffordable",
    "CascadeScore",
    "CascadeStageEnded",
    "Cause",
    "Claimed",
    "Closing",
    "Curve",
    "EarlierResult",
    "EpochInForce",
    "Evaluated",
    "EvaluationAttempted",
    "Fact",
    "FaultSeen",
    "FreshScore",
    "GroupEnded",
    "GroupShipped",
    "IdeaGiven",
    "IdeaNote",
    "IdeaTaken",
    "IdeasLeft",
    "ImplementerCalled",
    "ImplementerChecked",
    "ImplementerChosen",
    "ImplementerReserved",
    "ImplementerTry",
    "IslandActed",
    "Kind",
    "LearnedBefore",
    "LearnerStageChanged",
    "LeaseAborted",
    "LeaseOpened",
    "LeaseReleased",
    "LoopMeasured",
    "MeasuredAgain",
    "NodesSeen",
    "NotesPage",
    "Outcome",
    "Practised",
    "ProgramGiven",
    "Purpose",
    "RescoreBegan",
    "Rescored",
    "Role",
    "RunHeader",
    "RunStateChanged",
    "SettingChanged",
    "StageChanged",
    "Stalled",
    "Starting",
    "Steered",
    "Subject",
    "TokenSpan",
    "TransientEvent",
    "TryEvaluated",
    "VersionPublished",
    "cause_of",
    "deviation_of",
]

Fact = (
    LeaseOpened
    | IslandActed
    | Advised
    | ImplementerChosen
    | ImplementerReserved
    | ImplementerCalled
    | ImplementerChecked
    | TryEvaluated
    | CascadeStageEnded
    | EvaluationAttempted
    | Practised
    | Claimed
    | Evaluated
    | MeasuredAgain
    | GroupShipped
    | GroupEnded
    | LeaseAborted
    | LeaseReleased
    | VersionPublished
    | FaultSeen
    | RunStateChanged
    | LoopMeasured
    | RescoreBegan
    | Rescored
    | EpochInForce
    | SettingChanged
    | IdeaGiven
    | ProgramGiven
    | Steered
    | LearnedBefore
)
