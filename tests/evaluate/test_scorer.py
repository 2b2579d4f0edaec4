"""The scorer takes only strict JSON and finite scores, and its death or silence is never the candidate's fault."""

import json
import math
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate.scorer.scorer_client import Bounds, Outputs, OverBound, Scorer
from pace_async.evaluate.scorer.scorer_process import read_score
from pace_async.evaluate.scorer.strict_json import Invalid, parse
from tests.support.evaluate_tasks import make_task

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_plain_json_is_parsed_as_it_is(value: object) -> None:
    assert parse(json.dumps(value).encode()) == value


@pytest.mark.fault("Sandbox", "NaN, infinity and 1e999")
@pytest.mark.fault("Sandbox", "nested a hundred thousand deep")
@pytest.mark.parametrize(
    "text",
    [
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"[1e999]",
        b"[-1e999]",
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 40 + b"]" * 40,
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b"9" * 100_000,
        b"\xff",
        b"[1] [2]",
        b"",
        b"{'a': 1}",
    ],
    ids=lambda text: text[:12].decode("latin-1") or "empty",
)
def test_text_that_is_not_strict_json_is_refused(text: bytes) -> None:
    with pytest.raises(Invalid):
        parse(text)


@pytest.mark.fault("Sandbox", 'true and "1.0" for a score')
@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, True, "1.0", None, [1.0], 1j], ids=repr)
def test_a_score_that_is_not_a_finite_number_is_refused(score: object) -> None:
    with pytest.raises(Invalid):
        read_score({"score": score})
    with pytest.raises(Invalid):
        read_score({"score": 1.0, "metric": score})


@pytest.mark.parametrize("result", [1.0, {}, {"metric": 1.0}, [], None], ids=repr)
def test_a_result_without_a_score_is_refused(result: object) -> None:
    with pytest.raises(Invalid):
        read_score(result)


def test_metrics_come_beside_the_score() -> None:
    assert read_score({"score": 1, "speed": 2.5}) == (1.0, {"speed": 2.5})


async def test_instances_and_scores_of_a_seed_stay_the_same_whatever_score_changes(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "spoiler",
        """
        def instances(seed):
            return [[seed]]
        def score(instances, outputs):
            instances[0].append(1)
            print("a line on standard output")
            return {"score": len(instances[0])}
        """,
    )
    async with Scorer(task.folder / "evaluator.py", tmp_path / "log") as scorer:
        assert await scorer.instances(5) == ["[5]"]
        assert [(await scorer.score(Outputs(5, [b"0"]))).score for _ in range(3)] == [2.0, 2.0, 2.0]
    assert "a line on standard output" in await anyio.Path(tmp_path / "log").read_text()


@pytest.mark.fault("Sandbox", 'true and "1.0" for a score')
@pytest.mark.fault("Sandbox", "outputs missing or too many")
@pytest.mark.parametrize(
    ("outputs", "why"),
    [
        ([b"1", b"2"], "there must be one output for each of the 3 instances"),
        ([b"1", b"2", b"3", b"4"], "there must be one output for each of the 3 instances"),
        ([], "there must be one output for each of the 3 instances"),
        ([b"1", b"2", b'"3"'], "each output must be a number"),
        ([b"1", b"2", b"true"], "each output must be a number"),
        ([b"1e308", b"1e308", b"1e308"], "score is not a finite number: inf"),
        ([b"5e307", b"5e307", b"5e307"], "score is not between -1e+308 and 1e+308"),
        ([b"1", b"2", b"NaN"], "the output is not JSON: NaN is not allowed"),
    ],
)
async def test_outputs_that_are_not_allowed_are_invalid_and_say_why(
    tmp_path: Path, outputs: list[bytes], why: str
) -> None:
    async with Scorer(make_task(tmp_path / "sum").folder / "evaluator.py", tmp_path / "log") as scorer:
        scored = await scorer.score(Outputs(0, outputs))
        assert (scored.score, scored.invalid) == (None, why)
        assert (await scorer.score(Outputs(0, [b"1", b"2", b"3"]))).score == 6.0


async def test_an_output_of_the_wrong_shape_is_invalid_where_the_evaluator_forgot_to_check(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "careless",
        "def instances(seed): return [0]\ndef score(instances, outputs): return {'score': outputs[0]['x']['y']}",
    )
    async with Scorer(task.folder / "evaluator.py", tmp_path / "log") as scorer:
        assert (await scorer.score(Outputs(0, [b'{"x": 1}']))).invalid.startswith("TypeError")


async def test_a_scorer_that_dies_is_started_again(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "mortal",
        """
        import os
        def instances(seed):
            return [seed]
        def score(instances, outputs):
            if outputs[0] == "die":
                os._exit(1)
            return {"score": outputs[0]}
        """,
    )
    async with Scorer(task.folder / "evaluator.py", tmp_path / "log") as scorer:
        with pytest.raises(InfrastructureFault, match="scorer_died"):
            await scorer.score(Outputs(0, [b'"die"']))
        assert (await scorer.score(Outputs(0, [b"4"]))).score == 4.0


async def test_a_scorer_that_hangs_is_ended_and_its_late_answer_never_read(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "slow",
        """
        import time
        def instances(seed):
            return [seed]
        def score(instances, outputs):
            if outputs[0] < 0:
                time.sleep(60)
            return {"score": outputs[0]}
        """,
    )
    async with Scorer(task.folder / "evaluator.py", tmp_path / "log", Bounds(1024, seconds=1.0)) as scorer:
        with pytest.raises(OverBound, match="scorer_timeout"):
            await scorer.score(Outputs(0, [b"-1"]))
        assert (await scorer.score(Outputs(0, [b"4"]))).score == 4.0


async def test_a_request_that_is_cancelled_does_not_mix_up_the_next(tmp_path: Path) -> None:
    async with Scorer(make_task(tmp_path / "sum").folder / "evaluator.py", tmp_path / "log") as scorer:
        async with anyio.create_task_group() as tg:
            tg.start_soon(scorer.score, Outputs(0, [b"1", b"1", b"1"]))
            await anyio.wait_all_tasks_blocked()
            tg.cancel_scope.cancel()
        assert (await scorer.score(Outputs(0, [b"1", b"2", b"3"]))).score == 6.0


@pytest.mark.parametrize(
    ("evaluator", "why"),
    [
        ("import no_such_module", "no_such_module"),
        ("def score(:", "SyntaxError"),
        ("def score(i, o): ...", "instances"),
    ],
)
async def test_an_evaluator_that_cannot_be_loaded_is_the_users_mistake(
    tmp_path: Path, evaluator: str, why: str
) -> None:
    task = make_task(tmp_path / "broken", evaluator)
    with pytest.raises(UsageError, match=why):
        async with Scorer(task.folder / "evaluator.py", tmp_path / "log"):
            pass


async def test_the_evaluators_own_failure_is_not_the_candidates(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "leaky",
        "def instances(seed): return [0]\ndef score(instances, outputs): open('/no/such/data')",
    )
    async with Scorer(task.folder / "evaluator.py", tmp_path / "log") as scorer:
        with pytest.raises(InfrastructureFault, match="FileNotFoundError"):
            await scorer.score(Outputs(0, [b"0"]))
