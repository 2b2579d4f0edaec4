"""The state of a run, rebuilt from its rows by the fold that made it (`state.apply`).

The rows hold events (opened, acted, proposed, tried, scored, trained), never derived state. So the state is unique, and
a resumed run has exactly the state of the interrupted one. The order of commits is not stored and not needed: facts
come by lease, because one island makes one rollout at a time, and a group comes after its last lease. What a lease
takes in from another island is older than the lease, and is passed to the fold separately.

For a closed lease only the fold's input is read: no tokens, answers or metrics. If only the cost of calls matters, the
database adds it up, and the fold begins with the sum.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, Row, and_, func, not_, or_, select

from pace_async.config import AdvisorConfig, SearchConfig
from pace_async.events import (
    Advised,
    Evaluated,
    EvaluationAttempted,
    Fact,
    GroupEnded,
    GroupShipped,
    IdeaNote,
    ImplementerCalled,
    LeaseAborted,
    LeaseOpened,
    LeaseReleased,
    Practised,
    RunHeader,
    VersionPublished,
)
from pace_async.gc_freeze import rare_collections
from pace_async.population.models import (
    CandidateRow,
    ExperimentRow,
    GroupRow,
    ImplementerCallRow,
    ImplementerChoiceRow,
    LeaseRow,
    ProposalRow,
    VersionRow,
)
from pace_async.population.reading.candidates import same_rollout
from pace_async.population.reading.epochs import epochs_of, first_scores_of, rescoring_of
from pace_async.population.reading.implementers_chosen import choices_of, gains_of
from pace_async.population.reading.read_facts import (
    actions_of,
    advice_of,
    answers_of,
    attempts_of,
    claims_of,
    covers_of,
    evaluations_of,
    practices_of,
    stages_of,
)
from pace_async.population.reading.read_spending import checks_of, deviations_of, last_reservation, tries_by_call
from pace_async.population.reading.written_notes import facts_of_notes, notes_of_run
from pace_async.registry.advisors import advisor_of
from pace_async.search.islands import goal_of
from pace_async.search.state import Member, Rules, rules_of
from pace_async.state.apply import apply, practice_with
from pace_async.state.rescored import Rescoring, rescored
from pace_async.state.run_state import RunState, Terms

_UNREAD: dict[str, float] = {}
BATCH = 500
"""Rollouts read at a time: each brings its program."""


def rules_of_run(header: RunHeader) -> Rules:
    """The rules of the islands from the run's row."""
    settings = cast("dict[str, Any]", header.config.get("search") or {})
    older = {"memory_mb": None, "memory": "pool"}  # a run that is older than a setting
    search = SearchConfig.model_validate({**older, **settings})
    return rules_of(search, header.direction, goal_of(header.direction, header.lower, header.upper))


def state_of(connection: Connection, run_id: int, header: RunHeader) -> RunState:
    """The fold over all facts of a run. The configuration in the run's row says how much is kept. Raises PaceBug for
    rows that no run can have written."""
    advisor = cast("dict[str, Any]", header.config.get("advisor") or {})
    edits = not advisor_of(advisor.get("model", AdvisorConfig().model)).has_model
    terms = Terms(header.group_size, header.max_staleness, rules_of_run(header), edits=edits)
    state = RunState(terms, spend_usd=_sum_of_calls(connection, run_id))
    source = _Source(connection, run_id)
    if state.memory.active:
        source.read_results()
    state.lent.update(dict.fromkeys(source.lent, ()))
    state.lent_programs.update(source.programs)
    with rare_collections():
        for fact in source.facts():
            if isinstance(fact, Rescoring):
                rescored(state, fact)
            else:
                apply(state, fact)
    return state


