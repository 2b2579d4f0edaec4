"""What is shown to a model that failed, and whether it is asked again: the pure part."""

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import Config, RepairConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.events import ImplementerTry, Outcome
from pace_async.events.complaint import complaint
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import messages_for
from pace_async.implement.repair import UNUSABLE, asks_again, is_repairable, program_to_change
from pace_async.programs.text import DIVIDER, REPLACE, SEARCH, editable
from pace_async.search.state import Member
from pace_async.simulate.runs import TINY_TASK
from pace_async.task import load_task
from tests.doubles.evaluators import scored

PAPER = RepairConfig()
PARENT = Member(0, TINY_TASK.program, 0.5)
PROGRAM = (
    "import math\n\ndef solve(instance):\n    centres = instance['n']\n    return [centre for centre in cetnres]\n"
)
ERROR = "NameError: name 'cetnres' is not defined (line 5)"


def made(number: int, evaluation: Outcome | None = None, detail: str = "") -> ImplementerTry:
    return ImplementerTry(number, "m", "ok", "", PROGRAM, None, evaluation, detail)


def unusable(number: int, kind: str = "search_not_found", answer: str = "nothing") -> ImplementerTry:
    return ImplementerTry(number, "m", kind, "the SEARCH of edit 1 stands nowhere", None, answer)


def asked(*tries: ImplementerTry) -> str:
    return messages_for(TINY_TASK, PARENT, Experiment(1, "an idea", "Change it.", tries))[-1]["content"]


def test_three_answers_in_a_row_may_be_unusable_as_in_the_paper() -> None:
    tries = [unusable(number) for number in (1, 2, 3)]
    assert [asks_again(tries[:count], PAPER) for count in (1, 2, 3)] == [True, True, False]


def test_two_programs_are_evaluated_and_the_second_has_three_answers_of_its_own() -> None:
    first, again = made(1, "candidate_error", ERROR), made(4, "candidate_error", ERROR)
    assert asks_again([first], PAPER)
    assert asks_again([first, unusable(2), unusable(3)], PAPER)
    assert not asks_again([first, unusable(2), unusable(3), unusable(4)], PAPER)
    assert not asks_again([first, unusable(2), unusable(3), again], PAPER)


def test_with_one_try_of_each_nothing_is_repaired() -> None:
    off = RepairConfig(compile_tries=1, evaluate_tries=1)
    assert not asks_again([unusable(1)], off)
    assert not asks_again([made(1, "candidate_error", ERROR)], off)


@pytest.mark.parametrize(
    ("outcome", "detail", "mended"),
    [
        ("candidate_error", ERROR, True),
        ("candidate_error", "ZeroDivisionError (line 3)", True),
        ("candidate_error", "the program defines no function solve", True),
        ("invalid_score", "26 circles expected", True),
        ("candidate_error", "ended without a result (SIGSYS)", False),
        ("candidate_error", "ended without a result (exit code 1): ValueError: no (line 3)", False),
        ("candidate_error", "SystemExit: 0 (line 3)", False),
        ("candidate_error", "PermissionError: [Errno 13] Permission denied: '/etc/shadow' (line 3)", False),
        ("candidate_error", "ConnectionRefusedError: [Errno 111] Connection refused (line 3)", False),
        ("timeout", "stopped after 2.0 s", False),
        ("out_of_memory", "MemoryError", False),
        ("output_overflow", "too much on stdout", False),
        ("suspicious", "the result pipe carried a forged frame (line 3)", False),
        ("infrastructure_error", "", False),
        ("ok", "", False),
    ],
)
def test_only_an_error_in_the_code_or_a_wrong_output_is_repairable(outcome: Outcome, detail: str, mended: bool) -> None:
    assert is_repairable(outcome, detail) is mended
    assert asks_again([made(1, outcome, detail)], PAPER) is mended


@pytest.mark.parametrize("kind", ["unchanged", "refusal", "prompt_too_long", "not_implemented", "unheard_of"])
def test_an_answer_that_no_repair_can_improve_is_the_last(kind: str) -> None:
    assert kind not in UNUSABLE
    assert not asks_again([unusable(1, kind)], PAPER)


def test_the_error_is_given_with_its_line_and_the_names_that_the_program_contains() -> None:
    said = complaint("candidate_error", ERROR, PROGRAM, "solve")
    assert "NameError: name `cetnres` is not defined" in said
    assert "line 5" in said and "    return [centre for centre in cetnres]" in said


def test_an_output_that_is_refused_is_named_without_the_words_of_the_evaluator() -> None:
    said = complaint("invalid_score", "row 3 of 0.33 is not [0.5, 0.25]", PROGRAM, "solve")
    assert "`solve`" in said and "requirements" in said
    assert not re.search(r"\d", said)


HIDDEN = "hidden=[0.8147,0.9058]"


