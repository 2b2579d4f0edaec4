"""What one rollout may know, as a value. Pure: equal states give equal contexts, on a resume too.

Invariant: only committed facts are read, and under a barrier only those that were visible at the last group's end. Of
the metrics of a hidden scorer only those are taken that the task lists. Nothing of fresh instances is in here, and no
word that a program wrote in a scored evaluation.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from math import inf
from operator import attrgetter

from pace_async.aims import weights_of
from pace_async.context.noise import Noise, noise_of
from pace_async.context.rows import Row, columns_of, row_of, shown_metrics
from pace_async.events import Advised, LearnedBefore, NotesPage
from pace_async.search.front import dominates, front_of, least_crowded
from pace_async.search.novelty import closest, distinct
from pace_async.search.parents import fitter
from pace_async.search.results import ExperimentResult, KnownIdea, Results, bare
from pace_async.search.state import Island, Member
from pace_async.state.notes import note_seen, page_seen
from pace_async.state.pools import view_of
from pace_async.state.run_state import RunState
from pace_async.task import TaskSpec

BEST, RECENT, LINEAGE, FAILED = 10, 10, 8, 5
"""Rows of each kind that a context takes, the recent ones besides the best. A rendering may show fewer."""
LOOKED_AT = 8
"""Programs that are compared to find one that differs."""
DIFFERS = 0.3
"""Share of lines from which on a program differs much."""
MOST_LEFT = 3
"""Ideas that a thread is asked to leave to others."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a program finds where it is evaluated: the processors of the machine, None if not known, packages that it
    can import, with their versions, compilers that it can start where it may start a command, and the version of the
    Python that runs it, empty if not known."""

    processors: int | None = None
    packages: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    python: str = ""


NOT_KNOWN = Surroundings()


@dataclass(frozen=True, slots=True)
class OngoingTrial:
    """What another thread is trying out: its idea by number and `what` it says, or the experiment where the idea is not
    known. `covers` are the ideas that its experiment carries out too."""

    candidate: int
    parent: int
    idea: int | None
    what: str
    covers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """See the module. `best` is the best program that may be seen, None if the parent is as good. `other` differs much
    from both. `lineage` are the changes that led to the parent, its own first. `failed` are experiments without a score
    on this parent and on those that it came from. `tested`, `scored` and `failures` count all that was tried. `ideas`
    are untried ones that can be chosen, of `untried` in all. `asked` counts other threads whose advisor is being asked
    at this moment, and `left` the ideas that this one leaves them.
    `noise` is what two evaluations of one program usually differ by, None if that is not known.
    `notes` is the newest page that may be seen, and `note` that of a person. `seed` is the task's own program, and
    `columns` are the metrics of all these results with what each says of the score. `begun` is False before a run has
    scored the task's own program: then the parent's score is no score. Its evaluation took `seconds`. `by_mean`: the
    best is so by the mean of two evaluations, and another one has a better score. With several objectives the best rows
    are those of the front, and `weights` are those of the rollout's reward. `pinned` are ideas that a person has put
    first, and `vetoed` those that a person has ruled out, the latest last. The run ends after `most` candidates, None
    if it has no such limit. `earlier` is what the run had learned from which this one started. `like` has, by the
    number of an untried idea, others that say nearly the same, and `close` a candidate that tried something close to
    it."""

    parent: Member
    best: Member | None
    other: Member | None
    metrics: Mapping[str, float]
    best_rows: tuple[Row, ...]
    recent_rows: tuple[Row, ...]
    lineage: tuple[Row, ...]
    failed: tuple[Row, ...]
    ideas: tuple[KnownIdea, ...]
    under_way: tuple[OngoingTrial, ...]
    tested: int
    scored: int
    untried: int
    asked: int = 0
    left: int = 0
    noise: Noise | None = None
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: NotesPage | None = None
    note: str = ""
    seed: Row | None = None
    columns: Mapping[str, float] = field(default_factory=dict[str, float])
    begun: bool = True
    by_mean: bool = False
    seconds: float = 0.0
    weights: tuple[float, ...] = ()
    pinned: frozenset[int] = frozenset()
    vetoed: tuple[KnownIdea, ...] = ()
    most: int | None = None
    earlier: LearnedBefore | None = None
    like: Mapping[int, tuple[KnownIdea, ...]] = field(default_factory=dict[int, tuple[KnownIdea, ...]])
    close: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def choosable(self) -> dict[int, KnownIdea]:
        """The untried ideas that are named, by number: those listed and those like them."""
        return {idea.number: idea for idea in (*self.ideas, *chain.from_iterable(self.like.values()))}

    @property
    def scores(self) -> list[float]:
        """Every score that is shown."""
        members = [member.score for member in (self.parent, self.best, self.other) if member is not None]
        rows = [row.tested.score for row in (*self.best_rows, *self.recent_rows)]
        line = [row.tested.score for row in (*self.lineage, *([self.seed] if self.seed is not None else []))]
        return [*members, *(score for score in (*rows, *line) if score is not None)]


def context_of(state: RunState, spec: TaskSpec, island: Island, parent: Member, untried: int) -> Context:
    """The context of a rollout of `island` on `parent`. `untried` caps the untried ideas."""
    view = view_of(state, island)
    top = sorted(
        _on_front(state, island, view) or view.best(BEST),
        key=lambda tested: -spec.fitness.merit(_worth(view, spec, tested)),
    )
    members = _programs(state, island, [tested.candidate for tested in top[:1]])
    best = parent
    for member in members:
        best = _fitter(view, spec, best, member)
    ahead = best if _worth(view, spec, best) != _worth(view, spec, parent) else None
    listed = {tested.candidate for tested in top}
    recent = [tested for tested in view.recent(BEST + RECENT) if tested.candidate not in listed][:RECENT]
    first = state.memory.first
    own = state.memory.view(island.number, island.course).tested.get(parent.candidate) or (
        first if parent.candidate == 0 else None
    )
    under_way = _under_way(state, island, view)
    pinned, vetoed = state.steering.pinned(), state.steering.vetoed()
    taken = {number for each in under_way for number in (each.idea, *each.covers) if number is not None} | {*vetoed}
    beside = _proposed_beside(state, island, view, taken)
    threads_asked = _threads_asked(state, island)
    seed = first.score if first is not None else None
    earlier = state.memory.earlier

    def judged(tested: ExperimentResult, same_as: int | None = None) -> Row:
        row = _repeating(_judged(row_of(view, tested, spec, seed), view, spec, best), earlier)
        return row if same_as is None else replace(row, same_as=same_as)

    best_rows = tuple(_marked([judged(tested) for tested in top], spec))
    recent_rows = tuple(judged(tested, view.equal_to(tested)) for tested in recent)
    seed_row = _seed_row(state, spec)
    trials = [(row.tested.candidate, row.idea or row.tested.experiment) for row in (*best_rows, *recent_rows)]
    trials += [(each.candidate, each.what) for each in under_way]
    listed, close = _distinct(view, beside, untried, taken, pinned, trials)
    return Context(
        parent=parent,
        best=ahead,
        other=_other([parent, *([ahead] if ahead is not None else [])], members),
        metrics=shown_metrics(own.metrics, spec) if own is not None else {},
        seconds=own.seconds if own is not None else 0.0,
        best_rows=best_rows,
        recent_rows=recent_rows,
        lineage=tuple(row_of(view, tested, spec) for tested in view.lineage(parent.candidate, LINEAGE)),
        failed=failed_on(view, parent, spec),
        ideas=tuple(listed),
        like={idea.number: like for idea, like in listed.items() if like},
        close=close,
        under_way=under_way,
        noise=noise_of(view, spec, first, state.repeated),
        tested=len(view.tested),
        scored=len(view.worth),
        untried=view.count_waiting(taken) + len(beside),
        asked=threads_asked,
        left=(island.number - 1) % (MOST_LEFT + 1) if threads_asked and parent.candidate == 0 else 0,
        failures=dict(view.failures),
        notes=page_seen(state) if state.memory.mode == "run" else None,
        note=note_seen(state),
        seed=seed_row,
        by_mean=any(_behind(view, spec, row, best) for row in (*best_rows, *recent_rows)),
        columns={
            **columns_of((*best_rows, *recent_rows, *([seed_row] if seed_row is not None else []))),
            **dict.fromkeys((aim.metric for aim in spec.aims), inf),
        },
        weights=_weights(state, spec, island),
        pinned=frozenset(pinned),
        vetoed=tuple(view.ideas[number] for number in vetoed if number in view.ideas),
        earlier=earlier,
    )


def _on_front(state: RunState, island: Island, view: Results) -> list[ExperimentResult]:
    """The least crowded results of the front that the island may see. Empty without objectives."""
    if not island.members[0].costs:
        return []
    others = () if state.memory.mode == "island" else state.visible.front
    front = front_of([member for member in (*island.members, *others) if member.candidate in view.tested])
    return [view.tested[member.candidate] for member in least_crowded(front)[:BEST]]


def _weights(state: RunState, spec: TaskSpec, island: Island) -> tuple[float, ...]:
    """How the objectives weigh in the island's open lease. Empty where there is none of either."""
    lease = max((each.lease.lease for each in state.running.values() if each.island == island.number), default=0)
    return weights_of(lease, len(spec.aims)) if lease and spec.aims else ()


