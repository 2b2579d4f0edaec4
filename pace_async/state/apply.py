"""How a fact changes the state of a run: one fold, for the facts of a running search as they are committed and for
those that a resume reads back from the journal.

Invariant: nothing else assigns to a `RunState` or to what it holds (`RunState.claimed` is the one part that is not
committed yet). Facts of different leases may come in another order than that of their commits. If the facts of each
lease, of each island's leases, and of the groups keep their order, the state is the same. Pure except for the state
that it is given: no clock, no draw, no row.
"""

from dataclasses import replace
from itertools import takewhile

from pace_async.errors import PaceBug
from pace_async.events import (
    Advised,
    CascadeStageEnded,
    Claimed,
    Evaluated,
    EvaluationAttempted,
    Fact,
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
    MeasuredAgain,
    NotesPage,
    Practised,
    ProgramGiven,
    Steered,
    TryEvaluated,
    VersionPublished,
)
from pace_async.events.causes import answers_of
from pace_async.fitness import Fitness
from pace_async.programs.compiled import digest_as_it_is
from pace_async.search.actions import after_action
from pace_async.search.bandit import Result
from pace_async.search.edit_bandit import Tries, arm_in
from pace_async.search.ideas import Pool, admit
from pace_async.search.islands import after_advice, after_evaluation, first_island
from pace_async.search.parents import fitter
from pace_async.search.state import Island, Member, Trial
from pace_async.staleness.gate import Lease
from pace_async.state import pools
from pace_async.state.bans import ban, measured, unban
from pace_async.state.memory import confirmation_of
from pace_async.state.notes import with_page
from pace_async.state.run_state import OpenRollout, Rollout, RunState, Terms, Turn, counts_of


def apply(state: RunState, fact: Fact) -> RunState:
    """The state after `fact`: the same object, changed. Raises PaceBug for a fact that cannot follow."""
    match fact:
        case LeaseOpened():
            _lease_opened(state, fact)
        case IslandActed():
            _island_acted(state, fact)
        case Advised():
            _advised(state, fact)
        case ImplementerChosen():
            state.running[fact.lease].chosen = fact
        case ImplementerReserved():
            state.reserved[fact.number] = fact.cost_usd
            state.reservations = max(state.reservations, fact.number)
        case ImplementerCalled():
            _implementer_called(state, fact)
        case ImplementerChecked():
            state.spend_usd += fact.cost_usd
        case TryEvaluated():
            _try_evaluated(state, fact)
        case CascadeStageEnded():
            state.running[fact.lease].stages += (fact,)
        case EvaluationAttempted() if fact.lease in state.running or not fact.lease:
            series = (fact.lease, fact.stage, fact.fresh)
            state.attempts[series] = max(fact.attempt, state.attempts.get(series, 0))
            if fact.score is not None:
                state.repeated[fact.lease] = (*state.repeated.get(fact.lease, ()), fact.score)
        case MeasuredAgain():
            state.repeats += 1
            state.measured[fact.candidate] = fact
            _measured(state)
        case Practised():
            _practised(state, fact)
        case Claimed():
            state.running[fact.lease].claim = fact
        case Evaluated():
            _evaluated(state, fact)
        case LeaseAborted():
            state.repeats += max(0, len(state.repeated.pop(fact.lease, ())) - 1)
            _lost(state, fact.lease)
            if (pinned := state.running[fact.lease].pinned) is not None and pinned not in state.steering.candidates:
                state.steering = state.steering.marked(pinned, "pin")
            _no_longer_runs(state, fact.lease)
            state.turns[fact.island] = Turn(False, fact.lease, fact.island)
        case LeaseReleased():
            rollout = state.complete.pop(fact.lease)
            if fact.closing == "skipped":
                _show(state, rollout)
            state.memory.show(fact.lease)  # an expired one is trained by nobody, and what it found is found
        case GroupShipped():
            _group_shipped(state, fact)
        case GroupEnded():
            _group_ended(state, fact)
        case VersionPublished():
            state.served = fact.version
        case IdeaGiven():
            state.memory.give(fact)
        case ProgramGiven():
            state.running[fact.lease].given = fact
            state.newest_given = max(state.newest_given, fact.entry)
        case Steered():
            before, state.steering = state.steering.banned(), state.steering.after(fact)
            for candidate in before ^ state.steering.banned():
                (unban if candidate in before else ban)(state, candidate)
        case LearnedBefore():
            _learned_before(state, fact)
        case _:
            pass  # describes the run's surroundings
    return state


