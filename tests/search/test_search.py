"""The pure decisions of the search."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import SearchConfig
from pace_async.fitness import Fitness
from pace_async.search.draws import derive
from pace_async.search.ideas import TRIALS_KEPT, admit, merge_pools, recognised, record_trial, summarised
from pace_async.search.islands import after_evaluation, context_of, first_island
from pace_async.search.parents import choose_migrant, choose_parent, taken_in, text_bytes
from pace_async.search.state import Idea, Island, Member, Trial, rules_of
from tests.support.fitness import DOWN, UP, either

scores = st.lists(st.floats(-5, 5), min_size=1, max_size=12)


def members(values: list[float]) -> list[Member]:
    return [Member(candidate=i, program=f"p{i}", score=value) for i, value in enumerate(values)]


@given(values=scores, seed=st.integers(), fitness=either)
def test_a_parent_is_among_the_best_in_either_direction(values: list[float], seed: int, fitness: Fitness) -> None:
    parent = choose_parent(fitness.ranked(members(values)), Random(seed), size=2, pool=4)
    best = sorted(values, key=fitness.merit, reverse=True)[:4]
    assert parent.score in best


@given(
    own=scores,
    others=st.dictionaries(st.integers(1, 6), st.floats(-5, 5)),
    seed=st.integers(),
    fitness=either,
)
def test_a_migrant_has_won_against_others_or_is_alone_in_the_tournament(
    own: list[float], others: dict[int, float], seed: int, fitness: Fitness
) -> None:
    island = Island(number=3, members=tuple(fitness.ranked(members(own))))
    elites = {number: Member(100 + number, f"e{number}", score) for number, score in others.items()}
    best = island.members[0]
    rivals = [member for number, member in elites.items() if number != 3]
    one, every = (choose_migrant(elites, island, fitness, Random(seed), probability=1.0, size=size) for size in (1, 7))
    assert one is None or one in rivals
    if every is None:
        assert not any(fitness.better(member.score, best.score) for member in rivals)
    else:
        assert every in rivals
        assert not any(fitness.better(member.score, every.score) for member in (best, *rivals))
        assert context_of(island, every, fitness).best.score == every.score
    assert choose_migrant(elites, island, fitness, Random(seed), probability=0.0, size=2) is None


@pytest.mark.parametrize(("probability", "size", "share"), [(0.1, 2, 0.1), (1.0, 2, 1.0), (1.0, 1, 0.5), (0.8, 1, 0.4)])
def test_migrants_come_at_the_configured_rate(probability: float, size: int, share: float) -> None:
    island = Island(number=1, members=tuple(members([0.0])))
    elites = {1: Member(3, "what others see of it", 0.0), 2: Member(7, "better", 1.0)}
    came = [
        choose_migrant(elites, island, UP, Random(seed), probability=probability, size=size) for seed in range(2000)
    ]
    assert sum(migrant is not None for migrant in came) / 2000 == pytest.approx(share, abs=0.03)


def test_no_migrant_comes_to_an_island_that_is_alone_or_went_back() -> None:
    island = Island(number=1, members=tuple(members([0.0])))
    for size in (1, 2, 5):
        assert choose_migrant({}, island, UP, Random(0), probability=1.0, size=size) is None
    away = replace(island, course=replace(island.course, stay=1))
    assert choose_migrant({2: Member(7, "m", 1.0)}, away, UP, Random(0), probability=1.0, size=2) is None


@given(
    values=st.lists(st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0]), min_size=1, max_size=30),
    alike=st.integers(1, 30),
    kept=st.integers(1, 6),
    fitness=either,
)
def test_members_taken_in_one_by_one_are_the_best_of_all_in_order_of_rank(
    values: list[float], alike: int, kept: int, fitness: Fitness
) -> None:
    """As ranking everything anew after each would keep them, ties and equal programs included."""
    taken, expected = tuple[Member, ...](), list[Member]()
    for number, value in enumerate(values):
        new = Member(number, f"program {number % alike}", value)
        older, taken = taken, taken_in(taken, new, fitness, kept)
        assert taken_in(older, new, fitness, kept) == taken, "the older members can be asked again"
        if new.program not in [member.program for member in expected]:
            expected = fitness.ranked([*expected, new])[:kept]
        assert list(taken) == expected


@pytest.mark.fault("Size", "the programs and the history of an island take a bounded number of bytes")
@given(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=30), room=st.integers(1, 150), data=st.data())
def test_the_programs_of_an_island_take_no_more_bytes_than_it_has_room_for(
    sizes: list[int], room: int, data: st.DataObject
) -> None:
    """This holds for any programs. Only the best stays, however large it is."""
    taken = tuple[Member, ...]()
    for number, size in enumerate(sizes):
        text = data.draw(st.sampled_from("ax\u00e9\U0001f600")) * size
        taken = taken_in(taken, Member(number, f"{number}{text}", data.draw(st.floats(-5, 5))), UP, 10, room)
        assert taken == tuple(UP.ranked(taken))
        assert sum(text_bytes(member.program) for member in taken[1:]) <= max(0, room - text_bytes(taken[0].program))
        assert all(len(member.program.encode()) <= text_bytes(member.program) for member in taken)


def test_a_large_program_does_not_push_out_those_that_fit_beside_the_best() -> None:
    taken = tuple[Member, ...]()
    for number, (size, score) in enumerate([(10, 3.0), (10, 1.0), (10, 0.5)]):
        taken = taken_in(taken, Member(number, str(number) * size, score), UP, 10, 35)
    assert [member.candidate for member in taken_in(taken, Member(3, "x" * 30, 2.0), UP, 10, 35)] == [0, 1, 2]
    assert [member.candidate for member in taken_in(taken, Member(3, "x" * 20, 2.0), UP, 10, 35)] == [0, 3]


def test_proposals_enter_the_pool_and_the_stalest_idea_leaves() -> None:
    pool = tuple(Idea(n, f"idea {n}") for n in range(1, 6))
    pool, notes, following = admit(pool, ["a", "b", "c"], [None, 1, None], 6, cap=5)
    assert [idea.number for idea in pool] == [4, 5, 6, 1, 7]
    assert [(note.number, note.known) for note in notes] == [(6, False), (1, True), (7, False)]
    assert following == 8


def test_a_verdict_that_names_no_idea_is_refused() -> None:
    with pytest.raises(ValueError, match="no idea 9"):
        admit((), ["a"], [9], 1, cap=5)


def test_an_idea_in_the_same_words_is_a_repeat_whatever_the_verdict() -> None:
    pool = (Idea(1, 'Change layout to "hex".'), Idea(4, "Use step -0.5"))
    proposals = ["change LAYOUT to hex", "Use step 0.5", "Use (step) 0.5!"]
    assert recognised(pool, proposals, [None, None, None], 7) == (1, None, 7)
    assert recognised(pool, proposals, [4, 4, None], 7) == (1, 4, 4)
    admitted, notes, following = admit(pool, proposals, recognised(pool, proposals, [None, None, None], 7), 7, cap=5)
    assert [idea.number for idea in admitted] == [4, 1, 7]
    assert [(note.number, note.known) for note in notes] == [(1, True), (7, False), (7, True)]
    assert following == 8


@given(
    descriptions=st.lists(st.sampled_from(["a", "b.", "B", "c d", "C  'D'", "-1", "1"]), max_size=6),
    proposals=st.lists(st.sampled_from(["a", "b", "c d", "-1", "1", "e"]), max_size=4),
)
def test_no_pool_takes_in_an_idea_twice(descriptions: list[str], proposals: list[str]) -> None:
    pool: tuple[Idea, ...] = ()
    for number, texts in enumerate((descriptions, proposals)):
        following = 10 * number
        pool, _, _ = admit(pool, texts, recognised(pool, texts, [None] * len(texts), following), following, cap=20)
    words = [" ".join(idea.description.casefold().replace("'", "").rstrip(".").split()) for idea in pool]
    assert len(words) == len(set(words))


def test_of_an_idea_s_experiments_the_latest_stay() -> None:
    pool = (Idea(1, "x"),)
    for candidate in range(1, TRIALS_KEPT + 4):
        pool = record_trial(pool, 1, Trial(candidate, "do x", "ok", 1.0))
    assert [trial.candidate for trial in pool[0].trials] == list(range(4, TRIALS_KEPT + 4))


@given(outcomes=st.lists(st.one_of(st.none(), st.floats(-5, 5)), max_size=130), cut=st.integers(0, 130))
def test_a_summary_counts_every_experiment_of_an_idea_that_was_set_aside(
    outcomes: list[float | None], cut: int
) -> None:
    trials = [Trial(n, "", "timeout" if score is None else "ok", score) for n, score in enumerate(outcomes, start=1)]
    pool, early = (Idea(1, "x"),), (Idea(1, "x"),)
    for trial in trials:
        pool = record_trial(pool, 1, trial)
        early = pool if trial.candidate == cut else early
    for known in (pool, merge_pools(early, pool, cap=5), merge_pools(pool, early, cap=5)):
        assert len(known[0].trials) <= TRIALS_KEPT
        for fitness, best in ((UP, max), (DOWN, min)):
            found = summarised(known[0], fitness)
            scores = [score for score in outcomes if score is not None]
            assert (found.tried, found.failed) == (len(outcomes), len(outcomes) - len(scores))
            assert found.best == (best(scores) if scores else None)
            assert dict(found.failures) == ({"timeout": found.failed} if found.failed else {})


def test_a_tried_idea_moves_to_the_end_and_a_dropped_one_is_ignored() -> None:
    pool = (Idea(1, "x"), Idea(2, "y"))
    trial = Trial(candidate=3, description="do x", outcome="ok", score=1.0)
    assert [idea.number for idea in record_trial(pool, 1, trial)] == [2, 1]
    assert record_trial(pool, 1, trial)[-1].trials == (trial,)
    assert record_trial(pool, 7, trial) == pool


def test_an_island_takes_a_scored_program_once() -> None:
    island = first_island(1, Member(0, "seed", 1.0))
    child, rules = Member(1, "child", 2.0), rules_of(SearchConfig(members_kept=10), UP)
    for _ in range(2):
        island = after_evaluation(island, parent=0, idea=None, trial=None, member=child, rules=rules)
    assert [member.candidate for member in island.members] == [1, 0]
    assert context_of(island, island.members[1], UP).best == child


def test_draws_depend_on_every_part_and_on_nothing_else() -> None:
    assert derive(0, 1, "parent") == derive(0, 1, "parent")
    assert len({derive(0, 1, "parent"), derive(0, 1, "x"), derive(0, 2, "parent"), derive(1, 1, "parent")}) == 4
