"""What one rollout may know, as a value. Pure: equal states give equal contexts, on a resume too.

Invariant: only committed facts are read, and under a barrier only those that were visible at the last group's end. Of
the metrics of a hidden scorer only those are taken that the task lists. Nothing of fresh instances is in here, and no
word that a program wrote in a scored evaluation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter

from pace_async.search.parents import fitter
from pace_async.search.results import KnownIdea, Results, TriedOut
from pace_async.search.state import Island, Member
from pace_async.state.run_state import RunState
from pace_async.task import TaskSpec

BEST, RECENT, LINEAGE, FAILED = 10, 10, 8, 5
"""Rows of each kind that a context takes. A rendering may show fewer."""
LOOKED_AT = 8
"""Programs that are compared to find one that differs."""
DIFFERS = 0.3
"""Share of lines from which on a program differs much."""
UNDER_WAY = 12


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a program finds where it is evaluated: the processors of the machine, None if not known, and packages that
    it can import, with their versions."""

    processors: int | None = None
    packages: tuple[str, ...] = ()


NOT_KNOWN = Surroundings()


@dataclass(frozen=True, slots=True)
class Row:
    """A result as shown. `same_as` is the first candidate with exactly the same score."""

    tested: TriedOut
    same_as: int | None


@dataclass(frozen=True, slots=True)
class UnderWay:
    """An experiment that another thread is trying out."""

    candidate: int
    parent: int
    idea: int | None
    experiment: str


@dataclass(frozen=True, slots=True)
class Context:
    """See the module. `best` is the best program that may be seen, None if the parent is as good. `other` differs much
    from both. `lineage` are the changes that led to the parent, its own first. `failed` are experiments without a score
    on this parent and on those that it came from. `tested`, `scored` and `failures` count all that was tried. `ideas`
    are the untried ones that can be chosen."""

    parent: Member
    best: Member | None
    other: Member | None
    metrics: Mapping[str, float]
    best_rows: tuple[Row, ...]
    recent_rows: tuple[Row, ...]
    lineage: tuple[TriedOut, ...]
    failed: tuple[TriedOut, ...]
    ideas: tuple[KnownIdea, ...]
    under_way: tuple[UnderWay, ...]
    tested: int
    scored: int
    untried: int
    failures: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def scores(self) -> list[float]:
        """Every score that is shown."""
        members = [member.score for member in (self.parent, self.best, self.other) if member is not None]
        rows = [row.tested.score for row in (*self.best_rows, *self.recent_rows)]
        return [*members, *(score for score in (*rows, *(one.score for one in self.lineage)) if score is not None)]


def context_of(state: RunState, spec: TaskSpec, island: Island, parent: Member, untried: int) -> Context:
    """The context of a rollout of `island` on `parent`. `untried` caps the untried ideas."""
    view = state.memory.view(island.number, island.course)
    members = _programs(state, island)
    best = parent
    for member in members:
        best = fitter(spec.direction, best, member)
    better = best if best.score != parent.score else None
    recent = view.recent(RECENT)
    top = view.best(BEST)
    own = view.tested.get(parent.candidate)
    under_way = _under_way(state, island)
    taken = {each.idea for each in under_way}
    return Context(
        parent=parent,
        best=better,
        other=_other([parent, *([better] if better is not None else [])], members),
        metrics=_shown(own.metrics if own is not None else {}, spec),
        best_rows=tuple(Row(one, None) for one in top),
        recent_rows=tuple(Row(as_told(one, spec), view.equal_to(one)) for one in recent if one not in top),
        lineage=tuple(view.lineage(parent.candidate, LINEAGE)),
        failed=tuple(as_told(one, spec) for one in view.failed_from(parent.candidate, FAILED)),
        ideas=tuple(idea for idea in view.waiting(untried) if idea.number not in taken),
        under_way=under_way[-UNDER_WAY:],
        tested=len(view.tested),
        scored=len(view.worth),
        untried=len(view.untried),
        failures=dict(view.failures),
    )


def as_told(one: TriedOut, spec: TaskSpec) -> TriedOut:
    """The result as a model may see it. A program sees hidden instances, so nothing that it wrote is the cause, unless
    the task's evaluator hides nothing from it and the task allows its words."""
    return one if spec.is_command and spec.feedback else replace(one, cause=one.told)


def view_of(state: RunState, island: Island) -> Results:
    """What the island's next rollout may know of earlier ones."""
    return state.memory.view(island.number, island.course)


def program_of(state: RunState, island: Island, candidate: int) -> Member | None:
    """The program of a candidate, if the island may see it and it is still kept."""
    known = [island] if state.memory.mode == "island" else state.islands.values()
    members = (member for each in known for member in each.members)
    shown = (*members, *state.visible.elites.values(), *([state.seed_program] if state.seed_program else []))
    if state.memory.mode != "island" and state.terms.bound == 0:
        shown = (*island.members, *state.visible.elites.values())
    return next((member for member in shown if member.candidate == candidate), None)


def _programs(state: RunState, island: Island) -> list[Member]:
    """Programs that the island may see, the best of its own first, each once."""
    elites = [] if state.memory.mode == "island" else [state.visible.elites[n] for n in sorted(state.visible.elites)]
    found = {member.candidate: member for member in (*island.members[:LOOKED_AT], *elites)}
    return list(found.values())


def _other(shown: Sequence[Member], members: Iterable[Member]) -> Member | None:
    """The program that differs most from those that are shown, if it differs much."""
    best, furthest = None, DIFFERS
    for member in sorted(members, key=attrgetter("candidate")):
        distance = min(unlike(member.program, one.program) for one in shown)
        if distance > furthest:
            best, furthest = member, distance
    return best


@lru_cache(maxsize=4096)
def unlike(one: str, other: str) -> float:
    """The share of lines that only one of two programs has, in [0, 1]."""
    a, b = _lines(one), _lines(other)
    return 1.0 - len(a & b) / len(a | b) if a | b else 0.0


@lru_cache(maxsize=512)
def _lines(program: str) -> frozenset[str]:
    return frozenset(stripped for line in program.splitlines() if (stripped := line.strip()))


def _shown(metrics: Mapping[str, float], spec: TaskSpec) -> Mapping[str, float]:
    """All of a command task, whose programs can read them anyway. Of a hidden scorer those that the task lists."""
    names = metrics if spec.is_command else spec.shown_metrics
    return {name: float(f"{metrics[name]:.3g}") for name in names if name in metrics}


def _under_way(state: RunState, island: Island) -> tuple[UnderWay, ...]:
    """What other threads are trying out. Nothing behind a barrier, where it would depend on who is faster."""
    if state.memory.mode != "run" or state.terms.bound == 0:
        return ()
    running = [state.running[lease] for lease in sorted(state.running)]
    advised = [each.advice for each in running if each.advice is not None and each.island != island.number]
    found = [
        UnderWay(advice.lease, advice.parent, advice.idea, advice.experiment)
        for advice in advised
        if advice.experiment is not None
    ]
    return tuple(found)
