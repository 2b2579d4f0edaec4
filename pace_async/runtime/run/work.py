"""The work of a search thread: a lease, with the results of an earlier process.

A decided lease is implemented and evaluated without the advisor, from the last recorded answer of a model. A lease that
has passed a stage of a cascade is evaluated from the next stage on, without the implementer. A lease whose program was
being tried on fresh instances goes on with the next try. A given program is evaluated as it is. A lease that was
only admitted starts again with its own seeds. Each keeps its deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pace_async.errors import PaceBug
from pace_async.events import Advised, CascadeScore, CascadeStageEnded, Claimed, ImplementerChosen, ProgramGiven
from pace_async.frozen_values import fast_init
from pace_async.implement.base import ImplementedProgram
from pace_async.search.state import Island, Member
from pace_async.staleness.gate import Lease
from pace_async.state.pools import newest_words
from pace_async.state.run_state import OpenRollout, RunState


@fast_init
@dataclass(frozen=True, slots=True)
class Decision:
    """The advisor's decision for a lease that has no candidate yet. `chosen` is the implementer that a bandit chose.
    The results of an earlier process, if any: `implemented`, the last program, and `passed`, the cheap stages that it
    has passed. What models answered is in the run's state."""

    parent: Member
    idea_text: str
    experiment: str | None
    detail: str = ""
    chosen: ImplementerChosen | None = None
    implemented: ImplementedProgram | None = None
    passed: tuple[CascadeScore, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseWork:
    """A lease to work on. It has the parent from another island, if any, the `decision` of an earlier process, if any,
    and the `claim` if that process was trying the program on fresh instances. `given` is the program for which it was
    opened."""

    lease: Lease
    island: int
    migrant: Member | None = None
    decision: Decision | None = None
    claim: Claimed | None = None
    given: ProgramGiven | None = None


def unfinished(state: RunState) -> list[LeaseWork]:
    """The unfinished leases of an earlier process, by lease."""
    return [
        LeaseWork(
            underway.lease,
            underway.island,
            underway.migrant,
            _decision(state, underway),
            underway.claim,
            underway.given,
        )
        for _, underway in sorted(state.running.items())
    ]


def _decision(state: RunState, underway: OpenRollout) -> Decision | None:
    advice, island = underway.advice, state.islands[underway.island]
    if advice is None:
        return None
    others = underway.migrant, underway.base, state.seed_program
    known = [*island.members, *(each for each in others if each is not None)]
    parent = next((member for member in known if member.candidate == advice.parent), None)
    if parent is None:
        raise PaceBug(
            f"candidate {advice.parent}, parent of lease {advice.lease}, is not known to island {island.number}"
        )
    implemented, passed = _got_so_far(underway.stages)
    if underway.given is not None:
        implemented = ImplementedProgram(underway.given.program)
    return Decision(
        parent=parent,
        idea_text=_idea_text(state, island, advice),
        experiment=advice.experiment,
        detail="" if advice.experiment is not None else "the answer could not be parsed",
        chosen=underway.chosen,
        implemented=implemented,
        passed=passed,
    )


def _idea_text(state: RunState, island: Island, advice: Advised) -> str:
    """The words of the idea that the experiment tests."""
    if not state.memory.active:
        return next((idea.description for idea in island.ideas if idea.number == advice.idea), "")
    proposed = next((note.description for note in advice.ideas if note.number == advice.idea), None)
    if proposed is not None or advice.idea is None:
        return proposed or ""
    known = state.memory.view(island.number).ideas.get(advice.idea)
    return newest_words(state, island.number).get(advice.idea, known.text) if known is not None else ""


def _got_so_far(stages: Sequence[CascadeStageEnded]) -> tuple[ImplementedProgram | None, tuple[CascadeScore, ...]]:
    """The last tried program, and the stages it has passed, from the first on. A program that was stopped, or whose
    full evaluation ended, is complete. A stage without a program belongs to a program that was given up."""
    began = max((place for place, ended in enumerate(stages) if ended.number == 1), default=0)
    latest = stages[began:]
    if not latest or latest[-1].program is None:
        return None, ()
    return ImplementedProgram(latest[-1].program, latest[-1].mechanism), tuple(ended.score for ended in latest)