def _seed_row(state: RunState, spec: TaskSpec) -> Row | None:
    """The task's own program as a result."""
    first, member = state.memory.first, state.seed_program
    if first is None or member is None:
        return None
    practice = member.practice.score if member.practice is not None else None
    return Row(replace(first, practice=practice), metrics=shown_metrics(first.metrics, spec))


def _worth(view: Results, spec: TaskSpec, member: Member | ExperimentResult) -> float:
    """What a score comes to. Where a single one says little, it is the mean with that of the second evaluation, if
    there was one, so that a program with luck in the first is not the best for it."""
    tested = view.tested.get(member.candidate)
    assert member.score is not None
    if tested is None or tested.again is None or spec.repeats:
        return member.score
    return (member.score + tested.again) / 2


def _fitter(view: Results, spec: TaskSpec, a: Member, b: Member) -> Member:
    """As `fitter`, by what the scores come to."""
    worth, other = _worth(view, spec, a), _worth(view, spec, b)
    if worth == other:
        return fitter(spec.fitness, a, b)
    return a if spec.fitness.better(worth, other) else b


def _behind(view: Results, spec: TaskSpec, row: Row, best: Member) -> bool:
    """Whether the row has a better score than the best program, and is behind it by what both come to."""
    tested = row.tested
    if tested.score is None or not spec.fitness.better(tested.score, best.score):
        return False
    return spec.fitness.better(_worth(view, spec, best), _worth(view, spec, tested))


