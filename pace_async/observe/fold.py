"""Folds one event into a RunView.

Pure: the same header and the same events give the same view. Total: an event that does not fit (a group that was never
shipped, a thread beyond those announced) changes what it can, because a display must not stop a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, assert_never

from pace_async.events import (
    GIVEN_UP,
    AdmissionHeld,
    Advised,
    CallUnaffordable,
    CascadeStageEnded,
    Cause,
    Claimed,
    Closing,
    EpochInForce,
    Evaluated,
    EvaluationAttempted,
    Fact,
    FaultSeen,
    FreshScore,
    GroupEnded,
    GroupShipped,
    IdeaGiven,
    ImplementerCalled,
    ImplementerChecked,
    ImplementerChosen,
    ImplementerReserved,
    IslandActed,
    LearnedBefore,
    LearnerStageChanged,
    LeaseAborted,
    LeaseOpened,
    LeaseReleased,
    LoopMeasured,
    MeasuredAgain,
    NodesSeen,
    Practised,
    ProgramGiven,
    RescoreBegan,
    Rescored,
    RunStateChanged,
    SettingChanged,
    StageChanged,
    Stalled,
    Starting,
    Steered,
    TransientEvent,
    TryEvaluated,
    VersionPublished,
    cause_of,
)
from pace_async.events.causes import FEW_SCORED, CandidateAnswers, answers_of
from pace_async.events.priced import is_unpriced
from pace_async.fitness import ranks_above
from pace_async.frozen_values import changed
from pace_async.observe import formatting
from pace_async.observe.formatting import clean
from pace_async.observe.model import (
    GROUPS_KEPT,
    NOTES_KEPT,
    TIMES_KEPT,
    Best,
    Leases,
    Note,
    NoteKind,
    OnFront,
    RunView,
    Stage,
    thin,
)
from pace_async.observe.runners_up import after_measuring, after_word, behind_with
from pace_async.population.reading.progress import RECENT
from pace_async.search.front import with_point
from pace_async.search.results import headline

ALIVE = ("running", "draining")
EXPERIMENT_CELLS = 240

K = TypeVar("K", str, int, Cause)
N = TypeVar("N", int, float)


def fold(view: RunView, event: Fact | TransientEvent) -> RunView:
    """`view` after `event`."""
    view = changed(view, latest=None)  # the only copy: what follows sets its fields
    match event:
        case StageChanged():
            return _thread(view, event.island, event.stage)
        case LearnerStageChanged():
            return _set(view, learner=changed(view.learner, stage=event.stage))
        case Starting():
            return _set(view, reason=event.what)
        case CallUnaffordable():
            return _set(view, unaffordable=event)
        case AdmissionHeld():
            text = "paused: no new candidates" if event.held else "goes on: new candidates again"
            return _note(_set(view, held=event.held), event.at, "state", text)
        case NodesSeen():
            return _set(view, nodes=event)
        case Stalled():
            return _note(_set(view, stalled=event.reason), event.at, "fault", formatting.stalled(event))
        case RunStateChanged():
            return _state(view, event)
        case _:
            ledger = view.ledger.after(event)
            return _fact(_set(view, last_at=max(view.last_at, event.at), ledger=ledger), event)


def _set(view: RunView, **fields: Any) -> RunView:
    """The view that `fold` has made, with these values."""
    view.__dict__.update(fields)
    return view


def _fact(view: RunView, event: Fact) -> RunView:
    match event:
        case LeaseOpened():
            view = _set(view, leases=changed(view.leases, admitted=view.leases.admitted + 1))
            return _thread(view, event.island, "advise")
        case Advised():
            idea = next((note.description for note in event.ideas if note.number == event.idea), None)
            experiment = clean(headline(event.experiment, idea), EXPERIMENT_CELLS)
            view = _set(view, experiments={**view.experiments, event.lease: experiment})
            return _thread(view, event.island, "implement")
        case ImplementerCalled():
            gave_up = event.outcome == GIVEN_UP
            return _set(
                view,
                spend_usd=view.spend_usd + event.cost_usd,
                spent=_added(view.spent, event.role, event.cost_usd),
                calls=_added(view.calls, event.role, 1),
                unanswered=_unanswered(view, event),
                given_up=view.given_up + gave_up,
                given_up_usd=view.given_up_usd + gave_up * event.cost_usd,
                unpriced=view.unpriced | {event.role} if _is_unpriced(view, event) else view.unpriced,
                reserved={number: usd for number, usd in view.reserved.items() if number != event.reservation},
            )
        case ImplementerChecked():
            return _set(
                view,
                spend_usd=view.spend_usd + event.cost_usd,
                spent=_added(view.spent, event.role, event.cost_usd),
                unpriced=view.unpriced | {event.role} if _is_unpriced(view, event) else view.unpriced,
            )
        case ImplementerReserved():
            return _set(view, reserved={**view.reserved, event.number: event.cost_usd})
        case Evaluated():
            return _evaluated(view, event)
        case MeasuredAgain():
            return _note(_set(view, **after_measuring(view, event)), event.at, "candidate", formatting.measured(event))
        case GroupShipped():
            moved = len(event.leases)
            leases = changed(view.leases, buffered=view.leases.buffered - moved, training=view.leases.training + moved)
            return _set(view, leases=leases, shipped=event, learner=changed(view.learner, alpha=event.alpha))
        case GroupEnded():
            return _group_ended(view, event)
        case LeaseAborted():
            view = _set(view, leases=_close(view.leases, "aborted", 1))
            view = _thread(_forget(view, event.lease), event.island, "waiting")
            return _note(view, event.at, "fault", formatting.aborted(event))
        case LeaseReleased():
            leases = _close(changed(view.leases, buffered=view.leases.buffered - 1), event.closing, 1)
            return _set(view, leases=leases)
        case VersionPublished():
            learner = changed(view.learner, published=event.version, paused_seconds=event.paused_seconds)
            return _set(view, learner=learner)
        case FaultSeen():
            return _note(
                _set(_services(view, event), faults=view.faults + 1), event.at, "fault", formatting.fault(event)
            )
        case RunStateChanged():
            return _state(view, event)
        case IdeaGiven():
            return _note(view, event.at, "state", formatting.idea_given(event))
        case ProgramGiven():
            return _note(view, event.at, "state", formatting.program_given(event))
        case Steered():
            return _note(_set(view, **after_word(view, event)), event.at, "state", formatting.steered(event))
        case LearnedBefore():
            return _note(view, event.at, "state", clean(event.in_words))
        case SettingChanged() | IslandActed() | TryEvaluated() | ImplementerChosen() | CascadeStageEnded() | Claimed():
            return view
        case EvaluationAttempted() | Practised() | RescoreBegan() | Rescored() | EpochInForce() | LoopMeasured():
            return view
        case _:
            assert_never(event)


def _is_unpriced(view: RunView, event: ImplementerCalled | ImplementerChecked) -> bool:
    tokens = event.prompt_tokens + event.completion_tokens
    return is_unpriced(view.header.config, event.role, tokens, event.cost_usd)


def _unanswered(view: RunView, event: ImplementerCalled) -> int:
    """Calls without an answer in a row. Nothing waits for those for notes, and one that the run gave up says nothing of
    the service."""
    if event.role == "notes" or event.got_answer is None:
        return view.unanswered
    return 0 if event.got_answer else view.unanswered + 1


def _added(sums: Mapping[str, N], role: str, more: N) -> dict[str, N]:
    return {**sums, role: sums[role] + more if role in sums else more}


def _services(view: RunView, event: FaultSeen) -> RunView:
    """Which services are away or fail, after the fault."""
    match event.kind:
        case "provider_down":
            return _set(view, models_down=view.models_down + 1)
        case "all_providers_down":
            return _set(view, models_down=view.models_down + 1, paused=True)
        case "provider_back":
            return _set(view, models_down=max(0, view.models_down - 1), paused=False)
        case "database_back" | "disk_back":
            return _set(view, stalled="")
        case "stage_paused":
            return _set(view, failing={**view.failing, event.where: clean(event.detail)})
        case "stage_back":
            return _set(view, failing={key: detail for key, detail in view.failing.items() if key != event.where})
        case _:
            return view


def _state(view: RunView, event: RunStateChanged) -> RunView:
    view = _set(
        view,
        state=event.state,
        reason=formatting.reason(event.state, event.reason),
        last_at=max(view.last_at, event.at),
    )
    if event.state == "running":
        view = _set(
            view,
            started_at=event.at,
            ended_at=None,
            finished_here=0,
            times=(),
            threads={},
            ledger=view.ledger.resumed(event.at),
            # an earlier process's knowledge of the services is out of date
            reserved={},
            given_up=0,
            given_up_usd=0.0,
            unanswered=0,
            models_down=0,
            paused=False,
            failing={},
        )
    elif event.state not in ALIVE:
        view = _set(view, ended_at=event.at)
    return _note(view, event.at, "state", formatting.state(event))


def _answered(event: Evaluated) -> CandidateAnswers:
    return CandidateAnswers(event.lease, answers_of(event.outcome, event.detail))


def _evaluated(view: RunView, event: Evaluated) -> RunView:
    experiment = view.experiments.get(event.lease, "")
    seed = event.lease == 0
    done = view.candidates if seed else view.candidates + 1
    if event.score is not None and (costs := view.header.fitness.costs(event.metrics)):
        view = _set(view, front=with_point(view.front, OnFront(event.lease, costs)))
    improved = event.score is not None and (view.best is None or _above(view, event, view.best))
    if seed:
        view = _set(view, seed_score=event.score)
    else:
        view = _set(
            _thread(_forget(view, event.lease), event.island, "waiting"),
            candidates=done,
            finished_here=view.finished_here + 1,
            outcomes=_more(view.outcomes, event.outcome),
            recent_answers=(*view.recent_answers, _answered(event))[-RECENT:],
            memoised=view.memoised + event.memoised,
            saved=view.saved.after(event.outcome, event.seconds, event.memoised),
            causes=_causes(view, event),
            times=(*view.times, event.at)[-TIMES_KEPT:],
            leases=changed(view.leases, buffered=view.leases.buffered + 1),
        )
    mine, best = None, view.best
    if event.score is not None:
        mine = Best(event.lease, event.score, event.island, experiment, done, event.at, confirmed(event.fresh))
    if improved and event.score is not None:
        higher = view.best is None or view.header.fitness.better(event.score, view.best.score)
        gained = ((done, event.score),) if higher else ()
        view = _set(view, best=mine, behind=behind_with(view, best), improvements=thin((*view.improvements, *gained)))
    elif best is not None and _equals(view, event, best) and event.lease < best.candidate:
        # As in the leaderboard, the older of two equal candidates is the best, also where it was complete later.
        older = replace(best, candidate=event.lease, island=event.island, experiment=experiment)
        view = _set(view, best=replace(older, fresh=confirmed(event.fresh)), behind=behind_with(view, best))
    else:
        view = _set(view, behind=behind_with(view, mine))
    if seed:
        return _note(view, event.at, "seed", formatting.seed_program(event))
    chosen_by = confirmed(event.fresh) if view.header.by_confirmed else None
    sentence = formatting.candidate_done(event, improved, experiment, chosen_by)
    return _note(view, event.at, "best" if improved else "candidate", sentence)


def _above(view: RunView, event: Evaluated, best: Best) -> bool:
    """Whether a candidate stands above the best so far, as in the leaderboard."""
    assert event.score is not None
    new, old = (event.score, confirmed(event.fresh)), (best.score, best.fresh)
    return ranks_above(view.header.fitness, new, old, by_confirmed=view.header.by_confirmed)


def _equals(view: RunView, event: Evaluated, best: Best) -> bool:
    return event.score == best.score and (not view.header.by_confirmed or confirmed(event.fresh) == best.fresh)


def _causes(view: RunView, event: Evaluated) -> Mapping[Cause, int]:
    """Why candidates have no score, counted as long as few have one."""
    if view.scored + (event.outcome == "ok") >= FEW_SCORED:
        return {}
    cause = cause_of(event.outcome, event.detail)
    return view.causes if cause is None else _more(view.causes, cause)


def confirmed(tries: Sequence[FreshScore]) -> float | None:
    """The score of the try that confirmed a claim, None if no try did."""
    return next((attempt.score for attempt in tries if attempt.held), None)


def _group_ended(view: RunView, event: GroupEnded) -> RunView:
    shipped = view.shipped if view.shipped is not None and view.shipped.number == event.number else None
    size = len(event.leases)
    leases = _close(changed(view.leases, training=view.leases.training - size), event.closing, size)
    learner = view.learner
    rewards = learner.rewards
    staleness = view.staleness
    if shipped is not None:
        rewards = (*rewards, sum(shipped.rewards) / len(shipped.rewards))[-GROUPS_KEPT:]
        if event.closing == "trained":
            for age in shipped.staleness:
                staleness = _more(staleness, age)
    trained = event.closing == "trained"
    learner = changed(
        learner,
        trained=learner.trained + trained,
        skipped=learner.skipped + (not trained),
        version=event.version,
        step_seconds=event.seconds if trained else learner.step_seconds,
        metrics=event.metrics or learner.metrics,
        rewards=rewards,
        rollbacks=learner.rollbacks + (event.restored is not None),
        shortened=learner.shortened + (0 < event.metrics.get("step_scale", 1.0) < 1),
        undone=learner.undone + (event.metrics.get("step_scale", 1.0) == 0),
    )
    view = _set(view, leases=leases, learner=learner, staleness=staleness, shipped=None)
    return _note(view, event.at, "group", formatting.group_ended(event, shipped, view.header.objective))


def _close(leases: Leases, closing: Closing, amount: int) -> Leases:
    return changed(leases, **{closing: getattr(leases, closing) + amount})


def _thread(view: RunView, island: int, stage: Stage) -> RunView:
    return _set(view, threads={**view.threads, island: stage})


def _forget(view: RunView, lease: int) -> RunView:
    return _set(view, experiments={key: value for key, value in view.experiments.items() if key != lease})


def _note(view: RunView, at: float, kind: NoteKind, text: str) -> RunView:
    note = Note(at, kind, text)
    return _set(view, notes=(*view.notes, note)[-NOTES_KEPT:], latest=note)


def _more(counts: Mapping[K, int], key: K) -> dict[K, int]:
    return {**counts, key: counts.get(key, 0) + 1}