@pytest.mark.parametrize(
    "detail",
    [
        f"ValueError: {HIDDEN} (line 4)",
        f"KeyError: '{HIDDEN}' (line 4)",
        "KeyError: 'hidden' (line 4)",
        "IndexError: index 8147 is out of bounds for axis 0 with size 9058 (line 4)",
        f"ValueError: could not convert string to float: '{HIDDEN}' (line 4)",
        "NameError: name 'hidden_8147' is not defined (line 4)",
        "AttributeError: 'hidden' object has no attribute 'hidden8147' (line 4)",
        "hidden_8147: name 'hidden' is not defined (line 4)",
        f"ValueError: not enough values to unpack (expected {HIDDEN}, got 9058) (line 4)",
        f"TypeError: solve() missing 8147 required positional arguments: '{HIDDEN}' (line 4)",
    ],
)
def test_no_message_to_a_model_holds_values_of_hidden_instances(detail: str) -> None:
    said = complaint("candidate_error", detail, PROGRAM, "solve")
    assert not re.search("hidden|8147|9058", said)
    assert "line 4" in said


@given(name=st.from_regex(r"[A-Z]\w{0,20}", fullmatch=True), message=st.text(max_size=200), line=st.integers(0, 9))
def test_every_word_of_a_message_is_ours_or_pythons_or_the_programs(name: str, message: str, line: int) -> None:
    """So two messages that are no sentence of Python's make one complaint."""
    said = complaint("candidate_error", f"{name}: X{message}X (line {line})", PROGRAM, "solve")
    quiet = complaint("candidate_error", f"{name}: XX (line {line})", PROGRAM, "solve")
    assert said == quiet


REAL = {
    "oops = cetnres": "NameError: name `cetnres` is not defined, raised at line",
    "import numpy; numpy.zeros(3)[5]": "IndexError: index … is out of bounds for axis … with size …, raised at line",
    "(lambda a, b: a)(1)": "TypeError: <lambda>() missing … required positional argument: …, raised at line",
    "raise KeyError('the hidden')": "It ended with KeyError, raised at line",
    "del globals()['pack']; globals()['pack'] = 1": "It defines no function `pack`.",
    "pack = lambda instance: object()": "`pack` returned is not made of numbers",
    "pack = lambda instance: 1": "`pack` returned is not what the requirements ask for.",
}


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
async def test_the_sandboxs_messages_about_real_programs_are_parsed() -> None:
    task = load_task("circle_packing")
    async with open_evaluator(task, Config().evaluation) as evaluator:
        for line, words in REAL.items():
            program = f"{task.program}\n{line}\n"
            found = await scored(evaluator, program, 0)
            assert is_repairable(found.outcome, found.detail), found
            assert words in complaint(found.outcome, found.detail, program, "pack")
        for line in ("import os; os._exit(3)", "open('/etc/passwd', 'w')"):
            found = await scored(evaluator, f"{task.program}\n{line}\n", 0)
            assert found.outcome == "candidate_error"
            assert not is_repairable(found.outcome, found.detail), found


def test_a_repair_changes_the_newest_program_that_an_answer_made() -> None:
    assert program_to_change("parent", []) == "parent"
    assert program_to_change("parent", [unusable(1)]) == "parent"
    assert program_to_change("parent", [made(1, "candidate_error", ERROR), unusable(2)]) == PROGRAM


def test_after_a_failed_evaluation_the_program_and_its_error_are_shown_and_not_the_parent() -> None:
    text = asked(made(1, "candidate_error", ERROR))
    assert PROGRAM in text and PARENT.program not in text
    assert "NameError: name `cetnres` is not defined" in text
    assert "Experiment: Change it." in text


def test_after_an_unusable_answer_the_parent_the_answer_and_the_reason_are_shown() -> None:
    text = asked(unusable(1, answer=f"{SEARCH}\n```python\nx\n```"))
    assert PARENT.program in text
    assert "(search_not_found): the SEARCH of edit 1 stands nowhere." in text
    assert f"````text\n{SEARCH}\n```python\nx\n```\n````" in text


def test_after_edits_of_which_some_applied_only_the_others_are_asked_for() -> None:
    wrong = f"{SEARCH}\n    centres = instance['m']\n{DIVIDER}\n    centres = 1\n{REPLACE}\n"
    partly = ImplementerTry(1, "m", "search_not_found", "the SEARCH of edit 2 stands nowhere", PROGRAM, wrong)
    assert asks_again([partly], PAPER) and program_to_change("parent", [partly]) == PROGRAM
    text = asked(partly)
    assert PROGRAM in text and PARENT.program not in text
    assert f"These are not: the SEARCH of edit 2 stands nowhere.\n```text\n{wrong}```" in text
    assert "Lines 4 to 4 of the program:\n    centres = instance['n']" in text
    assert "Send only these again" in text


def test_an_answer_that_was_cut_off_is_not_shown_again() -> None:
    text = asked(unusable(1, "length", "a beginning"))
    assert "(length)" in text and "a beginning" not in text


def test_after_a_search_that_stands_nowhere_the_lines_most_like_it_are_shown() -> None:
    before, block, _ = editable(PARENT.program)
    line, number = block.split("\n")[0], before.count("\n") + 1
    answer = f"{SEARCH}\n  {line}  # 0\n{DIVIDER}\npass\n{REPLACE}"
    near = f"to be copied exactly:\n```text\nLines {number} to {number} of the program:\n{line}\n```"
    assert near in asked(unusable(1, answer=answer))
    assert "to be copied" not in asked(unusable(1, "search_ambiguous", answer))


def test_a_syntax_error_is_shown_with_the_program_that_has_it() -> None:
    broken = f"{PROGRAM}def (:\n"
    text = asked(ImplementerTry(1, "m", "syntax_error", "line 6: invalid\nsyntax", broken, None))
    assert broken in text and "line 6: invalid syntax" in text