def _judged(row: Row, view: Results, spec: TaskSpec, best: Member) -> Row:
    """The row, marked where its score is above that of the best program only for luck."""
    return replace(row, doubted=True) if not row.says_again and _behind(view, spec, row, best) else row


def _marked(rows: Iterable[Row], spec: TaskSpec) -> Iterator[Row]:
    """The best rows, marked where one with a worse score stands above, as only second evaluations can put it there."""
    above: float | None = None
    for row in rows:
        score = row.tested.score
        assert score is not None
        ahead = above is not None and spec.fitness.better(score, above)
        above = above if ahead else score
        yield replace(row, doubted=True) if ahead and not row.says_again else row


def _repeating(row: Row, earlier: LearnedBefore | None) -> Row:
    """The row, marked where its program was made in the run from which this one started."""
    candidate = earlier.programs.get(row.tested.program) if earlier is not None and row.same_program is None else None
    return row if candidate is None or earlier is None else replace(row, same_program=f"{candidate} of {earlier.run}")


def failed_on(view: Results, parent: Member, spec: TaskSpec) -> tuple[Row, ...]:
    """What has no score on this parent and on those that it came from."""
    return tuple(row_of(view, tested, spec) for tested in view.failed_from(parent.candidate, FAILED))


def program_of(state: RunState, island: Island, candidate: int) -> Member | None:
    """The program of a candidate, if the island may see it and it is still kept."""
    behind_barrier = state.memory.mode != "island" and state.terms.bound == 0
    known = [island] if state.memory.mode == "island" or behind_barrier else state.islands.values()
    seed = [state.seed_program] if state.seed_program and not behind_barrier else []
    sources = (*(each.members for each in known), state.visible.elites.values(), state.visible.front, seed)
    return next((member for member in chain.from_iterable(sources) if member.candidate == candidate), None)


def base_of(state: RunState, spec: TaskSpec, island: Island, parent: Member, candidate: int | None) -> Member:
    """What a rollout on `parent` changes whose answer names a candidate as base: that one, if the island may see its
    program and it is no worse, else the parent. An island that has gone back goes on from its own programs."""
    base, view = program_of(state, island, candidate) if candidate is not None else None, view_of(state, island)
    if base is None or _surpassed(view, spec, base, parent):
        return parent
    return parent if island.course.stay > 0 and base not in island.members else base


def _surpassed(view: Results, spec: TaskSpec, base: Member, parent: Member) -> bool:
    """Whether the parent is the better one of the two: with several objectives, in all of them."""
    if base.costs:
        return dominates(parent.costs, base.costs)
    return spec.fitness.better(_worth(view, spec, parent), _worth(view, spec, base))


