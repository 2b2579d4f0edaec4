"""Reasoning is no part of an answer, whichever of its marks a server leaves out, and a program's own marks stay."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.implement.edits import Edit, WholeBlock, parse
from pace_async.thinking import PAIRS, answer_proper

THOUGHT = "Maybe this:\n```python\nWIDTH = 99\n```\nNo, better another.\n"
ANSWER = "```python\nWIDTH = 3\n```\n"
ANSWERS = Path(__file__).parents[3] / "shared" / "data" / "model_answers" / "a"


@pytest.mark.parametrize(("opening", "closing"), PAIRS, ids=lambda mark: mark)
@pytest.mark.parametrize("before", ["", "\n", "  \n"])
def test_what_stands_between_two_marks_is_not_the_answer(opening: str, closing: str, before: str) -> None:
    assert parse(f"{before}{opening}\n{THOUGHT}{closing}\n{ANSWER}") == WholeBlock("WIDTH = 3\n")


@pytest.mark.parametrize(("opening", "closing"), PAIRS, ids=lambda mark: mark)
def test_a_template_may_have_written_the_opening_mark(opening: str, closing: str) -> None:
    assert parse(f"{THOUGHT}{closing}\n\n{ANSWER}") == WholeBlock("WIDTH = 3\n")


@pytest.mark.parametrize(("opening", "closing"), PAIRS, ids=lambda mark: mark)
def test_reasoning_that_does_not_end_is_no_answer(opening: str, closing: str) -> None:
    assert answer_proper(f"{opening}\n{THOUGHT}{ANSWER}") == ""


@pytest.mark.parametrize("start", ["", "<|start|>assistant"])
@pytest.mark.parametrize("end", ["", "<|return|>"])
def test_of_several_channels_the_final_one_is_the_answer(start: str, end: str) -> None:
    analysis = f"{start}<|channel|>analysis<|message|>{THOUGHT}<|end|>"
    final = f"<|start|>assistant<|channel|>final<|message|>{ANSWER}{end}"
    assert answer_proper(analysis + final) == ANSWER
    assert answer_proper(analysis) == ""


@pytest.mark.parametrize(
    "program",
    [
        'MARK = "</think>"\n',
        "cut = text.partition('<think>')[2].partition('</think>')[2]\n",
        "# <think> about </think>\n",
    ],
)
def test_marks_in_a_program_are_its_own(program: str) -> None:
    assert parse(f"```python\n{program}```\n") == WholeBlock(program)
    found = parse(f"<think>hm</think>\n<<<<<<< SEARCH\nx = 1\n=======\n{program}>>>>>>> REPLACE\n")
    assert found == (Edit(("x = 1",), tuple(program.splitlines())),)


@given(st.text(st.characters(exclude_characters="/>:|t")))
def test_a_text_without_marks_is_the_answer(text: str) -> None:
    """Each mark has one of the characters that are left out."""
    assert answer_proper(text) == text


@pytest.mark.skipif(not ANSWERS.is_dir(), reason="no answers of a model beside the repository")
def test_answers_of_a_strong_model_are_whole() -> None:
    answers = [file.read_text() for file in sorted(ANSWERS.iterdir())]
    assert answers
    assert all(answer_proper(answer) == answer for answer in answers)
