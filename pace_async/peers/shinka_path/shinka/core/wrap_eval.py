"""`run_shinka_eval`: runs a function of a program several times, checks each result, and writes two files.

The parameters, the files and the entries of the metrics are those of ShinkaEvolve 0.0.7. `metrics.json` holds what the
evaluator's aggregation returns, with times and counts. `correct.json` holds {"correct": …, "error": …}.
"""

import importlib.util
import json
import math
import numbers
import pickle
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from types import ModuleType
from typing import Any, cast

from ..utils.eval_stop import EarlyStopDecision, EarlyStopMethod, create_early_stop_method

AFTER_A_FAILURE: Mapping[str, Any] = {
    "combined_score": 0.0,
    "execution_time_mean": 0.0,
    "execution_time_std": 0.0,
    "num_successful_runs": 0,
    "num_valid_runs": 0,
    "num_invalid_runs": 0,
    "all_validation_errors": [],
}
DEFAULT_METRICS_ON_ERROR = dict(AFTER_A_FAILURE)

Kwargs = Callable[[int], dict[str, Any]]
Validate = Callable[[Any], tuple[bool, str | None]]


@dataclass
class _Stopping:
    """When a series of runs ends early. `last` is the last decision."""

    method: EarlyStopMethod
    threshold: float
    score: Callable[[Any], float] | None
    scores: list[float] = field(default_factory=list[float])
    last: EarlyStopDecision | None = None

    def after(self, result: Any) -> bool:
        """Whether to stop after this result. A result without a score decides nothing."""
        score = _score_of(result, self.score)
        if score is None:
            return False
        self.scores.append(score)
        self.last = self.method.check(self.scores, self.threshold)
        return self.last.should_stop

    def facts(self, done: int, total: int) -> dict[str, Any]:
        """What metrics.json says of it."""
        last = self.last
        return {
            "method": self.method.name,
            "threshold": self.threshold,
            "triggered": last is not None and last.should_stop,
            "runs_completed": done,
            "runs_requested": total,
            "prediction": last.prediction if last is not None else "uncertain",
            "confidence": last.confidence if last is not None else 0.0,
            "reason": last.reason if last is not None else None,
            "scores": self.scores,
        }


@dataclass
class _Runs:
    """What the runs gave. `invalid` are the messages of those that are not valid."""

    results: list[Any] = field(default_factory=list[Any])
    seconds: list[float] = field(default_factory=list[float])
    valid: int = 0
    invalid: list[str | None] = field(default_factory=list[str | None])

    def add(self, result: Any, seconds: float, validate: Validate | None) -> None:
        """Keep one run, checked."""
        self.results.append(result)
        self.seconds.append(seconds)
        if validate is not None:
            is_valid, message = validate(result)
            if is_valid:
                self.valid += 1
            else:
                self.invalid.append(message)

    @property
    def messages(self) -> list[str]:
        """The different messages, in their order."""
        return list(dict.fromkeys(message for message in self.invalid if message))


def run_shinka_eval(
    program_path: str,
    results_dir: str,
    experiment_fn_name: str,
    num_runs: int,
    get_experiment_kwargs: Kwargs | None = None,
    aggregate_metrics_fn: Callable[[list[Any]], dict[str, Any]] | None = None,
    validate_fn: Validate | None = None,
    plotting_fn: Callable[[Any], list[Any]] | None = None,
    default_metrics_on_error: Mapping[str, Any] | None = None,
    early_stop_method: str | EarlyStopMethod | None = None,
    early_stop_threshold: float | None = None,
    early_stop_score_fn: Callable[[Any], float] | None = None,
    early_stop_kwargs: Mapping[str, Any] | None = None,
    run_workers: int = 1,
    max_workers_cap: int | None = None,
) -> tuple[dict[str, Any], bool, str | None]:
    """(metrics, whether all runs are valid, the first error). Without `get_experiment_kwargs` a run gets its number,
    from 1, as `seed`. An exception of the program is an error, and the metrics are those after a failure. Plots are not
    drawn. Raises ValueError for settings that do not fit together."""
    workers = _workers(num_runs, run_workers, max_workers_cap)
    stopping = _stopping(early_stop_method, early_stop_threshold, early_stop_score_fn, early_stop_kwargs)
    if workers > 1 and stopping is not None:
        raise ValueError("a series of runs stops early only with run_workers=1")
    arguments: Kwargs = get_experiment_kwargs or (lambda number: {"seed": number + 1})
    runs = _Runs()
    error: str | None = None
    try:
        if workers > 1:
            _in_parallel(runs, program_path, experiment_fn_name, (num_runs, workers), arguments, validate_fn)
        else:
            _in_order(runs, _function(program_path, experiment_fn_name), num_runs, arguments, validate_fn, stopping)
        metrics = _metrics(runs, aggregate_metrics_fn, validate_fn is not None)
        if stopping is not None:
            metrics["early_stop"] = stopping.facts(len(runs.results), num_runs)
        error = _wrong(runs, metrics)
        correct = not runs.invalid and error is None
    except Exception as raised:
        print(f"Evaluation error: {raised}")
        metrics = {**AFTER_A_FAILURE, **_known_metrics(default_metrics_on_error)}
        correct, error = False, str(raised)
    _keep_extra(metrics, Path(results_dir))
    save_json_results(results_dir, metrics, correct, error)
    return metrics, correct, error


