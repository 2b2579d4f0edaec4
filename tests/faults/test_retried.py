"""A stage that fails after a fact was committed, and is then tried again: nothing is committed or paid for twice."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from pace_async.evaluate.base import Evaluation, EvaluationRequest
from tests.doubles.evaluators import Judge
from tests.support.clumsy_implementers import UNEVEN, UNPAID, Failing, clumsy
from tests.support.scripted_runs import Run, configured

RETRIED = pytest.mark.fault("Crash and resume", "a stage that fails after a committed fact, and is tried again")
CALLS = st.sets(st.integers(1, 24), max_size=12)


@dataclass
class FailingJudge(Judge):
    """The machine fails at the evaluations with these numbers, from 1."""

    fails: frozenset[int] = frozenset()
    programs: list[str] = field(default_factory=list[str])

    async def run(self, request: EvaluationRequest) -> Evaluation:
        found = await Judge.run(self, request)
        lost = len(self.programs) in self.fails
        return Evaluation("infrastructure_error", None, 0.0, "the machine failed") if lost else found


def assert_each_answer_is_kept_once(run: Run) -> None:
    assert run.state == "done"
    assert run.rows(UNEVEN) == []
    assert run.rows(UNPAID) == [(0,)]


@RETRIED
def test_a_service_that_fails_between_two_answers_is_asked_for_the_second_one(tmp_path: Path) -> None:
    """The first three calls pause the stage. The fifth is the repair of the fourth's answer."""
    chat = Failing(clumsy, fails=frozenset({1, 2, 3, 5}))
    run = Run(tmp_path, configured(stop__candidates=6), chat).live()
    assert_each_answer_is_kept_once(run)
    assert run.rows("select kind from faults where kind = 'stage_paused'") == [("stage_paused",)]


@RETRIED
@pytest.mark.long
@examples(max_examples=10)
@given(chat=CALLS, judge=CALLS, advise=CALLS, learn=CALLS, publish=CALLS, fresh=st.integers(0, 3))
def test_any_stage_may_fail_at_any_call(
    chat: set[int], judge: set[int], advise: set[int], learn: set[int], publish: set[int], fresh: int
) -> None:
    fails = {"advise": advise, "learn": learn, "publish": publish, "evaluate": judge}
    few = {"search__threads": 2, "learner__group_size": 2, "learner__k": 1, "stop__candidates": 8}
    config = configured(**few, faults__patience_s=1e6, faults__max_aborted=1000, evaluation__fresh_seeds=fresh)
    with TemporaryDirectory() as folder:
        run = Run(Path(folder), config, Failing(clumsy, fails=frozenset(chat)))
        run.judge = FailingJudge(fails=frozenset(judge))
        run.world.fails = lambda name, number: number in fails.get(name, ())
        whole = run.live()
        assert_each_answer_is_kept_once(whole)
        again = Run(Path(folder) / "again", config, Failing(clumsy, fails=frozenset(chat)))
        again.judge = FailingJudge(fails=frozenset(judge))
        again.world.fails = lambda name, number: number in fails.get(name, ())
        again.folder.mkdir()
        again.live(whole.commits // 2)
        assert_each_answer_is_kept_once(again.live())
