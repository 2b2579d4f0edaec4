"""The state of a run, from its committed rows: the same for a fresh run and for one that is resumed.

A complete lease goes back to the buffer, a decided one is implemented and evaluated without asking the advisor again,
from the last answer of a model that is recorded; one that has passed a stage of a cascade is evaluated from the next
stage on without asking the implementer again, one whose program was being tried on fresh instances goes on with the
next try, one that was only admitted starts over with its own seeds, a shipped group waits for its end. Each keeps its
deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pace_async.config import Config
from pace_async.errors import PaceBug
from pace_async.events import Advised, CascadeScore, CascadeStageEnded, GroupShipped
from pace_async.implement.base import Implemented
from pace_async.population.record import OpenLease, RunRecord
from pace_async.runtime.state import Decision, Rollout, RunState, Turn, Work, member_of
from pace_async.search.islands import first_island
from pace_async.search.state import Island, Member
from pace_async.staleness.gate import Lease


@dataclass(frozen=True, slots=True)
class Restored:
    """`state` to go on with, and the group, if any, whose end is not known."""

    state: RunState
    shipped: GroupShipped | None


def restore(record: RunRecord, config: Config) -> Restored:
    """Needs the score of the task's own program to be committed."""
    if record.seed_program is None:
        raise PaceBug("a run cannot go on before its seed program has been scored")
    islands = {number: first_island(number, record.seed_program) for number in range(1, config.search.threads + 1)}
    islands.update(record.islands)
    state = RunState(
        size=config.learner.group_size,
        bound=config.bound,
        direction=record.header.direction,
        islands=islands,
        elites=dict(record.elites),
        pools=dict(record.pools),
        results=dict(record.results),
        trains=config.learner.objective != "none",
        policy=config.staleness.policy,
        learner=record.version,
        served=record.published,
        groups=record.next_group - 1,
        evaluated=record.candidates,
        next_lease=record.next_lease,
        spend_usd=record.spend_usd,
        best=record.best,
        weights=record.weights,
        spreads=record.spreads,
        health=record.health,
        turns={
            island: Turn(last.state != "aborted", last.lease, island) for island, last in record.last_leases.items()
        },
    )
    if len(record.shipped) > 1:
        raise PaceBug("more than one group is in training")
    in_training: list[Rollout] = []
    for row in sorted(record.leases, key=_completion):
        lease = Lease(row.deadline, row.lease)
        if row.evaluated is not None and row.advice is not None:
            rollout = Rollout(
                lease,
                row.advice.calls,
                row.evaluated.reward,
                row.island,
                member_of(row.evaluated),
                row.ideas,
                row.result,
                row.evaluated.outcome != "unparsed",
            )
            if row.stage == "shipped":
                in_training.append(rollout)
            else:
                state.complete[row.lease] = rollout
        else:
            state.running[row.lease] = lease
            state.paid[row.lease] = dict(row.paid)
            decision = _decision(row, islands[row.island], record.seed_program)
            state.unfinished.append(Work(lease, row.island, row.migrant, decision, row.claim))
    state.training = tuple(sorted(in_training, key=lambda rollout: rollout.lease.lease))
    return Restored(state, record.shipped[0] if record.shipped else None)


def _completion(row: OpenLease) -> tuple[float, int]:
    return (row.evaluated.at if row.evaluated is not None else 0.0, row.lease)


def _decision(row: OpenLease, island: Island, seed_program: Member) -> Decision | None:
    if row.advice is None:
        return None
    advice: Advised = row.advice
    arrived = () if row.migrant is None else (row.migrant,)
    known = {member.candidate: member for member in (*island.members, *arrived, seed_program)}
    parent = known.get(advice.parent)
    if parent is None:
        raise PaceBug(f"candidate {advice.parent}, parent of lease {row.lease}, is not known to island {row.island}")
    implemented, passed = _got_so_far(row.stages)
    return Decision(
        parent=parent,
        calls=advice.calls,
        idea=advice.idea,
        idea_text=next((idea.description for idea in island.ideas if idea.number == advice.idea), ""),
        experiment=advice.experiment,
        detail="" if advice.experiment is not None else "the answer could not be parsed",
        tries=row.tries,
        chosen=row.chosen,
        implemented=implemented,
        passed=passed,
    )


def _got_so_far(stages: Sequence[CascadeStageEnded]) -> tuple[Implemented | None, tuple[CascadeScore, ...]]:
    """The program that was tried last, and the stages it has passed, from the first on. One that was stopped, or whose
    full evaluation ended, is complete; a stage without a program belongs to one that was given up."""
    began = max((place for place, ended in enumerate(stages) if ended.number == 1), default=0)
    latest = stages[began:]
    if not latest or latest[-1].program is None:
        return None, ()
    return Implemented(latest[-1].program, latest[-1].mechanism), tuple(ended.score for ended in latest)
