"""What a run costs, said before it begins, from the real first questions."""

from dataclasses import replace

import pytest

from pace_async.config import PromptsConfig
from pace_async.context.bill import ANSWERS, FULLER, OwnLimits, bill, in_words
from pace_async.context.checked import first_questions
from pace_async.context.figures import tokens_in
from pace_async.context.questions import Prompts
from pace_async.context.templates import Templates
from pace_async.task import load_task

PROMPTS = Prompts(load_task("circle_packing"), Templates.of(PromptsConfig()))


@pytest.mark.parametrize("calls", ["one", "three"])
def test_the_bill_has_every_call_with_its_tokens_and_its_price(calls: str) -> None:
    first = first_questions(PROMPTS, calls)
    found = bill(PROMPTS, first, (1e-6, 4e-6), (2e-6, 8e-6))
    assert [each.call for each in found] == list(first)
    implement = found[-1]
    asked = first["implement"]
    assert implement.tokens_in == tokens_in(asked.system + asked.text)
    assert implement.usd == pytest.approx(implement.tokens_in * 2e-6 + ANSWERS["implement"] * 8e-6)
    said = in_words(found, 100)
    whole = sum(each.usd or 0 for each in found)
    assert f"{whole:.2g} USD" in said and f"{whole * 100:.2g} USD" in said and "100 candidates" in said
    assert "budget" not in in_words(found, 100, budget=whole * 101)
    for limit in (100, None):
        assert "pays for about 40 candidates" in in_words(found, limit, budget=whole * 40.5)


def test_a_model_without_a_price_is_said_to_have_none() -> None:
    found = bill(PROMPTS, first_questions(PROMPTS, "one"), None, (1e-6, 1e-6))
    assert found[0].usd is None
    assert "without a listed price" in in_words(found, None)


def test_three_calls_send_the_context_more_often_than_one() -> None:
    one, three = (
        sum(each.tokens_in for each in bill(PROMPTS, first_questions(PROMPTS, calls), None, None))
        for calls in ("one", "three")
    )
    assert one < 0.75 * three


def test_notes_are_counted_as_often_as_they_are_written_and_at_the_price_of_their_model() -> None:
    prompts = replace(PROMPTS, notes_every=10)
    first = first_questions(prompts, "one")
    notes = bill(prompts, first, (1e-6, 4e-6), (2e-6, 8e-6))[-1]
    whole = tokens_in(first["notes"].system + first["notes"].text)
    assert notes.call == "notes" and 0.1 * whole <= notes.tokens_in + 1 and notes.tokens_in <= 0.1 * FULLER * whole + 1
    assert notes.tokens_out == round(ANSWERS["notes"] / 10)
    assert notes.usd == pytest.approx(notes.tokens_in * 2e-6 + notes.tokens_out * 8e-6)
    by_advisor = bill(prompts, {call: first[call] for call in ("one", "notes")}, (1e-6, 4e-6), None)[-1]
    assert by_advisor.usd == pytest.approx(notes.tokens_in * 1e-6 + notes.tokens_out * 4e-6)


def test_answers_of_a_model_that_thinks_and_questions_with_a_limit_are_counted_as_they_are() -> None:
    first = first_questions(PROMPTS, "three")
    usual = {each.call: each for each in bill(PROMPTS, first, (1e-6, 4e-6), (2e-6, 8e-6))}
    limits = OwnLimits(560, {"propose": 2048, "select": 100})
    found = {each.call: each for each in bill(PROMPTS, first, (1e-6, 4e-6), (2e-6, 8e-6), limits)}
    assert usual["propose"].tokens_in > found["propose"].tokens_in == 560
    assert found["propose"].tokens_out == 2048
    assert found["select"].tokens_out == ANSWERS["select"], "never less than a usual answer"
    assert found["implement"] == usual["implement"], "the implementer has limits of its own"
