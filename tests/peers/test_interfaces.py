"""The interfaces that evaluators import do what those of OpenEvolve 0.4.0 and ShinkaEvolve 0.0.7 do."""

import json
import math
from pathlib import Path
from textwrap import dedent

import pytest

from pace_async.peers.openevolve_path.openevolve import pace_run as run_openevolve
from pace_async.peers.openevolve_path.openevolve.evaluation_result import EvaluationResult
from pace_async.peers.openevolve_path.openevolve.utils.metrics_utils import get_fitness_score
from pace_async.peers.shinka_path.shinka import pace_run as run_shinka
from pace_async.peers.shinka_path.shinka.core import run_shinka_eval
from pace_async.peers.shinka_path.shinka.utils import load_results, parse_time_to_seconds
from pace_async.peers.shinka_path.shinka.utils.eval_stop import create_early_stop_method


@pytest.mark.parametrize(
    ("metrics", "features", "fitness"),
    [
        ({"combined_score": 0.5, "a": 9}, (), 0.5),
        ({"a": 1.0, "b": 3.0, "error": "text", "timeout": True}, (), 2.0),
        ({"a": 1.0, "b": 3.0}, ("b",), 1.0),
        ({"b": 3.0}, ("b",), 3.0),
        ({"a": math.nan, "b": 4.0}, (), 4.0),
        ({}, (), 0.0),
    ],
)
def test_fitness_is_the_combined_score_or_a_mean(
    metrics: dict[str, object], features: tuple[str, ...], fitness: float
) -> None:
    assert get_fitness_score(metrics, features) == fitness


def test_an_infinite_metric_is_left_out_of_a_mean() -> None:
    assert get_fitness_score({"error_sum": math.inf, "share": 0.0}) == 0.0


def test_a_result_knows_the_size_of_its_artifacts() -> None:
    found = EvaluationResult({"a": 1.0}, {"text": "äb", "bytes": b"123", "number": 12})
    assert (found.has_artifacts(), found.get_artifact_keys()) == (True, ["text", "bytes", "number"])
    assert (found.get_artifact_size("text"), found.get_artifact_size("none")) == (3, 0)
    assert found.get_total_artifact_size() == 8
    assert EvaluationResult.from_dict({"a": 1.0}).to_dict() == {"a": 1.0}


