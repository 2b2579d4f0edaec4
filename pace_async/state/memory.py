"""What a run remembers of its rollouts: for the whole run, or for each island by itself.

`search.memory` says which. With `pool` nothing is remembered here, because each island has its own short pool of ideas
(`search.ideas`). Otherwise a rollout's ideas and its result are remembered together, once others may see them: with a
bound above 0 when the rollout is complete, behind a barrier when its lease is closed. An island that crosses over with
another takes in what that one had shown. An island that goes back sees nothing of what it did meanwhile, for as long as
it stays.

Invariant: a part of the state, which only `state.apply` changes. It depends on the facts and not on the order in which
the leases end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pace_async.aims import Costs
from pace_async.events import Advised, Evaluated, IdeaGiven, IslandActed, LearnedBefore, MeasuredAgain, Outcome
from pace_async.events.complaint import in_short
from pace_async.fitness import Fitness
from pace_async.search.results import ExperimentResult, KnownIdea, Results, gain_of
from pace_async.search.state import Course

RUN = 0
"""The key of the view of a whole run. Islands count from 1."""
LONGEST_CAUSE = 300
"""Characters kept of why a candidate has no score."""
BANNED = "ruled out by a person"
"""Stands in place of the outcome of a banned candidate."""
UNCONFIRMED = "evaluated again, it was much worse than it claimed, measured against the first program"
"""The cause of a suspicious candidate. Its detail has scores on fresh instances, which no model is told."""


@dataclass(frozen=True, slots=True)
class EndedRollout:
    """What a rollout leaves to remember: the ideas it proposed and, unless it was lost, its result."""

    island: int
    lease: int
    ideas: tuple[tuple[int, str], ...]
    tested: ExperimentResult | None


@dataclass(frozen=True, slots=True)
class NewScore:
    """The result of the corrected evaluator. `score` is None unless the outcome is ok."""

    outcome: Outcome
    score: float | None
    reward: float
    costs: Costs = ()


@dataclass(slots=True)
class Memory:
    """`mode` is that of `search.memory`. `views` are by island, or the one of the run under RUN. `scores` are those of
    every candidate by number. `ended` are rollouts that nobody may see yet. `first` is the result of the task's own
    program, which is in no view. `given` are the ideas of people and of an earlier run, which are in every view.
    `earlier` is what that run had learned, which is in none. `banned` are the results of banned candidates, which have
    no score in the views."""

    fitness: Fitness
    mode: str
    views: dict[int, Results] = field(default_factory=dict[int, Results])
    scores: dict[int, float] = field(default_factory=dict[int, float])
    ended: dict[int, EndedRollout] = field(default_factory=dict[int, EndedRollout])
    given: tuple[KnownIdea, ...] = ()
    first: ExperimentResult | None = None
    banned: dict[int, ExperimentResult] = field(default_factory=dict[int, ExperimentResult])
    earlier: LearnedBefore | None = None

    @property
    def active(self) -> bool:
        """Whether anything is remembered here."""
        return self.mode != "pool"

    def view(self, island: int, course: Course | None = None) -> Results:
        """What the island's next rollout may know. Not to be changed."""
        if self.mode == "run":
            return self._view_or_empty(RUN)
        whole, acted = self._view_or_empty(island), course.acted if course is not None else None
        if course is None or course.stay == 0 or acted is None or acted.action != "backtrack":
            return whole
        return whole.without(acted.candidate, acted.lease)

    def seed(self, fact: Evaluated) -> None:
        """The task's own program has been scored."""
        if fact.score is None:
            return
        self.scores[0] = fact.score
        if self.active:
            self.first = ExperimentResult(
                *(0, fact.island, 0, None, "", fact.outcome, fact.score, None),
                seconds=round(fact.seconds, 3),
                metrics=fact.metrics,
                program=fact.program_hash or "",
            )

    def complete(self, advice: Advised, fact: Evaluated, practice: float | None = None) -> None:
        """A rollout is complete. It is remembered once `show` names it. `practice` is its program's score there."""
        if fact.score is not None:
            self.scores[fact.lease] = fact.score
        tested = None
        if advice.experiment is not None:
            scored = fact.score is not None
            tested = ExperimentResult(
                candidate=fact.lease,
                island=fact.island,
                parent=advice.parent,
                idea=advice.idea,
                experiment=advice.experiment,
                outcome=fact.outcome,
                score=fact.score,
                gain=gain_of(self.fitness, fact.score, self.scores.get(advice.parent)),
                cause="" if scored else cause_of(fact),
                told="" if scored else safe_cause_of(fact),
                seconds=round(fact.seconds, 3),
                metrics=fact.metrics if scored else {},
                deviation=fact.deviation,
                again=confirmation_of(fact),
                covers=advice.covers,
                program=fact.program_hash or "",
                practice=practice,
            )
        self.ended[fact.lease] = EndedRollout(fact.island, fact.lease, _ideas_of(advice), tested)

    def give(self, fact: IdeaGiven) -> None:
        """A person or an earlier run has an idea. It can be chosen at once."""
        idea = KnownIdea(fact.number, fact.text, fact.after, fact.after)
        self.given += (idea,)
        for view in self.views.values():
            view.propose(idea)

    def inherit(self, fact: LearnedBefore) -> None:
        """An earlier run has learned something. Its results count for nothing here."""
        self.earlier = fact
        for idea in fact.given:
            self.give(idea)

    def lost(self, advice: Advised) -> None:
        """A rollout died of the machine: its ideas stay, untried."""
        self._remember(EndedRollout(advice.island, advice.lease, _ideas_of(advice), None))

    def show(self, lease: int) -> None:
        """From now on the rollout of this lease is remembered. Naming it again changes nothing."""
        ended = self.ended.pop(lease, None)
        if ended is not None:
            self._remember(ended)

    def ban(self, candidate: int) -> None:
        """A candidate has no score any more where its result is remembered."""
        if (known := self._known_result(candidate)) is not None:
            self.banned[candidate] = known
            self._set_result(replace(_without_score(known), outcome=BANNED))

    def measured(self, fact: MeasuredAgain) -> None:
        """A candidate has another score, or none any more, where its result is remembered."""
        self.scores.pop(fact.candidate, None)
        if fact.score is not None:
            self.scores[fact.candidate] = fact.score
        known = self._known_result(fact.candidate)
        if known is None or fact.candidate in self.banned:
            return
        gain = gain_of(self.fitness, fact.score, self.scores.get(known.parent))
        result = _without_score(known) if fact.score is None else known
        self._set_result(replace(result, outcome=fact.outcome, score=fact.score, gain=gain))

    def _known_result(self, candidate: int) -> ExperimentResult | None:
        places: list[Mapping[int, ExperimentResult]] = [view.tested for view in self.views.values()]
        places += [{rollout.lease: rollout.tested} for rollout in self.ended.values() if rollout.tested is not None]
        return next((place[candidate] for place in places if candidate in place), None)

    def unban(self, candidate: int) -> None:
        """It has its score again."""
        if (known := self.banned.pop(candidate, None)) is not None:
            self._set_result(known)

    def _set_result(self, result: ExperimentResult) -> None:
        """Let this result stand wherever that candidate's does."""
        for number, view in self.views.items():
            if result.candidate in view.tested:
                tested = {**view.tested, result.candidate: result}
                self.views[number] = Results.of(view.fitness, view.ideas.values(), tested.values())
        if (waits := self.ended.get(result.candidate)) is not None:
            self.ended[result.candidate] = replace(waits, tested=result)

    def crossed(self, acted: IslandActed) -> None:
        """An island takes in what its partner had shown."""
        if self.mode == "island" and acted.partner is not None and acted.as_of is not None:
            self._view(acted.island).take(self._view_or_empty(acted.partner), acted.as_of)

    def rescored(self, scores: Mapping[int, NewScore]) -> None:
        """All results under the scores of a corrected evaluator, by candidate. A program that it has not scored has
        none any more."""
        self.scores = {candidate: new.score for candidate, new in scores.items() if new.score is not None}
        self.views = {number: self._again(view, scores) for number, view in self.views.items()}
        self.first = self._of(self.first, scores) if self.first is not None and 0 in scores else self.first
        self.ended = {
            lease: replace(ended, tested=self._of(ended.tested, scores) if ended.tested is not None else None)
            for lease, ended in self.ended.items()
        }
        self.banned = {candidate: self._of(experiment, scores) for candidate, experiment in self.banned.items()}

    def _again(self, view: Results, scores: Mapping[int, NewScore]) -> Results:
        results = Results(view.fitness)
        for idea in view.ideas.values():
            results.propose(idea)
        for experiment in view.tested.values():
            results.add(self._of(experiment, scores))
        return results

    def _of(self, result: ExperimentResult, scores: Mapping[int, NewScore]) -> ExperimentResult:
        if result.outcome == BANNED:
            return result
        if result.candidate in scores:
            outcome, score = scores[result.candidate].outcome, scores[result.candidate].score
        else:
            outcome, score = ("below_threshold", None) if result.score is not None else (result.outcome, None)
        gain = gain_of(self.fitness, score, self.scores.get(result.parent))
        metrics: Mapping[str, float] = {} if score is None else result.metrics
        return replace(_without_score(result), outcome=outcome, score=score, gain=gain, metrics=metrics)

    def _remember(self, ended: EndedRollout) -> None:
        view = self._view(RUN if self.mode == "run" else ended.island)
        for number, text in ended.ideas:
            view.propose(KnownIdea(number, text, ended.lease, ended.lease))
        if ended.tested is not None:
            view.add(ended.tested)

    def _view_or_empty(self, key: int) -> Results:
        """A view, or an empty one, which is not kept."""
        return self.views.get(key) or self._new()

    def _view(self, key: int) -> Results:
        if key not in self.views:
            self.views[key] = self._new()
        return self.views[key]

    def _new(self) -> Results:
        return Results.of(self.fitness, self.given, ())


def _without_score(result: ExperimentResult) -> ExperimentResult:
    return replace(result, score=None, gain=None, metrics={}, again=None, practice=None)


def confirmation_of(fact: Evaluated) -> float | None:
    """The score of the evaluation that confirmed a claim."""
    return next((evaluation.score for evaluation in fact.fresh if evaluation.held), None)


def cause_of(fact: Evaluated) -> str:
    """Why a candidate has no score, in the words of its program or evaluator."""
    return UNCONFIRMED if fact.outcome == "suspicious" else " ".join(fact.detail.split())[:LONGEST_CAUSE]


def safe_cause_of(fact: Evaluated) -> str:
    """The same without a word that a program wrote while it saw hidden instances."""
    if fact.outcome == "suspicious":
        return UNCONFIRMED
    return in_short(fact.outcome, fact.detail, fact.program or "")[:LONGEST_CAUSE]


def _ideas_of(advice: Advised) -> tuple[tuple[int, str], ...]:
    return tuple((note.number, note.description) for note in advice.ideas)
