"""Reasoning is no part of an answer, whichever of its marks a server leaves out, and a program's own marks stay."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.errors import CandidateFault
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


@pytest.mark.parametrize(("opening", "closing"), PAIRS, ids=lambda mark: mark)
@pytest.mark.parametrize("around", ["{}", " {}", "\n<answer>\n{}</answer>\n", "<|START_RESPONSE|>{}<|END_RESPONSE|>"])
@pytest.mark.parametrize("is_opened", [False, True])
def test_the_answer_may_follow_in_the_line_of_the_mark(
    opening: str, closing: str, around: str, is_opened: bool
) -> None:
    said = f"{opening * is_opened}{THOUGHT}So I am done.{closing}{around.format(ANSWER)}"
    assert parse(said) == WholeBlock("WIDTH = 3\n")


def test_reasoning_may_begin_again() -> None:
    assert parse(f"<think>\n{THOUGHT}</think>\n<think>{THOUGHT}</think>{ANSWER}") == WholeBlock("WIDTH = 3\n")
    assert parse(f"<think>\n{THOUGHT}</think>\nOnce more.\n{THOUGHT}</think>\n{ANSWER}") == WholeBlock("WIDTH = 3\n")


ALONE = 'TEXT = """\n</think>\n"""\n'


@pytest.mark.parametrize("before", ["", "I thought.</think>\n", "<think>\nI thought.\n</think>\n"])
def test_a_mark_alone_in_a_line_of_the_program_is_the_programs(before: str) -> None:
    lines = tuple(ALONE.splitlines())
    assert parse(f"{before}```python\n{ALONE}```\n") == WholeBlock(ALONE)
    edit = "{}<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n"
    assert parse(edit.format(before, "x = 1\n", ALONE)) == (Edit(("x = 1",), lines),)
    assert parse(edit.format(before, ALONE, "x = 1\n")) == (Edit(lines, ("x = 1",)),)


@pytest.mark.parametrize("named", ["the mark `</think>`", "a '</think>'", "what follows </think> in a line"])
def test_an_explanation_may_name_a_mark(named: str) -> None:
    assert parse(f"{ANSWER}It cuts {named}.\n") == WholeBlock("WIDTH = 3\n")


@pytest.mark.parametrize("begun", ["```python\nWIDTH = 99\n", "<<<<<<< SEARCH\nWIDTH = 1\n=======\nWIDTH = 99\n"])
def test_reasoning_that_breaks_off_in_code_is_no_part_of_the_answer(begun: str) -> None:
    assert parse(f"{begun}</think>\n{ANSWER}") == WholeBlock("WIDTH = 3\n")
    edit = "<<<<<<< SEARCH\nWIDTH = 1\n=======\nWIDTH = 3\n>>>>>>> REPLACE\n"
    assert parse(f"{begun}</think>\n{edit}") == (Edit(("WIDTH = 1",), ("WIDTH = 3",)),)


@pytest.mark.parametrize("answer", ["I cannot.", ""])
def test_code_of_reasoning_is_never_the_answer(answer: str) -> None:
    with pytest.raises(CandidateFault, match=r"no_code_block|empty_answer"):
        parse(f"{THOUGHT}</think>\n{answer}")


@given(st.text(st.characters(exclude_characters="/>:|t")))
def test_a_text_without_marks_is_the_answer(text: str) -> None:
    """Each mark has one of the characters that are left out."""
    assert answer_proper(text) == text


@pytest.mark.skipif(not ANSWERS.is_dir(), reason="no answers of a model beside the repository")
def test_answers_of_a_strong_model_are_whole() -> None:
    answers = [file.read_text() for file in sorted(ANSWERS.iterdir())]
    assert answers
    assert all(answer_proper(answer) == answer for answer in answers)
