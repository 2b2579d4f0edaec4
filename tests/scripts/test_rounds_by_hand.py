"""The tables of docs/results/by_hand.md are those of the questions and answers that are kept."""

from pathlib import Path

import pytest

from scripts.benchmarks.rounds_by_hand import RUNS, Counted, counted, row_of

PAGE = (Path(__file__).parents[2] / "docs" / "results" / "by_hand.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("run", RUNS)
def test_the_page_has_what_the_kept_questions_and_answers_say(run: str) -> None:
    assert row_of(run) in PAGE


def test_every_candidate_tries_one_idea_and_three_are_proposed_in_three_calls() -> None:
    found = counted("eplb_three_calls")
    assert (found.candidates, found.ideas, len(found.tried)) == (16, 48, 16)
    assert all(len(ideas) == 3 for ideas in found.proposed)


def test_an_idea_that_no_later_question_knows_is_counted_as_evicted() -> None:
    found = Counted(proposed=[{1, 2, 3}, {4, 5}, {7, 8}], tried={1, 4}, covered={5}, known=1, complete=2)
    assert (found.ideas, found.evicted) == (7, 1)