def resumed(state: RunState, terms: Terms, islands: int) -> RunState:
    """A state that was folded from rows, ready for the process that continues the run: with the present terms, all of
    its islands, the buffer in the order of completion, no call in flight, and nothing lent."""
    seed = state.seed_program
    if seed is None:
        raise PaceBug("a run cannot go on before its seed program has been scored")
    state.terms = terms
    state.islands = {
        number: state.islands.get(number) or first_island(number, seed) for number in range(1, islands + 1)
    }
    state.reserved = {}
    state.lent, state.lent_programs, state.claimed.named = {}, {}, {}
    return state


def weights_found(state: RunState, weights: str) -> None:
    """Sets where this process has the weights of the learner's version. No row holds it, because a run's folder may
    have moved."""
    state.weights = weights


def rollout_of(state: RunState, fact: Evaluated) -> tuple[Island, Rollout]:
    """The rollout that `fact` completes, and its island afterwards. Changes nothing."""
    underway, rules = state.running[fact.lease], state.terms.rules
    advice = underway.advice
    if advice is None:
        raise PaceBug(f"lease {fact.lease} is complete and was never advised")
    trial = None
    if advice.experiment is not None:
        trial = Trial(fact.lease, advice.experiment, fact.outcome, fact.score)
    member = member_of(fact, rules.fitness, underway.practice)
    island = after_evaluation(
        state.islands[fact.island],
        parent=advice.parent,
        idea=advice.idea,
        trial=trial,
        member=member,
        rules=rules,
    )
    rollout = Rollout(
        underway.lease,
        advice.calls,
        fact.reward,
        fact.island,
        member,
        island.ideas,
        result_of(underway, fact),
        fact.outcome != "unparsed",
        fact.at,
        arm_in(advice.experiment) if state.terms.edits else None,
        fact.gained,
        answers_of(fact.outcome, fact.detail) == "cut_off",
    )
    return island, rollout


def result_of(underway: OpenRollout, fact: Evaluated) -> Result | None:
    """The result of the chosen implementer, None if none was chosen, or another model took over."""
    chosen, paid = underway.chosen, underway.paid
    if chosen is None or any(model != chosen.model for model in paid):
        return None
    return Result(chosen.lease, chosen.kind, chosen.model, fact.gained, paid.get(chosen.model, 0.0))


def member_of(ended: Evaluated, fitness: Fitness, practice: Practised | None = None) -> Member | None:
    """The candidate as a possible parent, None if it has no score. `practice` is the newest of its lease."""
    if ended.program is None or ended.score is None:
        return None
    return Member(
        candidate=ended.lease,
        program=ended.program,
        score=ended.score,
        feedback=ended.feedback,
        practice=practice_with(ended.program, practice),
        costs=fitness.costs(ended.metrics),
    )


def practice_with(program: str, practice: Practised | None) -> Practised | None:
    """The practice, None if it was that of another program."""
    known = practice is not None and practice.program_digest == digest_as_it_is(program)
    return practice if known else None


def _learned_before(state: RunState, fact: LearnedBefore) -> None:
    if state.memory.active:
        state.memory.inherit(fact)
    if fact.notes:
        state.notes = with_page(state.notes, NotesPage(0, 0, None, fact.notes))
    for kind, option, gains, others in fact.edits:
        state.visible.edits[kind, option] = Tries(gains, others)


def _practised(state: RunState, fact: Practised) -> None:
    if fact.lease in state.running:
        state.running[fact.lease].practice = fact
    elif fact.lease == 0 and state.seed_program is not None:
        state.seed_program = replace(state.seed_program, practice=fact)


