"""What a model wrote is refused before an evaluation is spent on it, if its form tells that it cannot be one."""

from dataclasses import replace

import pytest

from pace_async.errors import CandidateFault
from pace_async.implement.base import Experiment, Unusable
from pace_async.implement.model_maker import ModelMaker
from pace_async.search.state import Member
from pace_async.task import load_task, split_block
from tests.doubles.implementers import PlainLedger, ScriptedChat
from tests.support.scripted_runs import block

TASK = load_task("circle_packing")
PARENT = Member(0, TASK.program, 1.0)
BEFORE, BLOCK, AFTER = split_block(TASK.program)
NEW = f"{BLOCK}ADDED = 1\n"
EXPERIMENT = Experiment(1, "an idea", "add 1")


async def test_a_program_longer_than_the_task_allows_costs_no_evaluation() -> None:
    ledger = PlainLedger()
    maker = ModelMaker(ScriptedChat(lambda _question, _number: block(NEW)), ledger, 10_000)
    made = (await maker.make(TASK, PARENT, EXPERIMENT, 10.0)).program
    size = len(made)
    exact, short = (
        replace(TASK, spec=TASK.spec.model_copy(update={"longest_program": most})) for most in (size, size - 1)
    )
    assert (await maker.make(exact, PARENT, EXPERIMENT, 10.0)).program == made
    with pytest.raises(Unusable, match=f"{size} characters, of {size - 1} allowed"):
        await maker.make(short, PARENT, EXPERIMENT, 10.0)
    assert ledger.outcomes == ["ok", "ok", "program_too_long"]


@pytest.mark.parametrize(
    ("wrote", "kind"),
    [
        (block(BLOCK + "def f(:\n"), "syntax_error"),
        (block(BLOCK.replace("def ", "def other_")), "no_entry"),
        (block(f"{BEFORE}{NEW}{AFTER}"), "markers_in_block"),
        ("I would rather not.", "no_code_block"),
    ],
)
async def test_syntax_entry_marks_and_form_are_checked_before_an_evaluation(wrote: str, kind: str) -> None:
    ledger = PlainLedger()
    maker = ModelMaker(ScriptedChat(lambda _question, _number: wrote), ledger, 10_000)
    with pytest.raises(CandidateFault) as fault:
        await maker.make(TASK, PARENT, EXPERIMENT, 10.0)
    assert (fault.value.kind, ledger.outcomes) == (kind, [kind])
