"""What a search has tried, by worth and by age, and the ideas that nobody has tried yet.

A `Results` is the whole memory of one view: of a run, or of one island. Nothing tested is ever dropped from it. Shown
are the best, the recent ones and the causes of failures, and the rest is counted. Untried ideas have an order of their
own, and no number of them displaces a result.

Invariant: the content depends on what was put in and not on the order. So the fold of a running search, in which
leases end in any order, and that of a resume, which goes by lease, build the same. An insertion costs O(n) moves of
pointers at most, and a question costs what it returns, that for untried ideas the number of people's too.
"""

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from pace_async.events.people import GIVEN
from pace_async.fitness import Fitness
from pace_async.search.ideas import words

IDEAS_PER_LEASE = 3
"""How many ideas a rollout may bring."""
LONGEST_HEADLINE = 120
"""Characters of an experiment that stands for itself on one line."""
GOLDEN = 0.6180339887498949
"""Multiples of it modulo 1 leave no part of [0, 1) out for long."""
_KIND = re.compile(r"^\((?:refine|combine|explore)\) +")


@dataclass(frozen=True, slots=True)
class KnownIdea:
    """An idea under its one number for the run's life. `lease` proposed it first, `last` most recently. A person's is
    no lease's: both are the newest lease when it was taken in. Nor is that of an earlier run: both are 0."""

    number: int
    text: str
    lease: int
    last: int

    @property
    def by_person(self) -> bool:
        """Whether it is a person's."""
        return self.number > GIVEN

    @property
    def by_earlier_run(self) -> bool:
        """Whether the run began with it."""
        return self.lease == 0 and not self.by_person


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """One experiment and its result. `idea` is a number, `covers` are other ideas that the experiment has answered, by
    the advisor's word. `parent` is the candidate that was changed. `program` is a key that equal programs share, empty
    without one. `score` is None
    without one, and then `outcome` and `cause` say why, the cause in the words of the program or its evaluator. `told`
    is what of it cannot hold a hidden instance. `gain` is how much better than its parent it scored, in units of the
    score, below 0 if it scored worse. `seconds` of evaluation. Of the `metrics` a context shows only those that models
    may see. `again` is the score of the evaluation that confirmed it, None if it claimed no best. `deviation` is what
    the implementer corrected in the experiment, in its words. `practice` is the score on practice instances, which
    counts for nothing, None without one."""

    candidate: int
    island: int
    parent: int
    idea: int | None
    experiment: str
    outcome: str
    score: float | None
    gain: float | None
    cause: str = ""
    told: str = ""
    seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    deviation: str = ""
    again: float | None = None
    covers: tuple[int, ...] = ()
    program: str = ""
    practice: float | None = None


def idea_number(lease: int, place: int) -> int:
    """The number of the idea at `place`, from 1, of a lease's proposals. It is unique in a run, and concurrent leases
    need not agree on it. Raises ValueError beyond IDEAS_PER_LEASE."""
    if not 1 <= place <= IDEAS_PER_LEASE:
        raise ValueError(f"a rollout brings at most {IDEAS_PER_LEASE} ideas")
    return (lease - 1) * IDEAS_PER_LEASE + place


