"""Calls an evaluator that is a Python function with the path of a program, and writes what it returns as JSON.

Run as a script, in the sandbox of a command task: FILE FUNCTION PROGRAM RESULTS. The function returns a mapping of
metrics, or an object with `metrics` and, if it likes, `artifacts`. Both are written to the folder of results, as
metrics.json and artifacts.json.
"""

import importlib.util
import inspect
import json
import os
import sys
from typing import Any, cast

LONGEST_ARTIFACT = 32 << 10


def main(file: str, function: str, program: str, results: str) -> None:
    """Raises what the evaluator raises. Ends with a sentence if it has no such function, or returned something else."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))  # noqa: PTH100, PTH120
    sys.argv = [file]
    spec = importlib.util.spec_from_file_location("evaluator", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluator"] = module
    spec.loader.exec_module(module)
    evaluate = getattr(module, function, None)
    if not callable(evaluate):
        sys.exit(f"{os.path.basename(file)} defines no function {function}")  # noqa: PTH119
    returned: Any = evaluate(program)
    if inspect.iscoroutine(returned):
        import asyncio

        returned = asyncio.run(returned)
    metrics: Any = cast("Any", returned) if isinstance(returned, dict) else getattr(returned, "metrics", None)
    if not isinstance(metrics, dict):
        sys.exit(
            f"{function} returned {type(cast('Any', returned)).__name__}: neither a mapping nor an object with metrics"
        )
    _write(f"{results}/metrics.json", cast("Any", metrics))
    artifacts: Any = None if isinstance(returned, dict) else getattr(returned, "artifacts", None)
    if isinstance(artifacts, dict) and artifacts:
        shown = {str(name): _text(value) for name, value in cast("dict[Any, Any]", artifacts).items()}
        _write(f"{results}/artifacts.json", shown)


def _write(path: str, value: Any) -> None:
    with open(path, "w", encoding="utf-8") as stream:  # noqa: PTH123
        json.dump(value, stream, default=_as_json, skipkeys=True)


def _as_json(value: Any) -> Any:
    """numpy's and torch's scalars and arrays as numbers and lists, anything else as a text."""
    for name in ("tolist", "item"):
        convert = getattr(value, name, None)
        if callable(convert):
            return convert()
    return str(value)[:LONGEST_ARTIFACT]


def _text(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    text = text if isinstance(text, str) else json.dumps(text, default=_as_json, skipkeys=True)
    if len(text) <= LONGEST_ARTIFACT:
        return text
    half = LONGEST_ARTIFACT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


if __name__ == "__main__":
    main(*sys.argv[1:])
