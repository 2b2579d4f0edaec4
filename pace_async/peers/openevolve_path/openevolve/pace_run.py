"""Runs an OpenEvolve example's evaluator on one program and writes what it found for pace.

    python -m openevolve.pace_run EVALUATOR PROGRAM RESULTS STAGE --functions evaluate_stage1,evaluate_stage2

The functions are the stages in their order. A stage is named stage1, stage2, …, and `full` is the last of them. The
working folder is the evaluator's, and it can import what lies beside it.

RESULTS gets `metrics.json` (the finite numbers, and `mean_of_metrics` where the evaluator gives no combined_score) and
`artifacts.json` (artifacts, and metrics that are not finite numbers, as texts, the long ones cut). Nothing that was
returned beside a score costs the score, and neither does a thread that the program left.
"""

import argparse
import asyncio
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from .utils.metrics_utils import COMBINED, finite, get_fitness_score

MEAN_OF_METRICS = "mean_of_metrics"
FULL = "full"
LONGEST, MOST = 32 << 10, 96 << 10
"""Characters of one artifact, and of all of them together as JSON."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Raises what the evaluator raises. Ends with exit code 1 and a sentence for a program that is too long."""
    options = _parsed(arguments)
    program, results = Path(options.program).resolve(), Path(options.results).resolve()
    length = len(program.read_text(encoding="utf-8", errors="replace"))
    if options.most and length > options.most:
        sys.exit(f"the program has {length} characters, and max_code_length allows {options.most}")
    evaluator = Path(options.evaluator).resolve()
    os.chdir(evaluator.parent)
    functions = str(options.functions).split(",")
    module = _loaded(evaluator)
    if options.stage == FULL:
        metrics, artifacts = _call(module, functions[-1], program, json.loads(options.arguments))
        if COMBINED not in metrics and len(functions) > 1:
            earlier: dict[str, Any] = {}
            for name in functions[:-1]:
                earlier.update(_call(module, name, program)[0])
            metrics = {**earlier, **metrics}
    else:
        metrics, artifacts = _call(module, functions[int(options.stage.removeprefix("stage")) - 1], program)
    features = [name for name in str(options.features).split(",") if name]
    numbers = {name: number for name, value in metrics.items() if (number := finite(value)) is not None}
    if COMBINED not in metrics and numbers:
        numbers[MEAN_OF_METRICS] = get_fitness_score(metrics, features)
    other_metrics = {name: value for name, value in metrics.items() if name not in numbers}
    results.mkdir(parents=True, exist_ok=True)
    _write(results / "metrics.json", json.dumps(numbers))
    _write(results / "artifacts.json", _artifacts({**other_metrics, **artifacts}))


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m openevolve.pace_run")
    for name in ("evaluator", "program", "results", "stage"):
        parser.add_argument(name)
    parser.add_argument("--functions", default="evaluate", help="stages, with commas between them")
    parser.add_argument("--features", default="", help="metrics that do not count in a mean")
    parser.add_argument("--most", type=int, default=0, help="characters that a program may have; 0: any number")
    parser.add_argument("--arguments", default="{}", help="further arguments of evaluate, as a JSON object")
    return parser.parse_args(arguments)


def _loaded(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("evaluation_module", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for what it pickles
    spec.loader.exec_module(module)
    return module


def _call(
    module: ModuleType, name: str, program: Path, further: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(metrics, artifacts). Raises TypeError if it returns neither a mapping nor an EvaluationResult."""
    result = getattr(module, name)(str(program), **(further or {}))
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    metrics: Any = getattr(result, "metrics", result)
    artifacts: Any = getattr(result, "artifacts", None) or {}
    if not isinstance(metrics, Mapping) or not isinstance(artifacts, Mapping):
        raise TypeError(f"{name} returned {type(result).__name__}, and neither a dict nor an EvaluationResult")
    return dict(cast("Mapping[str, Any]", metrics)), dict(cast("Mapping[str, Any]", artifacts))


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _artifacts(artifacts: Mapping[Any, Any]) -> str:
    """The artifacts as JSON. Numbers and truth values stay, and anything else is a text."""
    texts = {str(name): value if _is_short(value) else _text(value) for name, value in artifacts.items()}
    most = LONGEST
    while len(document := json.dumps({name: _cut(entry, most) for name, entry in texts.items()})) > MOST and most:
        most //= 2
    return document


def _is_short(value: Any) -> bool:
    """Whether it is a number that JSON writes: Python writes no whole number of thousands of digits."""
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 64)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except Exception:  # keys that JSON does not have, or a value that holds itself
        return _text_of(value)


def _text_of(value: object) -> str:
    """A value as text, whatever its class makes of that."""
    try:
        return str(value)
    except Exception as error:
        return f"a {type(value).__name__}, whose text fails with {type(error).__name__}"


def _cut(value: Any, most: int) -> Any:
    """A text without its middle, which a note stands for."""
    if not isinstance(value, str) or len(value) <= most:
        return value
    half = most // 2
    return f"{value[:half]}\n… {len(value) - 2 * half} characters left out …\n{value[len(value) - half :]}"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="replace")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
