"""What was tried and proposed: nothing tested is lost, and the order in which it came does not matter."""

from dataclasses import replace
from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from pace_async.events.people import GIVEN
from pace_async.search.novelty import nearest, repeated
from pace_async.search.results import GOLDEN, ExperimentResult, KnownIdea, Results, gain_of, idea_number
from tests.support.fitness import UP

SCORES = st.sampled_from([None, 1.0, 2.0, 2.5, 3.0])


def trial(
    candidate: int,
    score: float | None,
    parent: int = 0,
    idea: int | None = None,
    covers: tuple[int, ...] = (),
    program: str = "",
) -> ExperimentResult:
    outcome = "ok" if score is not None else "timeout"
    gain = gain_of(UP, score, 1.0)
    text = f"experiment {candidate}"
    return ExperimentResult(candidate, 1, parent, idea, text, outcome, score, gain, covers=covers, program=program)


@st.composite
def histories(draw: st.DrawFn) -> list[KnownIdea | ExperimentResult]:
    facts: list[KnownIdea | ExperimentResult] = []
    for lease in range(1, draw(st.integers(0, 12)) + 1):
        ideas = [draw(st.integers(1, 3 * lease)) for _ in range(draw(st.integers(0, 2)))]
        facts += [KnownIdea(number, f"idea {number}", lease, lease) for number in ideas]
        if draw(st.booleans()):
            number = ideas[0] if ideas else None
            covers = tuple(draw(st.sets(st.integers(1, 3 * lease), max_size=2)) - {number})
            program = draw(st.sampled_from(["", "one", "other"]))
            facts.append(trial(lease, draw(SCORES), draw(st.integers(0, lease - 1)), number, covers, program))
    return facts


def folded(facts: list[KnownIdea | ExperimentResult]) -> Results:
    results = Results(UP)
    for fact in facts:
        if isinstance(fact, ExperimentResult):
            results.add(fact)
        else:
            results.propose(fact)
    return results


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_in_which_leases_end_changes_nothing(facts: list[KnownIdea | ExperimentResult], draw: object) -> None:
    shuffled = list(facts)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = folded(facts), folded(shuffled)
    assert (one.best(20), one.recent(20), one.waiting(50)) == (other.best(20), other.recent(20), other.waiting(50))
    assert (one.ideas, one.tested, one.failures, one.children) == (
        other.ideas,
        other.tested,
        other.failures,
        other.children,
    )
    assert one == other


@given(histories(), st.integers(1, 13))
def test_the_best_before_a_candidate_is_the_best_with_a_lower_number(
    facts: list[KnownIdea | ExperimentResult], candidate: int
) -> None:
    results = folded(facts)
    scores = [one.score for one in results.tested.values() if one.candidate < candidate and one.score is not None]
    assert results.best_before(candidate) == max(scores, default=None)


@given(histories())
def test_everything_tested_is_kept_and_counted_and_a_tested_idea_is_not_untried(
    facts: list[KnownIdea | ExperimentResult],
) -> None:
    results = folded(facts)
    assert len(results.worth) + results.failures.total() == len(results.tested)
    tried = {number for one in results.tested.values() for number in (one.idea, *one.covers)}
    waiting = [idea.number for idea in results.waiting(1000)]
    assert len(waiting) == len(set(waiting)) and set(waiting) == set(results.ideas) - tried


def test_equal_scores_are_called_equal_to_the_first_of_them() -> None:
    results = folded([trial(6, 2.0), trial(9, 2.0), trial(7, 3.0), trial(8, None)])
    assert results.equal_to(results.tested[9]) == 6
    assert results.equal_to(results.tested[6]) is None and results.equal_to(results.tested[8]) is None
    assert [one.candidate for one in results.best(5)] == [7, 6]
    assert [one.candidate for one in results.recent(2)] == [9, 8]
    widths = {6: 1.0, 9: 2.0, 11: 2.0}
    results = folded([replace(trial(number, 2.0), metrics={"width": width}) for number, width in widths.items()])
    assert [results.equal_to(results.tested[number]) for number in widths] == [None, None, 9]


def test_many_untried_ideas_displace_no_result() -> None:
    ideas = [KnownIdea(number, f"idea {number}", number, number) for number in range(1, 500)]
    results = folded([trial(1, 2.0, idea=1), *ideas])
    assert [one.candidate for one in results.best(5)] == [1]


