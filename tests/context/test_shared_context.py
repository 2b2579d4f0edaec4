"""The questions of three calls show the same context, so that a service that keeps prefixes reads it once."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import PromptsConfig
from pace_async.context.figures import CHARACTERS_PER_TOKEN
from pace_async.context.questions import NearProposal, Prompts, Questions, RenderedQuestion
from pace_async.context.templates import Templates
from pace_async.search.results import KnownIdea
from pace_async.task import load_task
from tests.support.mid_run import mid_run

EPLB = load_task("eplb")
STATE = mid_run(EPLB)
PARENTS = {member.candidate: member for member in STATE.islands[1].members}
SETS: tuple[Literal["full", "paper"], ...] = ("full", "paper")
IDEA = st.text("ab c", max_size=900)
NUMBER = st.integers(1, 10**9)


def questions(chosen: Literal["full", "paper"], tokens: int, parent: int, **answers: int) -> Questions:
    prompts = Prompts(EPLB, Templates.of(PromptsConfig(set=chosen)), tokens=tokens, answer_tokens=answers)
    return prompts.questions(STATE, STATE.islands[1], PARENTS[parent])


def context_in(question: RenderedQuestion) -> str:
    shown, mark, _ = question.text.rpartition("\n# Question\n")
    assert mark
    return shown


@given(
    st.sampled_from(SETS),
    st.integers(800, 6000),
    st.sampled_from(sorted(PARENTS)),
    st.lists(st.tuples(NUMBER, IDEA), max_size=3),
    st.lists(st.tuples(IDEA, NUMBER, IDEA), min_size=1, max_size=3),
)
def test_all_calls_show_the_same_context_and_none_exceeds_the_budget(
    chosen: Literal["full", "paper"],
    tokens: int,
    parent: int,
    proposed: list[tuple[int, str]],
    near: list[tuple[str, int, str]],
) -> None:
    asked = questions(chosen, tokens, parent, propose=400, assess=200, select=1000)
    budget = int(tokens * CHARACTERS_PER_TOKEN)
    pairs = [NearProposal(place, text, number, known) for place, (text, number, known) in enumerate(near, start=1)]
    ideas = [KnownIdea(number, text, 1, 1) for number, text in proposed]
    made = [asked.propose(budget), asked.assess(budget, pairs), asked.select(budget, ideas)]
    assert len({context_in(question) for question in made}) == 1
    assert max(len(question.system) + len(question.text) for question in made) <= budget


@pytest.mark.parametrize("chosen", SETS)
def test_where_the_budget_binds_the_parent_loses_the_same_characters_in_every_call(
    chosen: Literal["full", "paper"],
) -> None:
    asked = questions(chosen, 3000, max(PARENTS))
    near = [NearProposal(1, "Fill the emptiest card first", 7, "Fill the card with most room first")]
    made = [
        asked.propose(10_500),
        asked.assess(10_500, near),
        asked.select(10_500, [KnownIdea(40, near[0].text, 1, 1)]),
    ]
    assert all(question.cut and "characters of the middle are left out" in question.text for question in made)
    assert len({question.sections["program"] for question in made}) == 1
    assert near[0].text in made[1].text and near[0].known in made[1].text and near[0].text in made[2].text


def test_a_text_of_an_idea_is_whole_where_there_is_room() -> None:
    asked, text = questions("full", 16_000, 0), "word " * 110
    assert text.strip() in asked.select(56_000, [KnownIdea(40, text, 1, 1)]).text
    assert text.strip() not in asked.select(5000, [KnownIdea(40, text, 1, 1)]).text