def _programs(state: RunState, island: Island, candidates: Iterable[int]) -> list[Member]:
    """Programs that the island may see, the best of its own first, each once. `candidates` are others among them."""
    elites = [] if state.memory.mode == "island" else [state.visible.elites[n] for n in sorted(state.visible.elites)]
    others = (program_of(state, island, candidate) for candidate in candidates)
    members = (*island.members[:LOOKED_AT], *elites, *(other for other in others if other is not None))
    return list({member.candidate: member for member in members}.values())


def _other(references: Sequence[Member], members: Iterable[Member]) -> Member | None:
    """The program that differs most from those that are shown, if it differs much. Never the task's own, from which all
    came, and which may be empty."""
    best, furthest = None, DIFFERS
    for member in sorted((each for each in members if each.candidate), key=attrgetter("candidate")):
        distance = min(unlike(member.program, known.program) for known in references)
        if distance > furthest:
            best, furthest = member, distance
    return best


@lru_cache(maxsize=4096)
def unlike(program: str, other: str) -> float:
    """The share of lines that only one of two programs has, in [0, 1]."""
    a, b = _lines(program), _lines(other)
    return 1.0 - len(a & b) / len(a | b) if a | b else 0.0


@lru_cache(maxsize=512)
def _lines(program: str) -> frozenset[str]:
    return frozenset(stripped for line in program.splitlines() if (stripped := line.strip()))


def _advised(state: RunState, island: Island) -> list[Advised]:
    """What other threads try out, by lease. Nothing behind a barrier, where it would depend on who is faster."""
    if state.memory.mode != "run" or state.terms.bound == 0:
        return []
    running = [state.running[lease] for lease in sorted(state.running)]
    return [each.advice for each in running if each.advice is not None and each.island != island.number]


def _proposed_beside(state: RunState, island: Island, view: Results, taken: Collection[int]) -> list[KnownIdea]:
    """Ideas that were proposed and not chosen where the choice is under way, the newest first. They are in no view
    before it ends."""
    known = (taken, view.ideas, view.of_idea, view.covered)
    return [
        KnownIdea(note.number, note.description, advice.lease, advice.lease)
        for advice in reversed(_advised(state, island))
        for note in advice.ideas
        if not note.known and not any(note.number in numbers for numbers in known)
    ]


def _distinct(
    view: Results,
    beside: Sequence[KnownIdea],
    count: int,
    taken: Collection[int],
    pinned: Sequence[int],
    trials: Sequence[tuple[int, str]],
) -> tuple[dict[KnownIdea, tuple[KnownIdea, ...]], dict[int, int]]:
    """Up to `count` untried ideas, those `beside` included, each with those like it, and by number the candidates of
    `trials` that are close to one of them. People's come first and are always listed, and these ideas last."""
    listed, beside, close = dict[KnownIdea, tuple[KnownIdea, ...]](), beside[:count], dict[int, int]()
    for target in (count, 2 * count, 4 * count):  # more where ideas are alike
        waiting = view.waiting(max(0, target - len(beside)), taken, pinned)
        people = [idea for idea in waiting if idea.number in pinned or idea.by_person]
        others = distinct([*beside, *waiting[len(people) :]])
        known = {idea.number: closest(idea.text, trials) for idea in others}
        close = {number: candidate for number, candidate in known.items() if candidate is not None}
        listed = {**dict.fromkeys(people, ()), **others}
        if len(listed) - len(close) >= count or len(beside) + len(waiting) < target:
            break
    ordered = sorted(listed.items(), key=lambda idea: idea[0].number in close)
    return dict(ordered[: max(count, len(people))]), close


def _threads_asked(state: RunState, island: Island) -> int:
    """How many other threads are being asked at this moment. None behind a barrier, as below."""
    if state.memory.mode != "run" or state.terms.bound == 0:
        return 0
    return sum(each.advice is None and each.island != island.number for each in state.running.values())


def _sentence(advice: Advised, view: Results) -> str:
    """The chosen idea in its own words, empty if it is not known."""
    known = view.ideas.get(advice.idea) if advice.idea is not None else None
    own = (note.description for note in advice.ideas if note.number == advice.idea)
    return bare(next(own, known.text if known is not None else ""))


def _under_way(state: RunState, island: Island, view: Results) -> tuple[OngoingTrial, ...]:
    """What other threads are trying out."""
    return tuple(
        OngoingTrial(
            advice.lease, advice.parent, advice.idea, _sentence(advice, view) or advice.experiment, advice.covers
        )
        for advice in _advised(state, island)
        if advice.experiment is not None
    )