class _Source:
    """The facts of one run. Small tables are read at once, the rollouts with their notes and calls in batches."""

    def __init__(self, connection: Connection, run_id: int) -> None:
        self._connection, self._run_id = connection, run_id
        rows = connection.execute(
            select(LeaseRow.lease, LeaseRow.stage, LeaseRow.migrant).where(
                LeaseRow.run_id == run_id, LeaseRow.state == "open"
            )
        ).all()
        leases = [row.lease for row in rows]
        self._open = set(leases)
        self._advice = advice_of(connection, run_id, leases)
        self._answers = answers_of(connection, run_id, [lease for lease in leases if lease not in self._advice])
        self._ended = evaluations_of(connection, run_id, [0, *leases])
        self._tries = tries_by_call(connection, run_id, leases)
        self._stages, self._claims = stages_of(connection, run_id, leases), claims_of(connection, run_id)
        self._attempts = attempts_of(connection, run_id)
        self._actions = actions_of(connection, run_id)
        self._chosen, self._gains = choices_of(connection, run_id, None), gains_of(connection, run_id)
        self._epochs = [epoch for epoch in epochs_of(connection, run_id) if epoch.last_lease is not None]
        self._first = first_scores_of(connection, run_id) if self._epochs else {}
        self._pages = deque(notes_of_run(connection, run_id))
        self._extra: tuple[Any, ...] = ()
        self._deviations: dict[int, str] = {}
        self._practices: dict[int, Practised] = {}
        self.lent = [acted.as_of for acted in self._actions.values() if acted.as_of is not None]
        going = [row for row in rows if row.stage in ("admitted", "advised")]
        migrants = [row.migrant for row in going if row.migrant is not None]
        parents = [self._advice[row.lease].parent for row in going if row.lease in self._advice]
        self.programs = {number: _program(connection, run_id, number) for number in {*migrants, *parents}}

    def read_results(self) -> None:
        """Read also what only a memory of results needs of each candidate."""
        self._extra = (
            *(CandidateRow.detail, CandidateRow.seconds, CandidateRow.metrics),
            *(CandidateRow.program_hash, ExperimentRow.covers),
        )
        self._deviations = deviations_of(self._connection, self._run_id)

    def facts(self) -> Iterator[Fact | Rescoring]:
        """All facts that the fold needs. Every decision was based on the scores of its time, so the facts have those,
        and the results of an epoch come after the last lease before it."""
        connection, run_id = self._connection, self._run_id
        if 0 in self._ended:
            yield self._as_first(self._ended[0])
            yield from practices_of(connection, run_id, [0]).values()
        yield from checks_of(connection, run_id)
        yield from last_reservation(connection, run_id)
        yield from self._attempted(0)
        groups = _groups(connection, run_id)
        group = next(groups, None)
        taken: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for rows in _streamed(connection, _rollouts(run_id, self._extra)):
            notes = _notes(connection, run_id, rows[0].lease, rows[-1].lease)
            calls = _calls(connection, run_id, rows[0].lease, rows[-1].lease)
            self._practices = practices_of(connection, run_id, [row.lease for row in rows])
            for row in rows:
                lease, number = row.lease, row.group_number
                yield from self._epochs_before(lease)
                yield from self._rollout(row, notes.get(lease, ()), calls.get(lease, ()))
                if number is not None:
                    taken[number].append((lease, row.staleness, row.group_reward, row.advantage))
                while group is not None and group.last_lease <= lease:
                    yield from _group(group, taken.pop(group.group_number))
                    group = next(groups, None)
        yield from self._epochs_before(None)
        yield from facts_of_notes(self._pages, None)

    def _epochs_before(self, lease: int | None) -> Iterator[ImplementerCalled | Rescoring]:
        """The results of the epochs that came into force before this lease, or of all without one, and the pages of
        notes that are older than they."""
        while self._epochs and (lease is None or (self._epochs[0].last_lease or 0) < lease):
            epoch = self._epochs.pop(0)
            yield from facts_of_notes(self._pages, epoch.in_force_at)
            yield rescoring_of(self._connection, self._run_id, epoch.number)

    def _as_first(self, ended: Evaluated) -> Evaluated:
        """The rollout with the score of its own time."""
        if ended.lease not in self._first:
            return ended
        outcome, score = self._first[ended.lease]
        return replace(ended, outcome=outcome, score=score)

    def _rollout(self, row: Any, notes: Sequence[IdeaNote], calls: Sequence[Any]) -> Iterator[Fact]:
        lease, island, state, deadline, version, opened, closed, migrant, number, *_ = row
        parent, idea, experiment, outcome, score, program, feedback, *extra = row[12:]  # by names it takes longer
        detail, seconds, metrics, digest, covers = extra or ("", 0.0, _UNREAD, None, None)
        yield LeaseOpened(lease, island, deadline, version, opened, migrant)
        if lease in self._actions:
            yield self._actions[lease]
        if parent is not None:
            yield self._advice.get(lease) or Advised(
                lease, island, parent, (), tuple(notes), idea, experiment, 0.0, covers_of(covers)
            )
        if lease in self._chosen:
            yield self._chosen[lease]
        for call in calls:
            tried = self._tries.get((lease, call.ordinal))
            yield ImplementerCalled(lease, call.model, "", 0, 0, call.cost_usd, 0.0, 0.0, tried=tried, role=call.role)
        for answer in self._answers.get(lease, ()):  # it does not matter which of the calls above brought it
            yield ImplementerCalled(lease, "", "", 0, 0, 0.0, 0.0, 0.0, role="advisor", answered=answer)
        if lease in self._practices:
            yield self._practices[lease]
        if lease in self._open:
            yield from self._stages.get(lease, ())
            yield from self._attempted(lease)
            if lease in self._claims:
                yield self._claims[lease]
        if outcome is not None and lease in self._first:
            outcome, score = self._first[lease]
        if outcome is not None:
            gained, deviation = lease in self._gains, self._deviations.get(lease, "")
            if lease in self._ended:
                yield replace(self._as_first(self._ended[lease]), gained=gained, deviation=deviation)
            else:
                yield Evaluated(
                    *(lease, island, parent, program, digest, outcome, detail, score, 0.0),
                    *(metrics, seconds, False, None, 0.0),
                    feedback=feedback,
                    gained=gained,
                    deviation=deviation,
                )
        if state == "aborted":
            yield LeaseAborted(lease, island, "", "", closed)
        elif state != "open" and number is None:
            yield LeaseReleased(lease, state, closed)

    def _attempted(self, lease: int) -> Iterator[Fact]:
        for (of_lease, stage, fresh), attempt in self._attempts.items():
            if of_lease == lease:
                yield EvaluationAttempted(lease, stage, fresh, attempt, "ok", 0.0, 0.0, 0.0, 0.0, "", False)


