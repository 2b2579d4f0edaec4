"""The scorer: the one process that loads a task's evaluator. `python -m pace_async.evaluate.scorer EVALUATOR SETTINGS
STAGES`.

It is trusted and long-lived; it never runs a candidate's code, and a candidate never sees its files. Requests and
replies are JSON lines on stdin and stdout; a `score` request is followed by as many bytes as it says, which are a
candidate's outputs, one after the other, each parsed by itself, here and nowhere else, strictly:

    {"op": "instances", "seed": 0, "stage": "full"}     -> {"instances": ["JSON text", ...]}
    {"op": "score", "seed": 0, "lengths": [17], ...}... -> {"score": 1.5, "metrics": {...}} or {"invalid": "why"}

A reply {"fault": "where and why"} means that the evaluator itself failed; with "missing", that a file of the user's is
not there, and what to do about it. "raised" beside "invalid" is where the evaluator raised something else than the
ValueError by which it refuses an output. What the evaluator prints, and its tracebacks, go to standard error. The first
line, unasked, is {"ready": true, "timed": whether `score` takes `seconds`} or a fault. What the evaluator's functions
are given besides their fixed arguments goes by the names of their parameters: `settings`, `seed`, `stage`, and for
`score` also `seconds` and `overhead`. STAGES are the names of a cascade's cheap stages: where there are any,
`instances` has to take `stage`.
"""

import importlib.util
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from pace_async.evaluate.raised import Raised

DEEPEST = 32
# What a check of wrongly shaped outputs raises; anything else is the evaluator's or the machine's own trouble.
THE_OUTPUTS_FAULT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class Invalid(ValueError):
    """The candidate's outputs, or the score that came of them, are not allowed. `raised` is where the evaluator made a
    mistake of its own about them, if it did."""

    def __init__(self, why: str, raised: str = "") -> None:
        super().__init__(why)
        self.raised = raised


def main(evaluator: Path, settings: Mapping[str, Any], stages: Sequence[str] = ()) -> None:
    """Serve until stdin ends."""
    from pace_async.children import die_with_parent

    die_with_parent()
    requests, replies = _take_over_pipes()
    raised = Raised(evaluator.parent)
    try:
        make, score = _load(evaluator)
        _check_settings(settings, make, score)
        _check_stages(stages, make)
    except BaseException as error:
        _send(replies, {"fault": raised.tell(error)})
        return
    _send(replies, {"ready": True, "timed": "seconds" in inspect.signature(score).parameters})
    texts: dict[tuple[int, str], list[str]] = {}
    while line := requests.readline():
        request: dict[str, Any] = json.loads(line)
        outputs = [requests.read(length) for length in request.get("lengths", ())]
        try:
            seed, stage = int(request["seed"]), str(request["stage"])
            known = {"settings": dict(settings), "seed": seed, "stage": stage}
            if (seed, stage) not in texts:
                texts[seed, stage] = _texts(make(seed, **_asked_for(make, 1, known)))
            if request["op"] == "instances":
                reply: dict[str, Any] = {"instances": texts[seed, stage]}
            else:
                known |= {"seconds": request.get("seconds"), "overhead": request.get("overhead")}
                instances = [json.loads(text) for text in texts[seed, stage]]
                reply = _score(partial(score, **_asked_for(score, 2, known)), instances, outputs, raised)
        except Invalid as error:
            reply = {"invalid": str(error), "raised": error.raised}
        except Exception as error:
            reply = {"fault": raised.tell(error)}
            if isinstance(error, FileNotFoundError):
                reply["missing"] = str(error)
        _send(replies, reply)


def parse(data: bytes) -> Any:
    """A JSON value without NaN, Infinity, numbers too large for a float, or nesting beyond 32. Raises Invalid."""
    try:
        value: object = json.loads(data.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise Invalid(f"the output is nested deeper than {DEEPEST}") from None
    except ValueError as error:
        raise Invalid(f"the output is not JSON: {error}") from None
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise Invalid(f"the output is nested deeper than {DEEPEST}")
        level = [child for one in level for child in _children(one)]
    return value


def read_score(result: object) -> tuple[float, dict[str, float]]:
    """What an evaluator's `score` returned: a finite number under "score", finite numbers besides. Raises Invalid."""
    if not isinstance(result, dict) or "score" not in result:
        why = 'the evaluator returned no mapping with a "score"'
        raise Invalid(why, why)
    numbers: dict[str, float] = {}
    for name, value in cast("dict[object, object]", result).items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise Invalid(f"{name} is not a finite number: {value!r}"[:200])
        numbers[str(name)] = float(value)
    return numbers.pop("score"), numbers


def _texts(instances: object) -> list[str]:
    if not isinstance(instances, list):
        raise TypeError("instances must be a list")
    return [json.dumps(instance, allow_nan=False) for instance in cast("list[object]", instances)]


def _asked_for(function: Callable[..., object], fixed: int, known: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the known values that the function has a parameter for, after its fixed ones."""
    names = list(inspect.signature(function).parameters)[fixed:]
    return {name: value for name, value in known.items() if name in names}


def _check_settings(settings: Mapping[str, Any], *functions: Callable[..., object]) -> None:
    if settings and not any("settings" in inspect.signature(function).parameters for function in functions):
        raise TypeError("the task has settings, and neither instances nor score takes `settings`")


def _check_stages(stages: Sequence[str], make: Callable[..., object]) -> None:
    if stages and "stage" not in inspect.signature(make).parameters:
        raise TypeError("the task has a cascade, and instances does not take `stage`: no stage would be cheap")


def _score(
    score: Callable[[Any, Any], object], instances: list[Any], texts: Sequence[bytes], raised: Raised
) -> dict[str, Any]:
    outputs = [parse(text) for text in texts]
    if len(outputs) != len(instances):
        raise Invalid(f"there must be one output for each of the {len(instances)} instances")
    try:
        number, metrics = read_score(score(instances, outputs))
    except Invalid:
        raise
    except THE_OUTPUTS_FAULT as error:
        if type(error) is ValueError:
            raise Invalid(str(error)) from None
        raise Invalid(f"{type(error).__name__}: {error}", raised.tell(error)) from None
    return {"score": number, "metrics": metrics}


def _children(value: object) -> list[Any]:
    if isinstance(value, list):
        return cast("list[Any]", value)
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return []


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not allowed")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def _load(evaluator: Path) -> tuple[Callable[..., Any], Callable[..., object]]:
    sys.path.insert(0, str(evaluator.parent))
    spec = importlib.util.spec_from_file_location("evaluator", evaluator)
    if spec is None or spec.loader is None:
        raise ImportError(f"{evaluator} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluator"] = module
    spec.loader.exec_module(module)
    return module.instances, module.score


def _take_over_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The request and reply streams; what the evaluator prints goes to standard error instead."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return requests, replies


def _send(replies: BinaryIO, value: dict[str, Any]) -> None:
    replies.write(json.dumps(value, allow_nan=False).encode() + b"\n")
    replies.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]))
