"""Calls an evaluator that is a Python function with the path of a program, and writes what it returns as JSON.

Run as a script, in the sandbox of a command task: FILE FUNCTION PROGRAM RESULTS. The function returns a mapping of
metrics, or an object with `metrics` and, if it likes, `artifacts`. Both are written to the folder of results, as
metrics.json and artifacts.json.

Invariant: nothing that was returned beside a score costs the score. What JSON cannot hold is written as text, and what
is too long is cut. The process ends as soon as both files are there, whatever threads the program left.
"""

import importlib.util
import inspect
import json
import numbers
import os
import sys
from typing import Any, cast

LONGEST_ARTIFACT = 32 << 10
LONGEST_METRICS = 96 << 10
"""Characters of metrics.json. Beyond them its long entries are cut."""
LONGEST_ARTIFACTS = 96 << 10


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
    _write(f"{results}/metrics.json", metrics_text(cast("Any", metrics)))
    artifacts: Any = None if isinstance(returned, dict) else getattr(returned, "artifacts", None)
    if isinstance(artifacts, dict) and artifacts:
        _write(f"{results}/artifacts.json", artifacts_text(cast("dict[Any, Any]", artifacts)))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def metrics_text(metrics: "dict[Any, Any]") -> str:
    """The metrics as JSON."""
    parts = {str(name): _json(_number(value)) for name, value in metrics.items()}
    if sum(map(len, parts.values())) > LONGEST_METRICS:
        most = LONGEST_METRICS // (2 * len(parts))
        parts = {
            name: text if len(text) <= most else json.dumps(cut_middle(text, most)) for name, text in parts.items()
        }
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in parts.items()) + "}"


def artifacts_text(artifacts: "dict[Any, Any]") -> str:
    """The artifacts as JSON, each a text."""
    texts = {str(name): _text(value) for name, value in artifacts.items()}
    most = LONGEST_ARTIFACT
    while (
        len(document := json.dumps({name: cut_middle(text, most) for name, text in texts.items()})) > LONGEST_ARTIFACTS
        and most
    ):
        most //= 2
    return document


def cut_middle(text: str, most: int) -> str:
    """The text without its middle, which a note stands for."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[len(text) - half :]}"


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
        stream.write(text)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, default=_as_json)
    except (TypeError, ValueError, OverflowError, RecursionError):  # such as a key that JSON does not have
        return json.dumps(_text_of(value))


def _number(value: Any) -> Any:
    """A number of any library as Python's own, also that of an array of one. Any other value as it is."""
    try:
        item = value.item() if callable(getattr(value, "item", None)) else value
        is_foreign = isinstance(item, numbers.Number) and not isinstance(item, (int, float))
        return float(cast("Any", item)) if is_foreign else item
    except Exception:
        return value


def _as_json(value: Any) -> Any:
    """numpy's and torch's scalars and arrays as numbers and lists, anything else as a text."""
    for name in ("tolist", "item"):
        convert = getattr(value, name, None)
        if callable(convert):
            return convert()
    return _text_of(value)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=_as_json)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _text_of(value)


def _text_of(value: Any) -> str:
    """A value as text, whatever its class makes of that."""
    try:
        return str(value)[:LONGEST_ARTIFACT]
    except Exception as error:
        return f"a {type(value).__name__}, whose text fails with {type(error).__name__}"


if __name__ == "__main__":
    main(*sys.argv[1:])