def _group(group: Row[Any], leases: list[tuple[Any, ...]]) -> Iterator[Fact]:
    """The facts of a group: shipped, and, if they exist, ended and published. `leases` are (lease, staleness, reward,
    advantage)."""
    taken, staleness, rewards, advantages = zip(*leases, strict=True)
    yield GroupShipped(
        number=group.group_number,
        update=group.update_number,
        leases=taken,
        staleness=staleness,
        rewards=rewards,
        advantages=None if None in advantages else advantages,
        alpha=group.alpha,
        digest=group.digest,
        at=group.shipped_at,
        restores=group.restores,
        rate=group.rate,
    )
    if group.state == "shipped":
        return
    version = group.update_number if group.version is None else group.version
    yield GroupEnded(
        number=group.group_number,
        update=group.update_number,
        leases=taken,
        closing=group.state,
        reason="",
        version=version,
        weights=group.weights,
        metrics={},
        seconds=0.0,
        at=group.ended_at,
    )
    if group.published is not None:
        yield VersionPublished(version, 0.0, 0.0, {}, group.published)


def _streamed(connection: Connection, statement: Any) -> Iterator[Sequence[Any]]:
    """The rows in batches, because row by row takes twice as long."""
    return connection.execute(statement.execution_options(yield_per=BATCH)).partitions()


def _rollouts(run_id: int, extra: tuple[Any, ...]) -> Any:
    columns = (
        LeaseRow.lease,
        LeaseRow.island,
        LeaseRow.state,
        LeaseRow.deadline,
        LeaseRow.admitted_version,
        LeaseRow.opened_at,
        LeaseRow.closed_at,
        LeaseRow.migrant,
        LeaseRow.group_number,
        LeaseRow.staleness,
        LeaseRow.group_reward,
        LeaseRow.advantage,
        ExperimentRow.parent,
        ExperimentRow.idea,
        ExperimentRow.description,
        CandidateRow.outcome,
        CandidateRow.score,
        CandidateRow.program,
        CandidateRow.feedback,
        *extra,
    )
    return (
        select(*columns)
        .select_from(LeaseRow)
        .outerjoin(ExperimentRow, same_rollout(ExperimentRow, LeaseRow))
        .outerjoin(CandidateRow, same_rollout(CandidateRow, LeaseRow))
        .where(LeaseRow.run_id == run_id)
        .order_by(LeaseRow.lease)
    )