def _lease_opened(state: RunState, fact: LeaseOpened) -> None:
    if fact.island not in state.islands:
        if state.seed_program is None:
            raise PaceBug(f"lease {fact.lease} opened before the seed program was scored")
        state.islands[fact.island] = first_island(fact.island, state.seed_program)
    underway = OpenRollout(Lease(fact.deadline, fact.lease), fact.island, _migrant(state, fact))
    if fact.migrant is not None and fact.migrant in state.steering.awaited():
        underway.pinned, state.steering = fact.migrant, state.steering.marked(fact.migrant, "")
    state.running[fact.lease] = underway
    state.last_lease = max(state.last_lease, fact.lease)
    state.turns[fact.island] = Turn(True, fact.lease, fact.island)


def _island_acted(state: RunState, fact: IslandActed) -> None:
    island = state.islands[fact.island]
    try:
        state.islands[fact.island] = after_action(island, fact, _arriving(state, fact), state.terms.rules)
    except ValueError as error:
        raise PaceBug(f"island {island.number} cannot take this action: {error}") from error
    if state.memory.active:
        if fact.partner is not None:
            pools.crossed(state, fact.island, fact.partner)
        state.memory.crossed(fact)


def _migrant(state: RunState, fact: LeaseOpened) -> Member | None:
    """The program of another island that the lease starts from. A running run has chosen it when it claimed the place.
    Facts in the order of their commits find what the islands show, facts in another order what was lent."""
    place = state.claimed.openings.get(fact.lease)
    if place is not None or fact.migrant is None:
        return place.migrant if place is not None else None
    members = (*state.visible.elites.values(), *state.visible.front)
    matches = (member for member in members if member.candidate == fact.migrant)
    return next(matches, None) or state.lent_programs.get(fact.migrant)


def _arriving(state: RunState, fact: IslandActed) -> Pool:
    """The ideas of the partner that the island takes in, found as the migrant is."""
    place = state.claimed.openings.get(fact.lease)
    if place is not None or fact.partner is None or fact.as_of is None:
        return place.arriving if place is not None else ()
    lent = state.lent.get(fact.as_of)
    return state.visible.pools[fact.partner].ideas if lent is None else lent


def _advised(state: RunState, fact: Advised) -> None:
    underway = state.running[fact.lease]
    underway.advice, underway.answers = fact, ()
    underway.base = state.lent_programs.get(fact.parent)
    if state.memory.active:
        return
    island = state.islands[fact.island]
    proposals = [note.description for note in fact.ideas]
    verdicts = [note.number if note.known else None for note in fact.ideas]
    try:
        pool, numbered, next_idea = admit(
            island.ideas, proposals, verdicts, island.next_idea, state.terms.rules.ideas_kept
        )
    except ValueError as error:
        raise PaceBug(f"island {island.number} cannot take these ideas: {error}") from error
    if [note.number for note in numbered] != [note.number for note in fact.ideas]:
        raise PaceBug(f"island {island.number}: its ideas are not numbered in order")
    state.islands[fact.island] = after_advice(island, pool, next_idea)


def _implementer_called(state: RunState, fact: ImplementerCalled) -> None:
    state.spend_usd += fact.cost_usd
    if fact.reservation is not None:
        state.reserved.pop(fact.reservation, None)
    if fact.notes is not None:
        state.notes = with_page(state.notes, fact.notes)
    if fact.left is not None:
        pools.remove_ideas(state, fact.left)
    underway = state.running.get(fact.lease)
    if underway is not None and fact.answered is not None:
        purpose = fact.answered.purpose
        earlier = takewhile(lambda answer: answer.purpose != purpose, underway.answers)
        underway.answers = (*earlier, fact.answered)
    if underway is not None and fact.role == "implementer":
        underway.paid[fact.model] = underway.paid.get(fact.model, 0.0) + fact.cost_usd
        if fact.tried is not None:
            underway.tries += (fact.tried,)


