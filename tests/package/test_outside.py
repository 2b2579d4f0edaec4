"""Texts and numbers from outside are made sound, or refused, where they come in."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import CheckConstraint

from pace_async.evaluate.base import Evaluation, EvaluationRequest
from pace_async.evaluate.metrics import EvaluatorOutput, read
from pace_async.evaluate.scorer.scorer_process import read_score
from pace_async.evaluate.scorer.strict_json import Invalid
from pace_async.implement.agent_folder import read_program
from pace_async.outside import LARGEST, MOST_COUNTED, MOST_METRICS, bounded_count, is_bounded, sound, sound_file
from pace_async.population.models import Base
from pace_async.programs.parsed import statements_of
from pace_async.programs.reading import text_of
from tests.doubles.evaluators import Judge, scored
from tests.doubles.implementers import ScriptedChat
from tests.support.evaluate_tasks import make_task
from tests.support.scripted_runs import Run, block, configured

NUMBERS = st.one_of(st.floats(), st.integers(), st.integers(-(10**400), 10**400))
BEYOND = pytest.mark.fault("Programs as weapons", "a number that is finite, and more than a table takes")
HALF = pytest.mark.fault("Programs as weapons", "half a sign, a NUL or a byte order mark in a text from outside")


def is_taken(number: Any) -> bool:
    """Whether a scorer takes a number as a score."""
    try:
        return read_score({"score": number}) == (float(number), {})
    except Invalid:
        return False


@BEYOND
@given(NUMBERS)
def test_a_scorer_takes_just_the_numbers_that_the_tables_take(number: Any) -> None:
    assert is_taken(number) == is_bounded(number)


@BEYOND
@pytest.mark.parametrize("number", [1e308, -1e308, 1.5e308, math.inf, math.nan, 10**400, 10**5000], ids=range(7))
def test_a_number_beyond_the_bound_is_an_invalid_score_as_a_metric_too(number: Any) -> None:
    for result in ({"score": number}, {"score": 1.0, "other": number}):
        with pytest.raises(Invalid, match=r"not between|not a finite number"):
            read_score(result)


@BEYOND
def test_the_bound_is_that_of_every_table_that_has_one() -> None:
    checks = [
        str(constraint.sqltext)
        for table in Base.metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint) and str(constraint.name).endswith("_finite")
    ]
    assert checks
    assert all(f"< {'1e308'}" in check for check in checks)
    assert float("1e308") == LARGEST
    assert [bounded_count(number) for number in (-1, 7, 10**30)] == [0, 7, MOST_COUNTED]


@BEYOND
def test_a_run_whose_evaluator_returns_such_a_score_goes_on(tmp_path: Path) -> None:
    """Whichever evaluator it comes from: a node, a memo of an earlier version, or this process."""

    class Huge(Judge):
        async def run(self, request: EvaluationRequest) -> Evaluation:
            found = await Judge.run(self, request)
            return Evaluation("ok", 1.5e308, found.seconds) if "huge" in request.program else found

    chat = ScriptedChat(lambda _question, number: block(f"{'huge' if number % 2 else 'fair'} = {number}"))
    run = Run(tmp_path, configured(implementer__repair__evaluate_tries=1), chat)
    run.judge = Huge()
    run.live()
    assert run.state == "done"
    assert run.rows("select distinct outcome from candidates where program like '%huge%'") == [("invalid_score",)]
    assert run.rows("select count(*) from candidates where outcome = 'invalid_score'")[0][0] > 0


@BEYOND
async def test_metrics_without_end_are_cut_whichever_evaluator_has_them() -> None:
    """A trusted evaluator may name its metrics by what a program returned."""

    class Many(Judge):
        async def run(self, request: EvaluationRequest) -> Evaluation:
            found = await Judge.run(self, request)
            return replace(found, metrics={"x" * 10**6: 1.0, **{str(n): 1.0 for n in range(10**5)}, "y" * 100: 1.0})

    found = await scored(Many(), "a = 1")
    assert found.outcome == "ok"
    assert list(found.metrics) == [str(n) for n in range(MOST_METRICS)]


@BEYOND
def test_a_command_task_s_metric_beyond_the_bound_is_an_invalid_score(tmp_path: Path) -> None:
    task = make_task(tmp_path / "sums")
    spec = task.spec.model_copy(update={"metrics": "last_line", "score": ("score",)})
    found = read(spec, EvaluatorOutput({}, b'{"score": 1.5e308}'))
    assert found.score is None
    assert "is not between" in found.wrong
    found = read(spec, EvaluatorOutput({}, b'{"score": 1.0, "other": 1.5e308, "a\\ud83d": 2}'))
    assert (found.score, dict(found.metrics)) == (1.0, {"score": 1.0, "a\ufffd": 2.0})


@HALF
@given(st.text(st.characters(codec=None)))
def test_a_sound_text_can_be_encoded_and_loses_only_what_cannot(text: str) -> None:
    made = sound(text)
    assert made.encode().decode() == made
    assert "\0" not in made
    assert sound(made) == made
    assert len(made) == len(text)


@HALF
@pytest.mark.parametrize("signs", ["# \ud83d", "# \udc00\ud83d", "a = 'x\0'"], ids=range(3))
def test_half_a_sign_or_a_nul_becomes_the_replacement_character(signs: str) -> None:
    assert "\ufffd" in sound(signs)


@HALF
def test_a_byte_order_mark_is_no_part_of_a_program_wherever_it_is_read(tmp_path: Path) -> None:
    text = "# EVOLVE-BLOCK-START\ndef f(instance):\n    return 1\n# EVOLVE-BLOCK-END\n"
    plain = make_task(tmp_path / "sums")
    file = plain.folder / "initial.py"
    file.write_text(text, encoding="utf-8-sig")
    assert make_read(file) == [text] * 3
    assert sound_file("\ufeff\ufeffx") == "\ufeffx"


def make_read(file: Path) -> list[str]:
    """The file as a task's program, as a program on the command line, and as what an agent left."""
    from pace_async.task import load_task

    return [load_task(str(file.parent)).program, text_of(file), read_program(file.parent, [file.name])[file.name]]


@pytest.mark.fault("Programs as weapons", "a text that no parser can read")
@pytest.mark.parametrize(
    "text", ["def f(:", "x = 1\0", "(" * 300, "\ufeff\ufeffx", "x = 1\n  y = 2", "\ud83d"], ids=range(6)
)
def test_a_text_that_is_not_python_has_no_statements(text: str) -> None:
    assert statements_of(text) == []


def test_what_is_python_has_its_statements() -> None:
    assert len(statements_of("import math\nx = 1\n")) == 2
