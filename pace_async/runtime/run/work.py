"""What a search thread works on: a lease, and how far an earlier process had got with it.

A decided lease is implemented and evaluated without asking the advisor again, from the last answer of a model that is
recorded; one that has passed a stage of a cascade is evaluated from the next stage on without asking the implementer
again, one whose program was being tried on fresh instances goes on with the next try, one that was only admitted starts
over with its own seeds. Each keeps its deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pace_async.errors import PaceBug
from pace_async.events import CascadeScore, CascadeStageEnded, Claimed, ImplementerChosen, ImplementerTry
from pace_async.implement.base import Implemented
from pace_async.search.state import Member
from pace_async.staleness.gate import Lease
from pace_async.state.run_state import RunState, Underway


@dataclass(frozen=True, slots=True)
class Decision:
    """What the advisor decided for a lease, before a candidate came of it; `chosen` is the implementer that a bandit
    chose. Where an earlier process had got so far: `tries`, the answers of an implementer, `implemented`, the program
    that was made last, and `passed`, the cheap stages that it has passed."""

    parent: Member
    idea_text: str
    experiment: str | None
    detail: str = ""
    tries: tuple[ImplementerTry, ...] = ()
    chosen: ImplementerChosen | None = None
    implemented: Implemented | None = None
    passed: tuple[CascadeScore, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """A lease to work on; with the parent that came from another island, if any, with `decision` where an earlier
    process had got so far, and with `claim` where it was trying the program on fresh instances."""

    lease: Lease
    island: int
    migrant: Member | None = None
    decision: Decision | None = None
    claim: Claimed | None = None


def unfinished(state: RunState) -> list[Work]:
    """What an earlier process left, by lease."""
    return [_work(state, state.running[lease]) for lease in sorted(state.running)]


def _work(state: RunState, underway: Underway) -> Work:
    decision = _decision(state, underway)
    return Work(underway.lease, underway.island, underway.migrant, decision, underway.claim)


def _decision(state: RunState, underway: Underway) -> Decision | None:
    advice, island = underway.advice, state.islands[underway.island]
    if advice is None:
        return None
    known = [*island.members, *(each for each in (underway.migrant, state.seed_program) if each is not None)]
    parent = next((member for member in known if member.candidate == advice.parent), None)
    if parent is None:
        raise PaceBug(
            f"candidate {advice.parent}, parent of lease {advice.lease}, is not known to island {island.number}"
        )
    implemented, passed = _got_so_far(underway.stages)
    return Decision(
        parent=parent,
        idea_text=next((idea.description for idea in island.ideas if idea.number == advice.idea), ""),
        experiment=advice.experiment,
        detail="" if advice.experiment is not None else "the answer could not be parsed",
        tries=underway.tries,
        chosen=underway.chosen,
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
