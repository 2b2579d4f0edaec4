"""The answers of a search by hand in three calls, given again to the questions as they are asked today."""

import re
from collections.abc import Coroutine
from typing import Any, Literal

import pytest

from pace_async.advise.advisor import Advice, Sampling
from pace_async.advise.in_context import advise_in_context
from pace_async.answers import IDEAS_PER_PROPOSAL, parse_propose, parse_select
from pace_async.config import PromptsConfig
from pace_async.context.questions import Prompts
from pace_async.context.templates import Templates
from pace_async.search.state import Member
from pace_async.task import load_task
from tests.support.answering import Answers
from tests.support.contexts import begun, rollout
from tests.support.rounds_by_hand import asked

EPLB = load_task("eplb")
ANY = 10**6
_NEW = re.compile(r"^New ideas:\n(.*?)\n\n", re.MULTILINE | re.DOTALL)


def rollouts() -> list[tuple[int, str, str]]:
    """(first number of its ideas, answer with the ideas, answer with the choice) of each candidate."""
    rows, made = list(asked("eplb_three_calls")), list[tuple[int, str, str]]()
    proposals = [answer for kind, _, answer in rows if kind == "propose"]
    for kind, question, answer in rows:
        if kind == "select" and (new := _NEW.search(question)) is not None:
            first = int(new[1].removeprefix("- idea ").partition(":")[0])
            [own] = [text for text in proposals if all(idea in new[1] for idea, _ in parse_propose(text))]
            made.append((first, own, answer))
    return made


def result(work: Coroutine[Any, Any, Advice]) -> Advice:
    with pytest.raises(StopIteration) as done:
        work.send(None)
    return done.value.value


@pytest.mark.parametrize("chosen", ["full", "paper"])
@pytest.mark.parametrize("tokens", [3000, 16000])
def test_what_was_proposed_and_chosen_by_hand_is_what_comes_of_todays_questions(
    chosen: Literal["full", "paper"], tokens: int
) -> None:
    state, parent = rollout(begun(), 99, ends=False), Member(0, EPLB.program, 0.4)
    prompts = Prompts(EPLB, Templates.of(PromptsConfig(set=chosen)), tokens=tokens)
    answered = rollouts()
    assert len(answered) == 16
    for first, proposal, choice in answered:
        lease = (first - 1) // IDEAS_PER_PROPOSAL + 1
        advisor = Answers({"propose": proposal, "select": choice})
        questions = prompts.questions(state, state.islands[1], parent)
        sampling = Sampling(1, one_call=False, max_tokens=1000)
        advice = result(advise_in_context(advisor, questions, lease=lease, sampling=sampling, now=lambda: 0.0))
        ideas = [idea for idea, _ in parse_propose(proposal)]
        assert (advice.idea, advice.experiment) == parse_select(choice, ANY)
        assert [(note.number, note.description) for note in advice.notes] == list(enumerate(ideas, start=first))
        propose, select = advisor.asked
        assert select.text.partition("\n# Question\n")[0] == propose.text.partition("\n# Question\n")[0]
        assert all(f"- idea {first + place}: {idea}\n" in select.text for place, idea in enumerate(ideas))