def _try_evaluated(state: RunState, fact: TryEvaluated) -> None:
    underway = state.running[fact.lease]
    changes = {
        "evaluation": fact.outcome,
        "evaluation_detail": fact.detail,
        "evaluation_feedback": fact.feedback,
    }
    underway.tries = tuple(
        replace(attempt, **changes) if attempt.number == fact.number else attempt for attempt in underway.tries
    )


def _evaluated(state: RunState, fact: Evaluated) -> None:
    if fact.lease == 0:
        state.seed_program = member_of(fact, state.terms.rules.fitness)
        state.memory.seed(fact)
        _known_best(state, state.seed_program)
        return
    island, rollout = rollout_of(state, fact)
    member, advice = rollout.member, state.running[fact.lease].advice
    if (again := confirmation_of(fact)) is not None:
        state.confirmed[fact.lease] = again
    if fact.repeated:  # the attempts of a lease are not read again once it is complete
        state.repeated[fact.lease] = fact.repeated
        state.repeats += len(fact.repeated) - (fact.score is not None or bool(fact.fresh))  # the last may have failed
    if state.memory.active and advice is not None:
        practised = practice_with(fact.program or "", state.running[fact.lease].practice)
        state.memory.complete(advice, fact, practised.score if practised is not None else None)
    _known_best(state, member)
    state.islands[fact.island] = island
    state.evaluated += 1
    _add_in_order(state, rollout)
    _no_longer_runs(state, fact.lease)
    if shows_at_once(state):
        state.visible.show_program(fact.island, member)
        state.memory.show(fact.lease)
    if fact.lease in state.lent:
        state.lent[fact.lease] = island.ideas


def _measured(state: RunState) -> None:
    ended = state.groups - bool(state.training)
    for candidate in sorted(state.measured):
        if state.measured[candidate].group <= ended:
            measured(state, state.measured.pop(candidate))


def _known_best(state: RunState, member: Member | None) -> None:
    if member is not None:
        state.best = fitter(state.terms.rules.fitness, state.best, member)


def _add_in_order(state: RunState, rollout: Rollout) -> None:
    """Sorted by time of completion, then by lease: commits may come in another order."""
    last = next(reversed(state.complete.values()), None)
    state.complete[rollout.lease.lease] = rollout
    if last is not None and (rollout.at, rollout.lease.lease) < (last.at, last.lease.lease):
        state.complete = dict(sorted(state.complete.items(), key=lambda item: (item[1].at, item[0])))


def _show(state: RunState, rollout: Rollout) -> None:
    """The other islands may see all that this rollout found."""
    state.visible.show(rollout)
    state.memory.show(rollout.lease.lease)


def _lost(state: RunState, lease: int) -> None:
    """Its ideas stay, unless they would be seen at a time that depends on which rollout ends first."""
    advice = state.running[lease].advice
    if state.memory.active and advice is not None and (shows_at_once(state) or state.memory.mode == "island"):
        state.memory.lost(advice)


def _no_longer_runs(state: RunState, lease: int) -> None:
    del state.running[lease]
    for key in [key for key in state.attempts if key[0] == lease]:
        del state.attempts[key]


def shows_at_once(state: RunState) -> bool:
    """Whether the other islands see a program as soon as it is scored: behind a barrier, what they see must not depend
    on which rollout ends first."""
    return state.terms.bound > 0


def _group_shipped(state: RunState, fact: GroupShipped) -> None:
    state.training = tuple(state.complete.pop(lease) for lease in fact.leases)
    state.groups = fact.number
    state.shipped = fact
    state.spreads = state.spreads.after(fact.rewards)
    versions = (fact.update - age for age in fact.staleness)
    state.health = state.health.after(fact.update, counts_of(zip(versions, state.training, strict=True)))
    if fact.restores is not None:
        state.health = state.health.back(fact.update)


def _group_ended(state: RunState, fact: GroupEnded) -> None:
    for rollout in state.training:
        _show(state, rollout)
    state.training = ()
    state.shipped = None
    _measured(state)
    state.learner = fact.version
    state.weights = fact.weights or state.weights
