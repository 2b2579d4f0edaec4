"""A run as plain lines, for pipes, logs and terminals that cannot be redrawn.

One line for each important event (the seed program, a new best, a group, a fault, a change of state), and a line of
figures every few candidates, and after a minute without a line. When the bottleneck has changed, a second line says
what would help. A candidate that is no new best has a line if nothing was written in the ten seconds before it: each
one of a slow search, and a few of a fast one.
"""

from pace_async.events import Cause, Evaluated, NodesSeen, RunHeader, RunStateChanged, Starting
from pace_async.observe import formatting
from pace_async.observe.base import Event
from pace_async.observe.few_scores import ENOUGH, few_scores
from pace_async.observe.formatting import clean
from pace_async.observe.model import RunView
from pace_async.observe.output import Output
from pace_async.observe.parse_rate import alarm_of, answers_of
from pace_async.observe.roofline import Term, advice
from pace_async.observe.spending import spent_usd
from pace_async.observe.standing import on_fresh, to_best_known
from pace_async.registry.objectives import trains

SHOWN = ("seed", "best", "group", "fault", "state")
EVERY = 20
DRAIN_S = 2.0
CANDIDATE_S = 10.0
"""Seconds without a line, by the facts' own times, after which a candidate that is no new best has one."""
STOP_AT_ONCE = "interrupting the run now stops it at once"
QUIET_S = 60.0
"""Seconds without a line after which the figures are written: a run that waits for a slow model is not hung."""


class PlainDisplay:
    """Writes lines to `output`, with a line of figures every `every` candidates."""

    name = "plain"

    def __init__(self, output: Output, every: int = EVERY) -> None:
        self._output = output
        self._every = every
        self._begun = False
        self._binding: Term | None = None
        self._cause: Cause | None = None
        self._alarmed = False
        self._nodes = 0
        self._wrote = False
        self._quiet_since: float | None = None
        self._last_at = float("-inf")

    def take(self, event: Event, view: RunView) -> None:
        self._begin(view)
        if isinstance(event, Starting):
            self._line(f"{'':>7}  starting {event.what}")
        if isinstance(event, NodesSeen) and event.nodes != self._nodes:
            self._nodes = event.nodes
            self._line(f"{'':>7}  {formatting.nodes(event)}")
        note = view.latest
        if note is not None and (note.kind in SHOWN or note.at - self._last_at >= CANDIDATE_S):
            self._last_at = note.at
            self._line(f"{_clock(view, note.at)}  {note.text}")
            if isinstance(event, RunStateChanged) and event.state == "draining":
                self._line(f"{'':>7}  {STOP_AT_ONCE}")
        if isinstance(event, Evaluated) and event.lease and view.candidates % ENOUGH == 0:
            self._few(view)
            self._parses(view)
        if isinstance(event, Evaluated) and view.candidates and view.candidates % self._every == 0 and event.lease:
            self._line(f"{_clock(view, event.at)}  {figures(view, event.at)}")
            self._advise(view, event.at)

    async def refresh(self, view: RunView, now: float) -> None:
        self._begin(view)
        if self._wrote or self._quiet_since is None:
            self._wrote, self._quiet_since = False, now
        elif now - self._quiet_since >= QUIET_S and view.ended_at is None:
            self._line(f"{_clock(view, now)}  {figures(view, now)}")
        self._output.flush()

    async def close(self, view: RunView, now: float) -> None:
        if self._output.left_out:
            self._line(
                f"{_clock(view, now)}  {formatting.count(self._output.left_out, 'line')} left out: output not read"
            )
        await self._output.drain(DRAIN_S)

    def _begin(self, view: RunView) -> None:
        if not self._begun:
            self._begun = True
            self._line(heading(view))
            if view.candidates:
                self._line(f"{'':>7}  goes on from {figures(view, view.last_at)}")
                self._few(view)
            elif view.seed_score is not None:
                self._line(f"{'':>7}  the seed program scores {formatting.score(view.seed_score)}")

    def _few(self, view: RunView) -> None:
        """Say why hardly any candidate has a score, again only for another cause."""
        warning = few_scores(view.candidates, view.scored, view.causes, view.header.name)
        if warning and warning.cause != self._cause:
            self._cause = warning.cause
            self._line(f"{'':>7}  {warning.sentence}")

    def _parses(self, view: RunView) -> None:
        """Say that answers no longer parse, again only after they did."""
        alarm = alarm_of(*answers_of(view.header.advisor, view.outcomes, view.recent_answers), view.header.name)
        if alarm is not None and not self._alarmed:
            self._line(f"{'':>7}  {alarm}")
        self._alarmed = alarm is not None

    def _advise(self, view: RunView, now: float) -> None:
        limits = view.limits(now)
        few = few_scores(view.candidates, view.scored, view.causes)
        if limits is not None and not view.failing and few is None and limits.binding != self._binding:
            self._binding = limits.binding
            self._line(f"{'':>7}  {advice(limits, view.header.max_staleness)}")

    def _line(self, text: str) -> None:
        self._output.write(text + "\n")
        self._wrote = True


