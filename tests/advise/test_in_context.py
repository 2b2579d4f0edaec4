"""A rollout of a model that is told the context: which calls it makes, and what comes of its answers."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from pace_async.advise.advisor import Advice, Sampling
from pace_async.advise.base import PromptTooLong
from pace_async.advise.in_context import advise_in_context, reasoning_of
from pace_async.advise.one_answer import parse_one
from pace_async.config import PromptsConfig
from pace_async.context.questions import Prompts, Questions
from pace_async.context.templates import Templates
from pace_async.context.value import NOT_KNOWN
from pace_async.events import AdvisorCall
from pace_async.state.run_state import RunState
from tests.support.answering import Answers
from tests.support.contexts import TASK, begun, rollout

ONE = "Idea A (explore): {}\nChoice: A\nReasoning: because\nSpecification:\nchange it"
FRESH = ("Solve an integer program", "Anneal with restarts", "Tabulate the contacts")


def three(ideas: tuple[str, ...]) -> str:
    return "\n".join(f"Idea {n}\nHypothesis: {idea}\nReasoning: why {n}" for n, idea in enumerate(ideas, start=1))


def result(work: Coroutine[Any, Any, Advice]) -> Advice:
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


def questions(state: RunState, tokens: int = 6000) -> Questions:
    prompts = Prompts(TASK, Templates.of(PromptsConfig()), NOT_KNOWN, tokens)
    return prompts.questions(state, state.islands[1], state.islands[1].members[0])


def advised(
    state: RunState,
    advisor: Answers,
    *,
    one: bool,
    answers: tuple[AdvisorCall, ...] = (),
    lease: int = 9,
    mends: bool = False,
) -> Advice:
    sampling, asked = Sampling(1, one_call=one, max_tokens=100), questions(state)
    return result(
        advise_in_context(advisor, asked, lease=lease, sampling=sampling, answers=answers, now=lambda: 0.0, mends=mends)
    )


def in_turns(*texts: str) -> Callable[[str], str]:
    """Answers one after the other, whatever is asked."""
    left = iter(texts)
    return lambda _: next(left)


@pytest.fixture
def state() -> RunState:
    made = begun()
    return rollout(made, 1, score=1.5, text="(refine) Raise the step size to 0.3 in the annealing of the centres")


def test_one_call_gives_ideas_a_choice_and_a_specification(state: RunState) -> None:
    advisor = Answers({"propose": f"thoughts\n{ONE.format('Solve an integer program')}"})
    advice = advised(state, advisor, one=True)
    assert [prompt.purpose for prompt in advisor.asked] == ["propose"]
    assert advice.experiment == "change it" and advice.idea == 25
    assert [(note.number, note.known) for note in advice.notes] == [(25, False)]
    assert advice.pool[0].description == "(explore) Solve an integer program"
    assert reasoning_of(advice.calls, True, "") == "because"


def test_an_answer_covers_known_ideas_and_its_own_but_no_others_and_not_its_choice(state: RunState) -> None:
    text = "Idea A (explore): one\nIdea B (refine): other\nIdea C (refine): third\nChoice: A\nCovers: B, 2, 2, 77, A"
    said = f"{text}\nReasoning: both\nSpecification:\ndo both"
    advice = advised(state, Answers({"propose": said}), one=True)
    assert (advice.idea, advice.covers) == (25, (2, 26)) and advice.experiment == "do both"


def test_an_answer_in_one_call_names_its_base_and_one_in_three_calls_never_does(state: RunState) -> None:
    said = ONE.format("Solve an integer program").replace("Reasoning", "Base: 1\nReasoning")
    assert advised(state, Answers({"propose": said}), one=True).base == 1
    choice = "Base: 1\nIdea ID: 26\nExperiment description: do it"
    assert advised(state, Answers({"propose": three(FRESH), "select": choice}), one=False).base is None
    asked = questions(state)
    assert "\nBase: none, or the number of a listed program" in asked.one(20000).text
    assert "base" not in asked.propose(20000).text.split("# The parent")[0]


def test_the_same_words_are_the_known_idea_under_its_number(state: RunState) -> None:
    said = ONE.format("raise the step size to 0.3 in the annealing of the centres.")
    advice = advised(state, Answers({"propose": said}), one=True)
    assert advice.idea == 1 and [(note.number, note.known) for note in advice.notes] == [(1, True)]


def test_an_idea_that_nobody_proposed_cannot_be_chosen(state: RunState) -> None:
    said = ONE.format("Solve an integer program").replace("Choice: A", "Choice: 77")
    advice = advised(state, Answers({"propose": said}), one=True)
    assert (
        advice.experiment is None
        and advice.unparsed == "there is no idea 77, and those listed are 2"
        and len(advice.calls) == 1
    )


def test_with_three_calls_the_model_is_not_asked_what_is_new_unless_a_text_is_near(state: RunState) -> None:
    choice = "Idea ID: 26\nExperiment description: do it"
    advisor = Answers({"propose": three(FRESH), "select": choice})
    advice = advised(state, advisor, one=False)
    assert [prompt.purpose for prompt in advisor.asked] == ["propose", "select"]
    assert (advice.idea, advice.experiment) == (26, "do it")
    assert reasoning_of(advice.calls, False, FRESH[1]) == "why 2"


@pytest.mark.parametrize(("verdict", "number"), [("new", 26), ("known 1", 1)])
def test_with_three_calls_the_model_decides_where_a_text_is_near(state: RunState, verdict: str, number: int) -> None:
    near = "Raise the step size to 0.5 in the annealing of the centres"
    advisor = Answers(
        {
            "propose": three((FRESH[0], near, FRESH[2])),
            "assess": f"Proposal 1: {verdict}",
            "select": f"Idea ID: {number}\nExperiment description: do it",
        }
    )
    advice = advised(state, advisor, one=False)
    assert [prompt.purpose for prompt in advisor.asked] == ["propose", "assess", "select"]
    assert "Proposal 1: Raise the step size to 0.5" in advisor.asked[1].text
    assert advice.notes[1].number == number and advice.idea == number


def test_nothing_is_compared_where_nothing_was_proposed_before() -> None:
    state = begun()
    rollout(state, 1, ends=False)
    advisor = Answers({"propose": three(FRESH), "select": "Idea ID: 25\nExperiment description: do it"})
    assert advised(state, advisor, one=False).idea == 25
    assert [prompt.purpose for prompt in advisor.asked] == ["propose", "select"]


def test_an_answer_that_is_paid_for_is_taken_for_its_question(state: RunState) -> None:
    paid = AdvisorCall("propose", (), (), (), (), three(FRESH), seconds=1.0, prompt="what was asked then")
    advisor = Answers({"select": "Idea ID: 27\nExperiment description: do it"})
    advice = advised(state, advisor, one=False, answers=(paid,))
    assert [prompt.purpose for prompt in advisor.asked] == ["select"]
    assert advice.calls[0] is paid and advice.idea == 27


@pytest.mark.parametrize("known", [True, False])
def test_a_question_that_does_not_fit_is_asked_in_a_shorter_form(state: RunState, known: bool) -> None:
    whole = Answers({"propose": ONE.format("Solve an integer program")})
    advised(state, whole, one=True)
    longest = len(whole.asked[0].whole) - 3000
    shorter = Answers({"propose": ONE.format("Solve an integer program")}, longest=longest, known=known)
    assert advised(state, shorter, one=True).experiment == "change it"
    assert len(shorter.asked[0].whole) <= longest


@pytest.mark.parametrize("known", [True, False])
def test_calls_after_a_question_that_was_too_long_share_its_shorter_context(state: RunState, known: bool) -> None:
    near = "Raise the step size to 0.5 in the annealing of the centres"
    texts = {
        "propose": three((FRESH[0], near, FRESH[2])),
        "assess": "Proposal 1: new",
        "select": "Idea ID: 26\nExperiment description: do it",
    }
    whole, shorter = Answers({**texts}), Answers({**texts}, known=known)
    advised(state, whole, one=False)
    shorter.longest = len(whole.asked[0].whole) - 3000
    assert advised(state, shorter, one=False).experiment == "do it"
    contexts = {prompt.text.rpartition("# Question")[0] for prompt in shorter.asked}
    assert [prompt.purpose for prompt in shorter.asked] == ["propose", "assess", "select"] and len(contexts) == 1
    assert contexts != {whole.asked[0].text.rpartition("# Question")[0]}


def test_a_question_that_cannot_fit_raises(state: RunState) -> None:
    with pytest.raises(PromptTooLong):
        advised(state, Answers({"propose": ""}, longest=500), one=True)


@pytest.mark.parametrize("said", ["", "no format at all", three(FRESH[:2])])
def test_what_cannot_be_read_is_unparsed_and_keeps_its_calls(state: RunState, said: str) -> None:
    for one in (True, False):
        advice = advised(state, Answers({"propose": said}), one=one)
        assert advice.unparsed and advice.experiment is None and len(advice.calls) == 1


def test_an_advisor_that_learns_nothing_is_asked_once_more_for_an_answer_that_cannot_be_read(state: RunState) -> None:
    bad = ONE.format("Solve an integer program").replace("Choice: A", "Choice: 77")
    good = ONE.format("Solve an integer program")
    advisor = Answers({"propose": in_turns(bad, good)})
    advice = advised(state, advisor, one=True, mends=True)
    assert advice.experiment == "change it" and [call.text for call in advice.calls] == [bad, good]
    assert [(note.number, note.known) for note in advice.notes] == [(25, False)]
    first, second = (prompt.text for prompt in advisor.asked)
    assert (
        second.startswith(first)
        and "there is no idea 77, and those listed are 2. You wrote:\n```\nIdea A (explore): Solve" in second
    )
    assert reasoning_of(advice.calls, True, "") == "because"


def test_three_calls_are_each_asked_once_more_and_never_a_third_time(state: RunState) -> None:
    near = "Raise the step size to 0.5 in the annealing of the centres"
    texts: dict[str, str | Callable[[str], str]] = {
        "propose": in_turns("no", three((FRESH[0], near, FRESH[2]))),
        "assess": in_turns("Proposal 1: known 3", "Proposal 1: known 1"),
        "select": in_turns("Idea ID: 77\nExperiment description: do it", "Idea ID: 1\nExperiment description: do it"),
    }
    advisor = Answers(texts)
    advice = advised(state, advisor, one=False, mends=True)
    assert [prompt.purpose for prompt in advisor.asked] == ["propose"] * 2 + ["assess"] * 2 + ["select"] * 2
    assert (advice.idea, advice.experiment) == (1, "do it")
    assert reasoning_of(advice.calls, False, near) == "why 2"
    advice = advised(state, Answers({"propose": "no format"}), one=False, mends=True)
    assert advice.unparsed and [call.text for call in advice.calls] == ["no format"] * 2


def test_a_second_answer_that_is_paid_for_is_not_asked_for_again_and_a_first_one_is_mended(state: RunState) -> None:
    good, bad = ONE.format("Solve an integer program"), "no format at all"
    for text, asked in ((good, 0), (bad, 1)):
        paid = AdvisorCall("propose", (), (), (), (), text, seconds=1.0, prompt="what was asked then")
        advisor = Answers({"propose": good})
        assert advised(state, advisor, one=True, answers=(paid,), mends=True).experiment == "change it"
        assert len(advisor.asked) == asked


def test_a_long_answer_that_cannot_be_read_does_not_take_the_question_beyond_its_budget(state: RunState) -> None:
    advisor = Answers({"propose": in_turns("```\nx" * 9000, ONE.format("Solve an integer program"))})
    assert advised(state, advisor, one=True, mends=True).experiment == "change it"
    assert all(len(prompt.whole) <= questions(state).prompts.budget for prompt in advisor.asked)


def test_the_form_of_the_answer_shows_how_a_second_and_a_third_idea_are_written(state: RunState) -> None:
    text = questions(state).one(20000).text
    ideas = [line for line in text.partition("exactly these lines")[2].split("\n") if line.startswith("Idea ")]
    answer = parse_one("\n".join((*ideas, "Choice: C", "Reasoning: because", "Specification:", "do it")))
    assert [kind for kind, _ in answer.ideas] == ["refine", "explore", "combine"] and answer.place == 3
    assert text.count("if you have one") == 2


def under_way(state: RunState) -> RunState:
    """Another thread is trying out idea 10."""
    return rollout(state, 4, island=2, text="(explore) Anneal the radii with restarts", ends=False)


def test_an_idea_that_is_under_way_can_be_covered_and_is_then_untried_no_more(state: RunState) -> None:
    question = questions(under_way(state)).one(60_000).text
    assert "- candidate 4 from 0, idea 10: Anneal the radii with restarts" in question
    covers = "Covers: none, or other ideas, listed or under way (as in 40, B), that need no try now"
    assert covers in question
    said = ONE.format("Solve an integer program").replace("Reasoning", "Covers: 10, 12\nReasoning")
    advice = advised(state, Answers({"propose": said}), one=True)
    assert advice.covers == (10,), "idea 12 is no idea of anybody"
    view = state.memory.view(1)
    tried = replace(view.tested[1], candidate=9, idea=advice.idea, covers=advice.covers)
    view.add(tried)
    lost = state.running[4].advice
    assert lost is not None
    state.memory.lost(lost)
    assert 10 in view.ideas and 10 not in {idea.number for idea in view.waiting(12)}


def test_a_proposal_in_the_words_of_an_idea_that_is_under_way_is_that_idea(state: RunState) -> None:
    said = ONE.format("Anneal the radii, with restarts.")
    advice = advised(under_way(state), Answers({"propose": said}), one=True)
    assert advice.idea == 10 and [(note.number, note.known) for note in advice.notes] == [(10, True)]
    assert advice.pool[0].description == "(explore) Anneal the radii, with restarts."


def test_without_anything_under_way_the_form_says_nothing_of_it(state: RunState) -> None:
    assert (
        "Covers: none, or other ideas, listed above (as in 40, B), that need no try now"
        in questions(state).one(60_000).text
    )
