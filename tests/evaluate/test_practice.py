"""Practice instances: run cold, before scored ones, never scored, and what is printed there is kept."""

import sys
from pathlib import Path
from typing import Any

import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import PRACTICE_SHARE, Limits
from pace_async.evaluate.practice import MOST_PRINTED, not_apart
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.evaluate.sandbox.tiers import NoSandbox
from pace_async.task import FULL, PRACTICE, Task, load_task
from tests.doubles.evaluators import scored
from tests.support.command_tasks import SOURCED, make_command_task
from tests.support.evaluate_tasks import EVALUATOR, make_task
from tests.support.evaluating import evaluating
from tests.support.process_tasks import DOUBLE_C, make_process_task, needs_gcc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
PRACTICES = f"{EVALUATOR}\ndef practice(seed):\n    return [{{'x': -1}}, {{'x': -2}}]\n"
SAYS = """
import sys
def f(instance):
    print("got", instance["x"])
    print("warns", file=sys.stderr)
    return 2 * instance["x"]
"""


async def test_practice_has_instances_of_its_own_and_is_scored_by_the_same_function(tmp_path: Path) -> None:
    async with evaluating(make_task(tmp_path / "sum", PRACTICES)) as evaluator:
        practised = await scored(evaluator, SAYS, stage=PRACTICE)
        real = await scored(evaluator, SAYS)
    assert (practised.outcome, practised.score, practised.metrics) == ("ok", -6.0, {"count": 2.0})
    assert practised.feedback == "[standard output]\ngot -1\ngot -2\n[standard error]\nwarns\nwarns"
    assert [attempt.stage for attempt in practised.attempts] == [PRACTICE]
    assert (real.score, real.feedback) == (6.0, ""), "nothing that is printed in a scored evaluation is kept"


TELLS = """
def instances(seed):
    return [{"x": seed}]

def practice(seed, settings):
    return [{"x": str(seed)}]

def score(instances, outputs, seed, stage):
    return {"score": 0, "same": int(instances[0]["x"] == str(seed)), "above": seed >> 64, "full": int(stage == "full")}
"""


async def test_the_seed_of_practice_is_that_of_no_evaluation(tmp_path: Path) -> None:
    async with evaluating(make_task(tmp_path / "seeds", TELLS)) as evaluator:
        practised = await scored(evaluator, "def f(instance):\n    return 0\n", 7, PRACTICE)
    assert practised.metrics == {"same": 1, "above": 1, "full": 1}


async def test_only_scored_evaluations_are_forked_from_the_warm_parent(tmp_path: Path) -> None:
    """The parent has imported what the seed program imports."""
    forked = "import sys\ndef f(instance):\n    return 'colorsys' in sys.modules and 1 or 0\n"
    folder = make_task(tmp_path / "sum", PRACTICES).folder
    (folder / "initial.py").write_text(f"import colorsys\n{(folder / 'initial.py').read_text()}")
    async with evaluating(load_task(str(folder))) as evaluator:
        if not evaluator.is_warm:
            pytest.skip("this machine's sandbox has no warm parent")
        practised, real = [await scored(evaluator, forked, stage=stage) for stage in (PRACTICE, FULL)]
    assert (practised.score, real.score) == (0.0, 3.0)


FAILING = {
    "it raises": ("def f(instance):\n    print('before')\n    raise ValueError('no')\n", "candidate_error", "before"),
    "it ends": ("import os\ndef f(instance):\n    os.write(2, b'bye')\n    os._exit(3)\n", "candidate_error", "bye"),
    "it hangs": ("def f(instance):\n    print('on', flush=True)\n    while True: pass\n", "timeout", "on"),
    "it returns no number": ("def f(instance):\n    print('text')\n    return 'text'\n", "invalid_score", "text"),
}


async def test_a_failure_in_practice_keeps_what_was_printed(tmp_path: Path) -> None:
    async with evaluating(make_task(tmp_path / "sum", PRACTICES, timeout_s=6.0)) as evaluator:
        for what, (program, outcome, words) in FAILING.items():
            practised = await scored(evaluator, program, stage=PRACTICE)
            assert (practised.outcome, practised.score) == (outcome, None), what
            assert words in practised.feedback, what


