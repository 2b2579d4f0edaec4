"""A score is kept whatever an evaluator returns or prints beside it, and whatever its program leaves running."""

import decimal
import fractions
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pace_async.evaluate.sandbox.inside.python_evaluator import LONGEST_ARTIFACTS, artifacts_text, metrics_text
from pace_async.evaluate.scorer.scorer_process import read_score
from pace_async.evaluate.scorer.strict_json import Invalid
from pace_async.peers.openevolve_path.openevolve import pace_run
from pace_async.peers.shinka_path.shinka.core.wrap_eval import save_json_results
from tests.doubles.evaluators import scored
from tests.support.command_tasks import make_python_task
from tests.support.evaluating import evaluating
from tests.support.examples import OPENEVOLVE, example

linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


class Unprintable:
    """A value whose text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def itself() -> list[Any]:
    """A list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


ODD: dict[Any, Any] = {
    "tuples": {(0, 1): 0.5},
    "itself": itself(),
    "unprintable": Unprintable(),
    "bytes": b"\xff\x00",
    "surrogate": "half \ud83d",
    "array": np.arange(3),
    "nan": math.nan,
    ("a", 1): "a name that is no text",
    "long": "x" * 200_000,
}


@pytest.mark.parametrize(
    "number",
    [
        *(np.float32(0.5), np.float64(0.5), np.int64(3), np.uint8(3), np.array(0.5), np.array([0.5]), np.float16(0.5)),
        *(torch.tensor(0.5), torch.tensor([3]), decimal.Decimal("0.5"), fractions.Fraction(1, 2), 3, 0.5),
        *(np.longdouble(0.5), torch.nn.Parameter(torch.tensor([0.5])), torch.tensor(0.5, dtype=torch.bfloat16)),
    ],
    ids=lambda number: f"{type(number).__module__}.{type(number).__name__}",
)
def test_a_number_of_any_library_is_a_score(number: Any, tmp_path: Path) -> None:
    expected = float(number.item() if hasattr(number, "item") else number)
    assert read_score({"score": number, "n": number}) == (expected, {"n": expected})
    assert json.loads(metrics_text({"combined_score": number}))["combined_score"] == expected
    save_json_results(str(tmp_path), {"combined_score": number}, True)
    assert json.loads((tmp_path / "metrics.json").read_text())["combined_score"] == expected


@pytest.mark.parametrize(
    "value", [math.nan, np.float32("inf"), 10**400, decimal.Decimal("NaN"), decimal.Decimal("sNaN")]
)
def test_a_score_that_is_not_finite_is_the_programs(value: Any) -> None:
    with pytest.raises(Invalid, match="is not a finite number") as refused:
        read_score({"score": value})
    assert not refused.value.raised


@pytest.mark.parametrize("value", ["0.5", None, [0.5], np.arange(2), True, 1j])
def test_a_score_that_is_no_number_is_the_evaluators_mistake(value: Any) -> None:
    with pytest.raises(Invalid, match=r"score is .*, not a number") as refused:
        read_score({"score": value})
    assert refused.value.raised


def test_artifacts_of_any_kind_are_texts_and_fit() -> None:
    said = json.loads(artifacts_text({**ODD, **{f"log {number}": "y" * 40_000 for number in range(5)}}))
    assert said["tuples"] == "{(0, 1): 0.5}"
    assert "text fails" in said["unprintable"]
    assert "characters left out" in said["long"]
    assert len(artifacts_text({f"log {number}": "y" * 40_000 for number in range(500)})) < 10 * LONGEST_ARTIFACTS
    assert json.loads(artifacts_text({"hint": "raise it", "trace": "step\n" * 30_000}))["hint"] == "raise it"


def test_metrics_of_any_kind_leave_the_score() -> None:
    assert json.loads(metrics_text({**ODD, "combined_score": np.float32(0.5)}))["combined_score"] == 0.5


@linux
async def test_a_thread_that_never_ends_and_seven_megabytes_of_prints_cost_no_score(tmp_path: Path) -> None:
    evaluator = """
        import sys, threading
        def evaluate(program):
            threading.Thread(target=threading.Event().wait).start()
            print("epoch\\n" * 1_200_000)
            print("warning\\n" * 600_000, file=sys.stderr)
            return {"combined_score": 2, "odd": {(0, 1): 3}}
    """
    async with evaluating(make_python_task(tmp_path / "any", evaluator, "x = 1\n")) as one:
        found = await scored(one, "x = 1\n")
    assert (found.outcome, found.score) == ("ok", 2.0), found


def test_an_imported_example_keeps_its_score_beside_odd_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = example(tmp_path / "any", OPENEVOLVE)
    (folder / "evaluator.py").write_text(
        "class Found:\n    metrics = {'combined_score': 0.5}\n"
        "    artifacts = {'cases': {(0, 1): 2}, 'log': 'x' * 400_000, 'hint': 'raise it', 'huge': 10**5000}\n"
        "def evaluate(path):\n    return Found()\n"
    )
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "evaluation_module", raising=False)
    pace_run.main(["evaluator.py", "initial_program.py", str(tmp_path / "results"), "full"])
    assert json.loads((tmp_path / "results" / "metrics.json").read_text())["combined_score"] == 0.5
    shown = json.loads((tmp_path / "results" / "artifacts.json").read_text())
    assert (shown["cases"], shown["hint"]) == ("{(0, 1): 2}", "raise it")
    assert (tmp_path / "results" / "artifacts.json").stat().st_size <= pace_run.MOST