@dataclass(slots=True)
class Results:
    """See the module. `worth` has (key, candidate) of each scored one, the best first.
    `by_words` has the lowest number of ideas with the same words, and `ordered` all numbers of ideas. `covered` are
    ideas that an experiment on another one has answered. `records` are candidates that were better than all with a
    lower number. `by_program` has the candidates of each program, and `repeated` the programs of several, in order."""

    fitness: Fitness
    ideas: dict[int, KnownIdea] = field(default_factory=dict[int, KnownIdea])
    tested: dict[int, ExperimentResult] = field(default_factory=dict[int, ExperimentResult])
    worth: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    ages: list[int] = field(default_factory=list[int])
    untried: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    failures: Counter[str] = field(default_factory=Counter[str])
    children: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    of_idea: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    by_words: dict[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])
    ordered: list[int] = field(default_factory=list[int])
    covered: set[int] = field(default_factory=set[int])
    records: list[int] = field(default_factory=list[int])
    by_program: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    repeated: list[str] = field(default_factory=list[str])

    @classmethod
    def of(cls, fitness: Fitness, ideas: Iterable[KnownIdea], tested: Iterable[ExperimentResult]) -> "Results":
        """What proposing and adding these gives, in a fraction of the time. No idea and no candidate comes twice."""
        results = cls(
            fitness, {idea.number: idea for idea in ideas}, {experiment.candidate: experiment for experiment in tested}
        )
        results.ordered, results.ages = sorted(results.ideas), sorted(results.tested)
        for candidate in results.ages:
            experiment = results.tested[candidate]
            results.children.setdefault(experiment.parent, []).append(candidate)
            if experiment.score is not None:
                results.worth.append((results._key(experiment.score), candidate))
                before = results.tested[results.records[-1]].score if results.records else None
                if before is None or fitness.better(experiment.score, before):
                    results.records.append(candidate)
            else:
                results.failures[experiment.outcome] += 1
            if experiment.program:
                results.by_program.setdefault(experiment.program, []).append(candidate)
            results.covered.update(experiment.covers)
            if experiment.idea is not None:
                results.of_idea.setdefault(experiment.idea, []).append(candidate)
        results.worth.sort()
        results.repeated = sorted(program for program, candidates in results.by_program.items() if len(candidates) > 1)
        for number in results.ordered:
            results.by_words.setdefault(words(bare(results.ideas[number].text)), number)
        results.untried = sorted(
            (idea.last, number) for number, idea in results.ideas.items() if not results._answered(number)
        )
        return results

    def propose(self, idea: KnownIdea) -> None:
        """Take in an idea, or that it was proposed once more."""
        known = self.ideas.get(idea.number)
        if known is not None:
            idea = KnownIdea(
                idea.number, _first(known, idea).text, min(known.lease, idea.lease), max(known.last, idea.last)
            )
        else:
            insort(self.ordered, idea.number)
        is_answered = self._answered(idea.number)
        if known is not None and not is_answered:
            self.untried.remove((known.last, known.number))
        key = words(bare(idea.text))
        self.by_words[key] = min(idea.number, self.by_words.get(key, idea.number))
        self.ideas[idea.number] = idea
        if not is_answered:
            insort(self.untried, (idea.last, idea.number))

    def add(self, result: ExperimentResult) -> None:
        """Take in a result. One that is there already stays as it is."""
        if result.candidate in self.tested:
            return
        self.tested[result.candidate] = result
        insort(self.ages, result.candidate)
        insort(self.children.setdefault(result.parent, []), result.candidate)
        if result.score is not None:
            insort(self.worth, (self._key(result.score), result.candidate))
            self._record(result.candidate, result.score)
        else:
            self.failures[result.outcome] += 1
        if result.program:
            insort(self.by_program.setdefault(result.program, []), result.candidate)
            if len(self.by_program[result.program]) == 2:
                insort(self.repeated, result.program)
        for number in result.covers:
            self._wait_no_longer(number)
            self.covered.add(number)
        if result.idea is not None:
            self._wait_no_longer(result.idea)
            insort(self.of_idea.setdefault(result.idea, []), result.candidate)

    def take(self, other: "Results", until: int) -> None:
        """Take in what another view had by lease `until`."""
        for idea in other.ideas.values():
            if idea.lease <= until and not idea.by_person:
                self.propose(KnownIdea(idea.number, idea.text, idea.lease, min(idea.last, until)))
        for experiment in other.tested.values():
            if experiment.candidate <= until:
                self.add(experiment)

    def without(self, after: int, before: int) -> "Results":
        """The same without the leases between the two."""
        results = Results(self.fitness)
        for idea in self.ideas.values():
            if idea.by_person or not after < idea.lease < before:
                results.propose(idea)
        for experiment in self.tested.values():
            if not after < experiment.candidate < before:
                results.add(experiment)
        return results

    def best(self, count: int) -> list[ExperimentResult]:
        """The best results, one for each score: of equal ones the first."""
        experiments: list[ExperimentResult] = []
        last: float | None = None
        for key, candidate in self.worth:
            if len(experiments) >= count:
                break
            if key != last:
                experiments.append(self.tested[candidate])
            last = key
        return experiments

    def recent(self, count: int) -> list[ExperimentResult]:
        """The newest results, the newest first."""
        return [self.tested[candidate] for candidate in reversed(self.ages[-count:])] if count else []

    def failed_from(self, parent: int, count: int) -> list[ExperimentResult]:
        """Experiments without a score on this parent, the newest first, and then on those that it came from."""
        line = [parent, *(experiment.parent for experiment in self.lineage(parent, count))]
        experiments = (self.tested[candidate] for each in line for candidate in reversed(self.children.get(each, ())))
        return list(islice((experiment for experiment in experiments if experiment.score is None), count))

    def equal_to(self, result: ExperimentResult) -> int | None:
        """The first earlier candidate with exactly the same score and metrics, None without one or without a score."""
        if result.score is None:
            return None
        key = self._key(result.score)
        same_score = self.worth[bisect_left(self.worth, (key, -1)) : bisect_left(self.worth, (key, result.candidate))]
        return next((other for _, other in same_score if self.tested[other].metrics == result.metrics), None)

    def same_program(self, result: ExperimentResult) -> int | None:
        """The first candidate with the same program, None if it is `result` itself or has no program."""
        first = self.by_program.get(result.program, [result.candidate])[0]
        return None if first == result.candidate else first

    def best_before(self, candidate: int) -> float | None:
        """The best score among candidates with a lower number, None without one."""
        place = bisect_left(self.records, candidate)
        return self.tested[self.records[place - 1]].score if place else None

    def waiting(self, count: int, without: Collection[int] = (), first: Sequence[int] = ()) -> list[KnownIdea]:
        """Untried ideas that are not in `without`: all those of `first` in their order, then up to `count` those of
        people, the oldest first, and then in turn one of the newest, the newest first, and one of the older ones,
        spread over their ages and others after each result. So each older one comes up from time to time."""
        first = [number for number in first if number in self.ideas and not self._answered(number)]
        people = list(dict.fromkeys((*first, *self._people())))
        passed_over = sorted(self._places({*people, *without}))
        most = max(count, sum(number not in without for number in first))
        people = [number for number in people if number not in without][:most]
        others, count = len(self.untried) - len(passed_over), max(0, count - len(people))
        newest = range(others)[::-1][: (count + 1) // 2]
        older = others - len(newest)
        few = min(count - len(newest), older)
        start = int(len(self.tested) * GOLDEN % 1 * older)
        spread = [(start + place * older // few) % older for place in range(few)]
        in_turn = [rank for pair in zip_longest(newest, spread) for rank in pair if rank is not None]
        return [self.ideas[number] for number in (*people, *(self._by_rank(rank, passed_over) for rank in in_turn))]

    def count_waiting(self, without: Collection[int] = ()) -> int:
        """How many untried ideas are not in `without`."""
        return len(self.untried) - len(self._places(set(without)))

    def _people(self) -> list[int]:
        """The untried ideas of people, the oldest first."""
        return [number for number in self.ordered[bisect_left(self.ordered, GIVEN) :] if not self._answered(number)]

    def _places(self, numbers: Collection[int]) -> list[int]:
        """Where those of these ideas that are untried stand among the untried ones."""
        untried = (number for number in numbers if number in self.ideas and not self._answered(number))
        return [bisect_left(self.untried, (self.ideas[number].last, number)) for number in untried]

    def _by_rank(self, rank: int, passed_over: Iterable[int]) -> int:
        """The idea of this rank, from 0, among the untried ones, without those at the places `passed_over`, which are
        in order."""
        for place in passed_over:
            if place > rank:
                break
            rank += 1
        return self.untried[rank][1]

    def lineage(self, candidate: int, count: int) -> list[ExperimentResult]:
        """The results that led to a candidate, its own first."""
        experiments: list[ExperimentResult] = []
        while len(experiments) < count and (experiment := self.tested.get(candidate)) is not None:
            experiments.append(experiment)
            candidate = experiment.parent
        return experiments

    def _answered(self, idea: int) -> bool:
        return idea in self.of_idea or idea in self.covered

    def _wait_no_longer(self, idea: int) -> None:
        known = self.ideas.get(idea)
        if known is not None and not self._answered(idea):
            self.untried.remove((known.last, idea))

    def _record(self, candidate: int, score: float) -> None:
        before = self.best_before(candidate)
        if before is not None and not self.fitness.better(score, before):
            return
        place = bisect_left(self.records, candidate)
        end = place
        while end < len(self.records) and not self._beats(self.records[end], score):
            end += 1
        self.records[place:end] = [candidate]

    def _beats(self, candidate: int, score: float) -> bool:
        own = self.tested[candidate].score
        return own is not None and self.fitness.better(own, score)

    def _key(self, score: float) -> float:
        return -self.fitness.merit(score)


def bare(text: str) -> str:
    """The text of an idea without its kind before it."""
    return _KIND.sub("", text)


def headline(experiment: str | None, idea: str | None) -> str:
    """An experiment for one line of a screen: its own text, or the idea's if that text is long or has several lines.
    `idea` is None if the rollout did not propose it."""
    text = (experiment or "").strip()
    return bare(idea) if idea and ("\n" in text or len(text) > LONGEST_HEADLINE) else text


def _first(known: KnownIdea, other: KnownIdea) -> KnownIdea:
    """The one proposed first, whose words an idea keeps."""
    return min(known, other, key=lambda idea: (idea.lease, idea.text))


def gain_of(fitness: Fitness, score: float | None, parent: float | None) -> float | None:
    """How much better than its parent's a score is. None if one of the two is not known."""
    if score is None or parent is None:
        return None
    return fitness.gain(score, parent)


def most_frequent(failures: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    """Causes with their counts, the most frequent first."""
    return sorted(failures.items(), key=lambda each: (-each[1], each[0]))
