"""The program that a rollout changes whose answer names a base."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.context.beside import member_levels
from pace_async.context.table import row_text
from pace_async.context.value import base_of, context_of
from pace_async.search.state import Member
from pace_async.state.pools import view_of
from pace_async.state.run_state import RunState
from pace_async.task import TaskSpec
from tests.support.contexts import TASK, begun, rollout


def explored(bound: int = 2) -> RunState:
    """Candidates 1 and 3 of island 1, 2 and 4 of island 2, of which 5 has no score. The seed scores 1."""
    state = begun(bound=bound)
    for lease, island, score in ((1, 1, 1.5), (2, 2, 2.5), (3, 1, 1.25), (4, 2, 2.0), (5, 1, None)):
        rollout(state, lease, island, score=score)
    return state


def exact(direction: str = "maximize") -> TaskSpec:
    """A task whose equal programs have equal scores."""
    return TASK.spec.model_copy(update={"direction": direction})


def member(state: RunState, candidate: int) -> Member:
    known = (each for island in state.islands.values() for each in island.members)
    return next(each for each in known if each.candidate == candidate)


@pytest.mark.parametrize(
    ("parent", "named", "direction", "base"),
    [
        (3, 1, "maximize", 1),
        (3, 2, "maximize", 2),
        (3, 4, "maximize", 4),
        (1, 1, "maximize", 1),
        (1, 3, "maximize", 1),
        (1, 3, "minimize", 3),
        (1, 0, "minimize", 0),
        (1, 0, "maximize", 1),
        (3, 5, "maximize", 3),
        (3, 99, "maximize", 3),
        (3, None, "maximize", 3),
    ],
)
def test_a_base_takes_the_parents_place_where_it_is_known_and_no_worse(
    parent: int, named: int | None, direction: str, base: int
) -> None:
    state = explored()
    assert base_of(state, exact(direction), state.islands[1], member(state, parent), named) == member(state, base)


def test_an_island_that_has_gone_back_takes_no_base_of_another() -> None:
    state = explored()
    island = state.islands[1]
    away = replace(island, course=replace(island.course, stay=3))
    parent = member(state, 3)
    assert base_of(state, exact(), away, parent, 2) == parent
    assert base_of(state, exact(), away, parent, 1) == member(state, 1)


def test_behind_a_barrier_only_what_the_last_group_showed_is_a_base() -> None:
    state = explored(bound=0)
    parent = member(state, 3)
    assert base_of(state, exact(), state.islands[1], parent, 2) == parent
    state.visible.show_program(2, member(state, 2))
    assert base_of(state, exact(), state.islands[1], parent, 2) == member(state, 2)


@given(st.integers(0, 4), st.integers(-1, 6) | st.none(), st.sampled_from(["maximize", "minimize"]))
def test_no_base_scores_worse_than_the_parent(parent: int, named: int | None, direction: str) -> None:
    state = explored()
    chosen = member(state, parent)
    base = base_of(state, exact(direction), state.islands[1], chosen, named)
    assert base.candidate in (parent, named)
    assert base.score >= chosen.score if direction == "maximize" else base.score <= chosen.score


def test_where_scores_are_noisy_the_best_is_not_one_with_luck_in_its_first_evaluation() -> None:
    state, noisy = explored(), exact().model_copy(update={"deterministic": False})
    view = view_of(state, state.islands[1])
    for candidate, again in ((2, 1.0), (1, 2.25)):  # 2 scored 2.5 and 1 scored 1.5
        view.tested[candidate] = replace(view.tested[candidate], again=again)
    parent = member(state, 3)

    def told(spec: TaskSpec) -> tuple[int | None, list[int]]:
        context = context_of(state, spec, state.islands[1], parent, 8)
        return (
            context.best.candidate if context.best is not None else None,
            [row.tested.candidate for row in context.best_rows if row.doubted],
        )

    assert told(exact()) == (2, [])
    assert told(noisy) == (4, [2])  # 4 has 2, 1 comes to 1.875, and 2 to 1.75
    assert base_of(state, noisy, state.islands[1], member(state, 4), 2).candidate == 4
    assert base_of(state, noisy, state.islands[1], member(state, 2), 4).candidate == 4
    doubted = next(row for row in context_of(state, noisy, state.islands[1], parent, 8).best_rows if row.doubted)
    assert "2.5 (worse when evaluated again)" in row_text(doubted, 3, 200)
    context = context_of(state, noisy, state.islands[1], parent, 8)
    for again in (1.0, 1.2, 2.0):
        view.tested[4] = replace(view.tested[4], again=again)
        rows = context_of(state, noisy, state.islands[1], parent, 8).best_rows
        scores = [row.tested.score or 0.0 for row in rows]
        assert [row.doubted for row in rows] == [
            score > min(scores[:place], default=9) for place, score in enumerate(scores)
        ]
    view.tested[4] = replace(view.tested[4], again=None)
    assert context.by_mean and [row.tested.candidate for row in context.best_rows][:3] == [4, 1, 2]
    assert not context_of(state, exact(), state.islands[1], parent, 8).by_mean
    said = member_levels(context, context.best, noisy, alone=True)(0)
    assert said is not None and said.startswith("Candidate 4, score 2, the best by the mean of two evaluations, ")