def save_json_results(results_dir: str, metrics: Mapping[str, Any], correct: bool, error: str | None = None) -> None:
    """Write both files."""
    folder = Path(results_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in (("correct", {"correct": correct, "error": error}), ("metrics", metrics)):
        text = json.dumps(value, indent=4, default=_plain, skipkeys=True)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


def load_program(program_path: str) -> ModuleType:
    """The program as a module. Raises what its code raises, and ImportError for a file that is not Python."""
    spec = importlib.util.spec_from_file_location("program", program_path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{program_path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _function(program_path: str, name: str) -> Callable[..., Any]:
    function = getattr(load_program(program_path), name, None)
    if function is None:
        raise AttributeError(f"Experiment function '{name}' not found in {program_path}")
    return function


def _workers(runs: int, workers: int, cap: int | None) -> int:
    if workers < 1 or (cap is not None and cap < 1):
        raise ValueError("run_workers and max_workers_cap must be 1 or more")
    return max(1, min(runs, workers, workers if cap is None else cap))


def _stopping(
    method: str | EarlyStopMethod | None,
    threshold: float | None,
    score: Callable[[Any], float] | None,
    settings: Mapping[str, Any] | None,
) -> _Stopping | None:
    if method is None:
        return None
    if threshold is None:
        raise ValueError("early_stop_method needs an early_stop_threshold")
    rule = create_early_stop_method(method, **dict(settings or {})) if isinstance(method, str) else method
    rule.reset()
    return _Stopping(rule, threshold, score)


def _in_order(
    runs: _Runs,
    function: Callable[..., Any],
    count: int,
    arguments: Kwargs,
    validate: Validate | None,
    stopping: _Stopping | None,
) -> None:
    for number in range(count):
        keywords = arguments(number)
        began = time.perf_counter()
        result = function(**keywords)
        runs.add(result, time.perf_counter() - began, validate)
        if stopping is not None and stopping.after(result):
            break


def _in_parallel(
    runs: _Runs, program: str, name: str, sizes: tuple[int, int], arguments: Kwargs, validate: Validate | None
) -> None:
    """`sizes` are the runs and the processes."""
    count, workers = sizes
    with ProcessPoolExecutor(workers) as pool:
        futures = [pool.submit(_timed_result, program, name, arguments(number)) for number in range(count)]
        for number, future in enumerate(futures):
            try:
                result, seconds = future.result()
            except Exception as error:
                raise RuntimeError(f"Run {number + 1}/{count} failed in parallel evaluation: {error}") from error
            runs.add(result, seconds, validate)


def _timed_result(program: str, name: str, keywords: Mapping[str, Any]) -> tuple[Any, float]:
    function = _function(program, name)
    began = time.perf_counter()
    result = function(**keywords)
    return result, time.perf_counter() - began


def _metrics(runs: _Runs, aggregate: Callable[[list[Any]], dict[str, Any]] | None, validated: bool) -> dict[str, Any]:
    if aggregate is not None:
        metrics = aggregate(runs.results)
    else:
        first = runs.results[:1]
        metrics: dict[str, Any] = {
            "num_successful_runs": len(runs.results),
            "first_run_result_type": str(cast("object", type(first[0]))) if first else "N/A",
            "raw_results_preview": str(runs.results[:2]) if first else "N/A",
        }
    metrics["execution_time_mean"] = fmean(runs.seconds) if runs.seconds else 0.0
    metrics["execution_time_std"] = pstdev(runs.seconds) if runs.seconds else 0.0
    if validated:
        metrics["num_valid_runs"] = runs.valid
        metrics["num_invalid_runs"] = len(runs.invalid)
        metrics["all_validation_errors"] = runs.messages
    return metrics


def _wrong(runs: _Runs, metrics: Mapping[str, Any]) -> str | None:
    """The first error of runs that ended: one that is not valid, or a score that is not finite."""
    if runs.messages:
        return f"Validation failed: {runs.messages[0]}"
    score = metrics.get("combined_score", 0.0)
    return None if math.isfinite(score) else f"combined_score is {score}"


def _known_metrics(metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (metrics or {}).items() if name in AFTER_A_FAILURE}


def _score_of(result: Any, score: Callable[[Any], float] | None) -> float | None:
    if score is not None:
        try:
            return score(result)
        except Exception as error:
            print(f"early_stop_score_fn failed: {error}")
            return None
    if isinstance(result, Mapping):
        result = cast("Mapping[str, Any]", result).get("score")
    return float(result) if isinstance(result, int | float) else None


def _keep_extra(metrics: dict[str, Any], folder: Path) -> None:
    if "extra_data" in metrics:
        folder.mkdir(parents=True, exist_ok=True)
        extra = metrics.pop("extra_data")
        try:
            (folder / "extra.pkl").write_bytes(pickle.dumps(extra))
        except Exception as error:
            print(f"extra_data cannot be written: {error}")


def _plain(value: Any) -> Any:
    """What JSON has instead of numpy's values."""
    for method in ("item", "tolist"):
        if hasattr(value, method):
            try:
                plain = getattr(value, method)()
            except (TypeError, ValueError, RuntimeError):
                continue
            if type(plain) is not type(value):
                return plain
    try:
        return float(cast("Any", value)) if isinstance(value, numbers.Number) else str(value)
    except (TypeError, ValueError):
        return str(value)
