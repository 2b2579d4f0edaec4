"""The view of a run that another process drives, made from one moment of its rows.

Pure. Invariant: it is the view that the run's own screen has at that moment. Excepted is what no row keeps: the length
of the last pause of the engine and the stage of a rollout between its model's answer and its evaluation. The threads'
busy share is that of the whole run.
"""

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, Literal, cast

from pace_async.baseline import Beside
from pace_async.config import StopConfig
from pace_async.events import (
    Evaluated,
    FaultSeen,
    GroupEnded,
    LeaseAborted,
    RunHeader,
    RunStateChanged,
)
from pace_async.observe import formatting
from pace_async.observe.fold import ALIVE, EXPERIMENT_CELLS, services
from pace_async.observe.formatting import clean
from pace_async.observe.history import with_progress
from pace_async.observe.ledger import Ledger
from pace_async.observe.model import NOTES_KEPT, LearnerView, Note, RunView, Stage
from pace_async.population.reading.moment import Moment
from pace_async.population.reading.news import News
from pace_async.population.timings import Timings


def view_at(moment: Moment, best_known: float | None = None, beside: Beside | None = None) -> RunView:
    """The view. `best_known` is the best score known for the run's task, `beside` what is recorded of such runs."""
    ended = moment.changed_at if moment.state not in (*ALIVE, "created") else None
    header = _in_force(moment)
    view = RunView(
        header=header,
        stop=_stop(header),
        state="starting" if moment.state == "created" else moment.state,
        reason=formatting.reason(moment.state, moment.reason),
        started_at=moment.started_at,
        last_at=moment.last_at,
        ended_at=ended,
        seed_score=moment.seed_score,
        best_known=best_known,
        beside=beside,
        candidates=moment.candidates,
        finished_here=moment.finished,
        times=moment.times,
        threads=cast("dict[int, Stage]", dict(moment.stages)),
        shipped=None if moment.training is None else moment.shipped[moment.training],
        learner=LearnerView(stage=_learner_stage(moment), version=moment.version, published=moment.published),
        spend_usd=moment.spend_usd,
        reserved=moment.reserved if ended is None else {},
    )
    for fault in moment.services:
        view = services(view, fault)
    view = with_progress(view, moment.progress)
    ledger = _ledger(moment.timings, view.elapsed(moment.last_at))
    return replace(view, ledger=ledger, notes=notes_at(moment)[-NOTES_KEPT:])


def notes_at(moment: Moment) -> tuple[Note, ...]:
    """Every note of the moment, oldest first: more than a view keeps."""
    improved = {one.candidate for one in moment.progress.improvements}
    return tuple(_note(fact, moment, improved) for fact in moment.news)


def cut_off(view: RunView) -> RunView:
    """The view of a run whose process has died: it ended with its last row."""
    return replace(view, state="cut_off", reason="", ended_at=view.last_at)


def _in_force(moment: Moment) -> RunHeader:
    """The header with the settings that resumes changed, as the run's own screen shows it."""
    config = {
        key: dict(cast("Mapping[str, Any]", part)) if isinstance(part, Mapping) else part
        for key, part in moment.header.config.items()
    }
    for key, value in moment.changes.items():
        section, _, name = key.partition(".")
        part = config.setdefault(section, {})
        if name and isinstance(part, dict):
            cast("dict[str, object]", part)[name] = value
    header, changes = moment.header, moment.changes
    return replace(
        header,
        implementer=str(changes.get("implementer.model", header.implementer)),
        max_staleness=int(cast("int", changes.get("staleness.max_staleness", header.max_staleness))),
        config=config,
    )


def _stop(header: RunHeader) -> StopConfig:
    return StopConfig.model_validate(header.config.get("stop") or {})


def _learner_stage(moment: Moment) -> Literal["waiting", "learn", "publish"]:
    if moment.training is not None:
        return "learn"
    return "publish" if moment.version > moment.published else "waiting"


def _ledger(timings: Timings, elapsed: float) -> Ledger:
    """The ledger of the rows. Its busy seconds are those of the whole run, scaled to this process's time."""
    share = timings.busy / timings.driven if timings.driven > 0 else 0.0
    ledger = Ledger(busy=share * elapsed, learning=timings.learning, push=timings.push)
    for times in timings.rollouts:
        ledger = ledger.timed(times)
    return ledger


def _note(fact: News, moment: Moment, improved: Set[int]) -> Note:
    """The fact as the run's own screen says it."""
    match fact:
        case Evaluated(lease=0):
            return Note(fact.at, "seed", formatting.seed_program(fact))
        case Evaluated():
            experiment = clean(moment.experiments.get(fact.lease, ""), EXPERIMENT_CELLS)
            better = fact.lease in improved
            return Note(fact.at, "best" if better else "candidate", formatting.candidate_done(fact, better, experiment))
        case GroupEnded():
            said = formatting.group_ended(fact, moment.shipped.get(fact.number), moment.header.objective)
            return Note(fact.at, "group", said)
        case LeaseAborted():
            return Note(fact.at, "fault", formatting.aborted(fact))
        case FaultSeen():
            return Note(fact.at, "fault", formatting.fault(fact))
        case RunStateChanged():
            return Note(fact.at, "state", formatting.state(fact))