def heading(view: RunView) -> str:
    """The run's identity and shape in one line."""
    header = view.header
    parts = (
        f"run {clean(header.name)}",
        f"task {clean(header.task)}",
        f"objective {header.objective}",
        f"advisor {clean(header.advisor)}",
        f"implementer {clean(header.implementer)}",
        formatting.count(header.threads, "search thread"),
        *(_learns(header) if trains(header.objective) else []),
        f"seed {header.seed}",
        *([formatting.SHARED_TRUST] if header.shares_trust else []),
    )
    return " · ".join(parts)


def _learns(header: RunHeader) -> list[str]:
    """The shape of what is trained."""
    bound = formatting.bound_in_words(header.policy, header.max_staleness)
    return [f"groups of {header.group_size}", f"staleness {bound}"]


def figures(view: RunView, now: float) -> str:
    """The run's figures in one line."""
    limit = f" of {view.stop.candidates:,}" if view.stop.candidates is not None else ""
    best = "no score yet" if view.best is None else f"best {formatting.score(view.best.score)}{_standing(view)}"
    rate = view.per_minute(now)
    parts = (
        f"{view.candidates:,}{limit} candidates",
        f"{formatting.number(rate)} a minute" if rate is not None else "",
        best,
        f"front of {len(view.front)}" if view.front else "",
        f"{formatting.count(view.learner.trained, 'group')} trained"
        + (f", {view.learner.skipped} skipped" if view.learner.skipped else "")
        if trains(view.header.objective)
        else "",
        f"{view.leases.in_flight} in flight",
        formatting.failing(view.failing) or formatting.ledger(view.busy(now), view.limits(now)),
        f"{view.leases.aborted} aborted" if view.leases.aborted else "",
        formatting.count(view.faults, "fault") if view.faults else "",
        _spent(view),
    )
    return " · ".join(part for part in parts if part)


def _standing(view: RunView) -> str:
    """The best score's value on fresh instances and its relation to the best known."""
    if view.best is None:
        return ""
    known = to_best_known(view.best.score, view.best_known, view.header.fitness, named=False)
    remark = ", ".join(part for part in (on_fresh(view.best.score, view.best.fresh, view.header), known) if part)
    return f" ({remark})" if remark else ""


def _spent(view: RunView) -> str:
    budget = f" of {formatting.usd(view.stop.budget)}" if view.stop.budget is not None else ""
    return (
        f"{spent_usd(view.spend_usd, view.unpriced)}{budget} spent" if view.spend_usd or view.unpriced or budget else ""
    )


def _clock(view: RunView, at: float) -> str:
    return f"{formatting.duration(at - (view.started_at if view.started_at is not None else at)):>7}"