def evaluated(folder: Path, evaluator: str, stage: str = "full", *further: str) -> dict[str, object]:
    """What an OpenEvolve evaluator leaves, one mapping of both files."""
    (folder / "evaluator.py").write_text(dedent(evaluator))
    (folder / "program.py").write_text("x = 1\n")
    places = [str(folder / name) for name in ("evaluator.py", "program.py", "results")]
    run_openevolve.main([*places, stage, *further])
    return {name: json.loads((folder / "results" / f"{name}.json").read_text()) for name in ("metrics", "artifacts")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose evaluator may change the working folder, the import path and the loaded modules."""
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    return tmp_path


def test_an_evaluator_may_be_a_coroutine_and_return_numbers_of_numpy(folder: Path) -> None:
    found = evaluated(
        folder,
        """
        import numpy as np
        async def evaluate(path):
            return {"combined_score": np.float32(0.5), "steps": np.int64(3), "note": "slow", "bad": float("inf")}
        """,
    )
    assert found["metrics"] == {"combined_score": 0.5, "steps": 3.0}
    assert found["artifacts"] == {"note": "slow", "bad": math.inf}


def test_the_last_stage_gives_the_score_and_lacks_what_only_an_earlier_one_has(folder: Path) -> None:
    evaluator = """
        def evaluate_stage1(path):
            return {"combined_score": 0.2, "first": 1}
        def evaluate_stage2(path):
            return {"second": 2}
        """
    functions = ("--functions", "evaluate_stage1,evaluate_stage2")
    assert evaluated(folder, evaluator, "stage1", *functions)["metrics"] == {"combined_score": 0.2, "first": 1.0}
    merged = evaluated(folder, evaluator, "full", *functions)["metrics"]
    assert merged == {"combined_score": 0.2, "first": 1.0, "second": 2.0}


def test_without_a_combined_score_there_is_a_mean_without_feature_dimensions(folder: Path) -> None:
    evaluator = "def evaluate(path):\n    return {'a': 1, 'b': 3, 'size': 100}\n"
    found = evaluated(folder, evaluator, "full", "--features", "size")
    assert found["metrics"] == {"a": 1.0, "b": 3.0, "size": 100.0, "mean_of_metrics": 2.0}


def test_an_evaluator_gets_the_further_arguments_of_the_settings(folder: Path) -> None:
    evaluator = """
        def evaluate(program_path, times=1, *, name=""):
            return {"combined_score": 2.0 * times, "name": name}
        """
    found = evaluated(folder, evaluator, "full", "--arguments", '{"times": 3, "name": "a b"}')
    assert found == {"metrics": {"combined_score": 6.0}, "artifacts": {"name": "a b"}}


def test_a_program_that_is_too_long_is_not_evaluated(folder: Path) -> None:
    with pytest.raises(SystemExit, match="6 characters, and max_code_length allows 5"):
        evaluated(folder, "raise RuntimeError('never imported')", "full", "--most", "5")


def test_an_evaluator_that_returns_something_else_is_named(folder: Path) -> None:
    with pytest.raises(TypeError, match="evaluate returned float"):
        evaluated(folder, "def evaluate(path):\n    return 0.5\n")


PROGRAM = "def run(seed):\n    if seed > 3:\n        raise ValueError('too large')\n    return seed * 1.5\n"


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text(PROGRAM)
    return str(tmp_path / "program.py")


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_are_counted_checked_and_aggregated_in_their_order(program: str, tmp_path: Path, workers: int) -> None:
    found = run_shinka_eval(
        *(program, str(tmp_path / "results"), "run", 3),
        validate_fn=lambda result: (result < 4, "four or more"),
        aggregate_metrics_fn=lambda results: {"combined_score": sum(results), "public": {"all": results}},
        run_workers=workers,
    )
    assert found[1:] == (False, "Validation failed: four or more")
    metrics = load_results(str(tmp_path / "results"))
    assert metrics["correct"] == {"correct": False, "error": "Validation failed: four or more"}
    assert metrics["metrics"]["public"] == {"all": [1.5, 3.0, 4.5]}
    assert (metrics["metrics"]["num_valid_runs"], metrics["metrics"]["num_invalid_runs"]) == (2, 1)


def test_an_exception_of_the_program_is_an_error_with_the_metrics_of_a_failure(program: str, tmp_path: Path) -> None:
    metrics, correct, error = run_shinka_eval(program, str(tmp_path / "results"), "run", 4)
    assert (metrics["combined_score"], correct, error) == (0.0, False, "too large")
    missing = run_shinka_eval(program, str(tmp_path / "results"), "other", 1)[2]
    assert missing is not None and missing.startswith("Experiment function 'other' not found")


def test_a_score_that_is_not_finite_is_not_correct(program: str, tmp_path: Path) -> None:
    found = run_shinka_eval(
        program, str(tmp_path / "r"), "run", 1, aggregate_metrics_fn=lambda results: {"combined_score": math.nan}
    )
    assert found[1:] == (False, "combined_score is nan")


def test_a_series_that_cannot_reach_the_threshold_ends_early(program: str, tmp_path: Path) -> None:
    found = run_shinka_eval(
        *(program, str(tmp_path / "r"), "run", 3),
        early_stop_method="bayesian",
        early_stop_threshold=100.0,
        early_stop_kwargs={"min_trials": 2},
    )[0]
    assert found["early_stop"]["runs_completed"] == 2
    assert found["early_stop"]["prediction"] == "fails"
    with pytest.raises(ValueError, match="run_workers=1"):
        run_shinka_eval(
            program, str(tmp_path / "r"), "run", 3, early_stop_method="ci", early_stop_threshold=1.0, run_workers=2
        )


@pytest.mark.parametrize("method", ["bayesian", "ci", "hybrid"])
@pytest.mark.parametrize(("threshold", "prediction"), [(0.5, "beats"), (1.5, "fails"), (1.01, "uncertain")])
def test_every_early_stopping_rule_distinguishes_sure_from_unsure(
    method: str, threshold: float, prediction: str
) -> None:
    if method == "hybrid" and prediction == "beats":
        threshold = 0.2
    found = create_early_stop_method(method).check([0.9, 1.0, 1.1], threshold)
    assert (found.prediction, found.should_stop) == (prediction, prediction != "uncertain")


def test_the_script_is_started_as_shinka_starts_it_and_its_exit_code_does_not_matter(folder: Path) -> None:
    (folder / "evaluate.py").write_text(
        dedent("""
        import argparse, json, os, sys
        parser = argparse.ArgumentParser()
        for name in ("--program_path", "--results_dir", "--more"):
            parser.add_argument(name)
        asked = parser.parse_args()
        for name, value in (
            ("metrics", {"combined_score": 1, "public": {"more": asked.more}}), ("correct", {"correct": True})
        ):
            with open(os.path.join(asked.results_dir, f"{name}.json"), "w") as stream:
                json.dump(value, stream)
        sys.exit(3)
        """)
    )
    places = [str(folder / name) for name in ("evaluate.py", "program.py", "results")]
    assert run_shinka.main(*places, "--more", "7") == 0
    assert (folder / "results" / "feedback.txt").read_text() == "more: 7"
    (folder / "evaluate.py").write_text("# --program_path --results_dir\nraise SystemExit(4)\n")
    assert run_shinka.main(*places[:2], str(folder / "other")) == 4


def test_an_evaluator_without_arguments_is_called_by_its_main(folder: Path) -> None:
    (folder / "evaluate.py").write_text(
        dedent("""
        from pathlib import Path
        def main(program, results):
            (Path(results) / "metrics.json").write_text('{"combined_score": 2}')
            (Path(results) / "correct.json").write_text('{"correct": true}')
        """)
    )
    assert run_shinka.main(*(str(folder / name) for name in ("evaluate.py", "program.py", "results"))) == 0
    assert load_results(str(folder / "results"))["metrics"] == {"combined_score": 2}


def test_times_are_seconds() -> None:
    assert parse_time_to_seconds("01:02:03") == 3723
    with pytest.raises(ValueError, match="hh:mm:ss"):
        parse_time_to_seconds("5:00")