def test_untried_ideas_are_the_newest_in_turn_with_older_ones_of_which_none_is_lost() -> None:
    ideas = [KnownIdea(number, f"idea {number}", number, number) for number in range(1, 41)]
    results, shown = folded([*ideas]), set[int]()
    for candidate in range(1, 61):
        results.add(trial(candidate, 1.0))
        waiting = [idea.number for idea in results.waiting(6)]
        assert waiting[::2] == [40, 39, 38] and waiting == [idea.number for idea in results.waiting(6)]
        shown |= set(waiting)
    assert shown == set(range(1, 41))
    assert [idea.number for idea in results.waiting(3, without={40, 39})][::2] == [38, 37]
    assert results.waiting(0) == []


@given(
    histories(),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 12)), max_size=4),
    st.integers(0, 9),
    st.sets(st.one_of(st.integers(1, 40), st.integers(GIVEN + 1, GIVEN + 9))),
)
def test_the_ideas_that_wait_are_those_that_a_walk_over_all_finds(
    facts: list[KnownIdea | ExperimentResult], given_ideas: list[tuple[int, int]], count: int, without: set[int]
) -> None:
    people = [KnownIdea(GIVEN + entry, f"given {entry}", lease, lease) for entry, lease in dict(given_ideas).items()]
    results = folded([*facts, *people])
    walked = [number for _, number in results.untried if number not in without]
    first = sorted(number for number in walked if number > GIVEN)[:count]
    numbers, left = [number for number in walked if number < GIVEN], count - len(first)
    newest = numbers[::-1][: (left + 1) // 2]
    older = numbers[: len(numbers) - len(newest)]
    few, start = min(left - len(newest), len(older)), int(len(results.tested) * GOLDEN % 1 * len(older))
    spread = [older[(start + place * len(older) // few) % len(older)] for place in range(few)]
    expected = [*first, *(each for pair in zip_longest(newest, spread) for each in pair if each is not None)]
    assert [idea.number for idea in results.waiting(count, without)] == expected
    assert results.count_waiting(without) == len(walked)


def test_an_idea_that_another_experiment_covers_waits_no_longer_whichever_is_known_first() -> None:
    idea = KnownIdea(2, "two", 1, 1)
    for facts in ([idea, trial(3, 2.0, idea=7, covers=(2, 99))], [trial(3, None, idea=7, covers=(2, 99)), idea]):
        results = folded([*facts, KnownIdea(2, "two", 1, 5)])
        assert results.waiting(5) == [] and results.of_idea == {7: [3]} and results.ideas[2].last == 5


def test_equal_programs_are_known_whatever_they_scored() -> None:
    results = folded([trial(9, 2.0, program="p"), trial(6, None, program="p"), trial(7, 2.0, program="q"), trial(8, 1)])
    same = {candidate: results.same_program(results.tested[candidate]) for candidate in (6, 7, 8, 9)}
    assert same == {6: None, 7: None, 8: None, 9: 6}


def test_a_lineage_goes_back_to_the_seed_program() -> None:
    results = folded([trial(1, 1.0), trial(2, 2.0, parent=1), trial(3, None, parent=2)])
    assert [one.candidate for one in results.lineage(2, 9)] == [2, 1]
    assert [one.candidate for one in results.failed_from(2, 9)] == [3]
    results.add(trial(4, None, parent=1))
    assert [one.candidate for one in results.failed_from(2, 9)] == [3, 4]
    assert [one.candidate for one in results.failed_from(2, 1)] == [3]


def test_a_view_without_some_leases_is_that_of_the_others() -> None:
    facts = [KnownIdea(number, f"idea {number}", number, number) for number in range(1, 9)]
    results = folded([*facts, *(trial(lease, float(lease), idea=lease) for lease in range(1, 9))])
    left = results.without(3, 7)
    assert sorted(left.tested) == [1, 2, 3, 7, 8] and sorted(left.ideas) == [1, 2, 3, 7, 8]


def test_numbers_of_ideas_are_unique_over_leases() -> None:
    numbers = [idea_number(lease, place) for lease in range(1, 20) for place in (1, 2, 3)]
    assert len(set(numbers)) == len(numbers) and min(numbers) == 1


def test_the_same_words_are_the_same_idea_and_another_number_is_another_idea() -> None:
    text = "(refine) Anneal the placement with a step of 0.3 and restarts from the best."
    results = folded([KnownIdea(4, text, 2, 2)])
    assert repeated(results, "(explore) anneal the placement with a step of 0.3 and restarts from the best") == 4
    assert repeated(results, "Anneal the placement with a step of 0.5 and restarts from the best.") is None
    found = nearest(results, "Anneal the placement with a step of 0.5 and restarts from the best.")
    assert found is not None and found[0] == 4
    assert nearest(results, "Solve an integer program for the residual load.") is None
    assert repeated(Results(UP), text) is None and nearest(Results(UP), text) is None