def _notes(connection: Connection, run_id: int, first: int, last: int) -> dict[int, list[IdeaNote]]:
    """The notes of the leases from `first` to `last`."""
    statement = (
        select(ProposalRow.lease, ProposalRow.idea, ProposalRow.description, ProposalRow.known)
        .where(ProposalRow.run_id == run_id, ProposalRow.lease.between(first, last))
        .order_by(ProposalRow.lease, ProposalRow.ordinal)
    )
    notes: defaultdict[int, list[IdeaNote]] = defaultdict(list)
    for lease, idea, description, known in connection.execute(statement).all():
        notes[lease].append(IdeaNote(idea, description, known))
    return notes


def _calls(connection: Connection, run_id: int, first: int, last: int) -> dict[int, list[Any]]:
    """The calls of the leases from `first` to `last` that the fold reads one by one."""
    row = ImplementerCallRow
    statement = (
        select(row.lease, row.ordinal, row.model, row.cost_usd, row.role)
        .where(row.run_id == run_id, row.lease.between(first, last), _is_read(run_id))
        .order_by(row.lease, row.ordinal)
    )
    calls: defaultdict[int, list[Any]] = defaultdict(list)
    for call in connection.execute(statement).all():
        calls[call.lease].append(call)
    return calls


def _is_read(run_id: int) -> ColumnElement[bool]:
    """Whether the fold reads a call itself: its lease is open, or an implementer was chosen for it."""
    lease = ImplementerCallRow.lease
    is_open = select(LeaseRow.lease).where(LeaseRow.run_id == run_id, LeaseRow.state == "open")
    chosen = select(ImplementerChoiceRow.lease).where(ImplementerChoiceRow.run_id == run_id)
    return or_(lease.in_(is_open), lease.in_(chosen))


def _sum_of_calls(connection: Connection, run_id: int) -> float:
    """USD of the calls that the fold does not read one by one."""
    row = ImplementerCallRow
    statement = select(func.coalesce(func.sum(row.cost_usd), 0.0)).where(row.run_id == run_id, not_(_is_read(run_id)))
    return connection.execute(statement).scalar_one()


def _groups(connection: Connection, run_id: int) -> Iterator[Any]:
    """The groups by number, each with its last lease and the version that it made, if any."""
    last = (
        select(LeaseRow.group_number, func.max(LeaseRow.lease).label("last_lease"))
        .where(LeaseRow.run_id == run_id, LeaseRow.group_number.is_not(None))
        .group_by(LeaseRow.group_number)
        .subquery()
    )
    made = and_(VersionRow.run_id == GroupRow.run_id, VersionRow.group_number == GroupRow.group_number)
    columns = (
        GroupRow.group_number,
        GroupRow.update_number,
        GroupRow.state,
        GroupRow.alpha,
        GroupRow.digest,
        GroupRow.shipped_at,
        GroupRow.ended_at,
        GroupRow.restores,
        GroupRow.rate,
        VersionRow.version,
        VersionRow.weights,
        VersionRow.published_at.label("published"),
        last.c.last_lease,
    )
    statement = (
        select(*columns)
        .join(last, last.c.group_number == GroupRow.group_number)
        .outerjoin(VersionRow, made)
        .where(GroupRow.run_id == run_id)
        .order_by(GroupRow.group_number)
    )
    return (group for groups in _streamed(connection, statement) for group in groups)


def _program(connection: Connection, run_id: int, candidate: int) -> Member:
    row = connection.execute(
        select(CandidateRow.candidate, CandidateRow.program, CandidateRow.score, CandidateRow.feedback).where(
            CandidateRow.run_id == run_id, CandidateRow.candidate == candidate
        )
    ).one()
    practice = practices_of(connection, run_id, [candidate]).get(candidate)
    return Member(row.candidate, row.program, row.score, row.feedback, practice_with(row.program, practice))