@needs_gcc
async def test_a_program_of_its_own_practises_too_and_what_it_answers_is_not_what_it_prints(tmp_path: Path) -> None:
    task = make_process_task(
        tmp_path / "lines", DOUBLE_C.replace("fflush", 'fprintf(stderr, "saw %d\\n", x); fflush'), evaluator=PRACTICES
    )
    async with evaluating(task) as evaluator:
        practised = await scored(evaluator, task.program, stage=PRACTICE)
        real = await scored(evaluator, task.program)
    assert (practised.score, practised.feedback) == (-6.0, "[standard error]\nsaw -1\nsaw -2")
    assert (real.score, real.feedback) == (6.0, "")


async def test_what_is_printed_is_bounded_and_readable(tmp_path: Path) -> None:
    program = r"""
import sys
def f(instance):
    sys.stdout.write("\x1b[31m" + "é" * 5000 + "\u202eend")
    sys.stderr.buffer.write(b"\xff\x00" * 3000 + b"last")
    return 0
"""
    async with evaluating(make_task(tmp_path / "sum", PRACTICES)) as evaluator:
        said = (await scored(evaluator, program, stage=PRACTICE)).feedback
    assert len(said) <= MOST_PRINTED
    assert said.replace("\n", "").isprintable()
    assert said.startswith("[standard output]\n") and said.endswith("last")
    assert " end\n[standard error]\n" in said


async def test_an_equal_program_practises_once(tmp_path: Path) -> None:
    async with evaluating(make_task(tmp_path / "sum", PRACTICES)) as evaluator:
        first = await scored(evaluator, SAYS, stage=PRACTICE)
        again = await scored(evaluator, SAYS, stage=PRACTICE)
        real = await scored(evaluator, SAYS)
    assert (again.memoised, again.feedback, again.score) == (True, first.feedback, first.score)
    assert (real.memoised, real.score) == (False, 6.0), "a practice score is never a score"


async def refusal(task: Task, **settings: Any) -> str:
    tier = settings.pop("tier", None) or await pick_tier(False)
    with pytest.raises(UsageError) as refused:
        async with open_evaluator(task, EvaluationConfig(practice="output", **settings), tier=tier):
            pass
    return str(refused.value)


async def test_practice_is_refused_where_it_would_show_hidden_instances(tmp_path: Path) -> None:
    same = make_task(tmp_path / "same", f"{EVALUATOR}\ndef practice(seed):\n    return [{{'x': 2}}]\n")
    assert "practice instance 1 is a scored one too" in await refusal(same)
    assert "gives no instances" in await refusal(
        make_task(tmp_path / "empty", f"{EVALUATOR}\ndef practice(seed):\n    return []\n")
    )
    assert "defines no practice(seed)" in await refusal(make_task(tmp_path / "none"))
    assert "is a command task" in await refusal(make_command_task(tmp_path / "command", SOURCED))
    sum_ = make_task(tmp_path / "sum", PRACTICES)
    assert "can leave files for a later one" in await refusal(sum_, tier=NoSandbox())
    async with evaluating(
        make_task(tmp_path / "later", f"{EVALUATOR}\ndef practice(seed):\n    return [{{'x': 9}}]\n")
    ) as evaluator:
        scorers = evaluator.parts.scorers
        assert scorers is not None
        assert await not_apart(evaluator.task, scorers, 0) == ""
        assert "practice instance 1" in await not_apart(evaluator.task, scorers, 0, 8)


def test_practice_has_a_share_of_the_time_and_the_other_limits(tmp_path: Path) -> None:
    spec = make_task(tmp_path / "sum", PRACTICES, timeout_s=10.0).spec
    full, practice = Limits.of(spec), Limits.of(spec, PRACTICE)
    assert practice.seconds == PRACTICE_SHARE * full.seconds
    assert (practice.memory_mb, practice.output_bytes) == (full.memory_mb, full.output_bytes)
