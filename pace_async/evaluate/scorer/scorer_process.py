"""The scorer: a process that loads a task's evaluator.

    python -m pace_async.evaluate.scorer.scorer_process EVALUATOR SETTINGS STAGES BOUNDS


It is trusted and long-lived. It never runs a candidate's code, and a candidate never sees its files. Requests and
replies are JSON lines on stdin and stdout. A `score` request is followed by the stated number of bytes. These are a
candidate's outputs, one after the other. Each is parsed separately, strictly (`strict_json`), and only here:

    {"op": "instances", "seed": 0, "stage": "full"}     -> {"instances": ["JSON text", ...]}
    {"op": "score", "seed": 0, "lengths": [17], ...}... -> {"score": 1.5, "metrics": {...}} or {"invalid": "why"}
    {"op": "so_far", ...}, of the first outputs alone    -> the same, from the function `so_far`

A reply {"fault": "where and why"} means that the evaluator itself failed. With "missing" a file of the user's does not
exist, and the text says what to do. With "memory" an allocation failed. "raised" beside "invalid" is the place where
the evaluator raised another error than the ValueError by which it refuses an output. The evaluator's output and its
tracebacks go to standard error. The first line, sent at the start, is {"ready": true, "timed": whether `score` takes
`seconds`, "practises" and "reports": whether there are functions `practice` and `so_far`} or a fault. The further
arguments of the evaluator's functions depend on the names of their parameters: `settings`, `seed`, `stage`, and for
`score` and `so_far` also `seconds` and `overhead`. STAGES are the names of a cascade's cheap stages. If there are any,
`instances` has to take `stage`. With "practice" in a request the instances of its seed come from the function
`practice`. BOUNDS: `groups` (files in which this process enters itself into its control group), `memory_mb`, `seconds`
of processor time for each request, and `values` that the outputs of a candidate may hold. One that works for longer is
killed by the kernel, with SIGXCPU.
"""

import contextlib
import importlib.util
import inspect
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO, cast

from pace_async.evaluate.scorer.raised import ErrorReporter
from pace_async.evaluate.scorer.strict_json import Invalid, parse_all
from pace_async.outside import LARGEST, is_bounded, sound

LONGEST_REASON = 4096
# Errors that wrongly shaped outputs cause. Any other error is the evaluator's or the machine's.
THE_OUTPUTS_FAULT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def main(evaluator: Path, settings: Mapping[str, Any], stages: Sequence[str], bounds: Mapping[str, Any]) -> None:
    """Serve until stdin ends."""
    from pace_async.children import die_with_parent

    die_with_parent()
    requests, replies = _take_over_pipes()
    raised = ErrorReporter(evaluator.parent)
    try:
        _bound(bounds)
        make, score, practice, so_far = _load(evaluator)
        _check_settings(settings, make, score)
        _check_stages(stages, make)
    except BaseException as error:
        _send(replies, _fault(error, raised))
        return
    timed = "seconds" in inspect.signature(score).parameters
    hello = {"ready": True, "timed": timed, "practises": practice is not None, "reports": so_far is not None}
    _send(replies, hello)
    texts: dict[tuple[int, str], list[str]] = {}
    while line := requests.readline():
        request: dict[str, Any] = json.loads(line)
        try:
            outputs = [requests.read(length) for length in request.get("lengths", ())]
            _allow(bounds["seconds"])
            seed, stage = int(request["seed"]), str(request["stage"])
            known = {"settings": dict(settings), "seed": seed, "stage": stage}
            if (seed, stage) not in texts:
                source = practice if practice is not None and request.get("practice") else make
                texts[seed, stage] = _texts(source(seed, **_asked_for(source, 1, known)))
            if request["op"] == "instances":
                reply: dict[str, Any] = {"instances": texts[seed, stage]}
            else:
                known |= {"seconds": request.get("seconds"), "overhead": request.get("overhead")}
                instances = [json.loads(text) for text in texts[seed, stage]]
                values, scores = parse_all(outputs, bounds["values"]), score
                if request["op"] == "so_far" and so_far is not None:
                    scores, instances = so_far, instances[: len(values)]
                reply = _score(partial(scores, **_asked_for(scores, 2, known)), instances, values, raised)
        except Invalid as error:
            reply = {"invalid": str(error)[:LONGEST_REASON], "raised": error.raised}
        except Exception as error:
            reply = _fault(error, raised)
        _send(replies, reply)


def read_score(result: object) -> tuple[float, dict[str, float]]:
    """The result of an evaluator's `score`: a finite number under "score", and other finite numbers, also those of
    numpy, torch and the standard library. Raises Invalid, which names the evaluator for what is no number."""
    if not isinstance(result, dict) or "score" not in result:
        reason = 'the evaluator returned no mapping with a "score"'
        raise Invalid(reason, reason)
    numbers: dict[str, float] = {}
    for name, value in cast("dict[object, object]", result).items():
        number = _as_float(value)
        if number is None:
            reason = f"{name} is {type(value).__name__}, not a number: {value!r}"[:200]
            raise Invalid(reason, reason)
        if not math.isfinite(number):
            raise Invalid(f"{name} is not a finite number: {number!r}"[:200])
        if not is_bounded(number):
            raise Invalid(f"{name} is not between -{LARGEST:g} and {LARGEST:g}"[:200])
        numbers[sound(str(name))] = number
    return numbers.pop("score"), numbers


def _as_float(value: Any) -> float | None:
    """A number of any library, None for anything else. An array of one number is a number. One that is too large for a
    float is infinite."""
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        value = value.item() if callable(getattr(value, "item", None)) else value
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if cast("Any", value) > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def _texts(instances: object) -> list[str]:
    if not isinstance(instances, list):
        raise TypeError("instances must be a list")
    return [json.dumps(instance, allow_nan=False) for instance in cast("list[object]", instances)]


def _asked_for(function: Callable[..., object], fixed: int, known: Mapping[str, Any]) -> dict[str, Any]:
    """The known values for which the function has parameters, after its fixed ones."""
    names = list(inspect.signature(function).parameters)[fixed:]
    return {name: value for name, value in known.items() if name in names}


def _check_settings(settings: Mapping[str, Any], *functions: Callable[..., object]) -> None:
    if settings and not any("settings" in inspect.signature(function).parameters for function in functions):
        raise TypeError("the task has settings, and neither instances nor score takes `settings`")


def _check_stages(stages: Sequence[str], make: Callable[..., object]) -> None:
    if stages and "stage" not in inspect.signature(make).parameters:
        raise TypeError("the task has a cascade, and instances does not take `stage`: no stage would be cheap")


def _score(
    score: Callable[[Any, Any], object], instances: list[Any], outputs: list[Any], raised: ErrorReporter
) -> dict[str, Any]:
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


def _fault(error: BaseException, raised: ErrorReporter) -> dict[str, Any]:
    if isinstance(error, FileNotFoundError) and error.errno is None:  # the evaluator's own message for the user
        message = str(error)[:LONGEST_REASON]
        return {"fault": message, "missing": message}
    reply: dict[str, Any] = {"fault": raised.tell(error)}
    if isinstance(error, MemoryError):
        reply["memory"] = True
    return reply


def _bound(bounds: Mapping[str, Any]) -> None:
    """Join the control group, which counts memory in use, and set the limits beyond which an allocation is refused."""
    for members in bounds["groups"]:
        Path(members).write_text("0")
    _limit(resource.RLIMIT_CORE, 1)  # no dump of the memory of a process that is killed
    # Not of all addresses: libraries for GPUs reserve more of those than there is memory.
    _limit(resource.RLIMIT_DATA, bounds["memory_mb"] << 20)


def _allow(seconds: float) -> None:
    """Allow so many more seconds of processor time."""
    _limit(resource.RLIMIT_CPU, int(time.process_time() + seconds) + 1)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _load(
    evaluator: Path,
) -> tuple[Callable[..., Any], Callable[..., object], Callable[..., Any] | None, Callable[..., object] | None]:
    """Its functions `instances`, `score` and, if there are any, `practice` and `so_far`."""
    sys.path.insert(0, str(evaluator.parent))
    spec = importlib.util.spec_from_file_location("evaluator", evaluator)
    if spec is None or spec.loader is None:
        raise ImportError(f"{evaluator} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluator"] = module
    spec.loader.exec_module(module)
    further = (getattr(module, name, None) for name in ("practice", "so_far"))
    practice, so_far = (function if callable(function) else None for function in further)
    return module.instances, module.score, practice, so_far


def _take_over_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The request and reply streams. The evaluator's own output goes to standard error instead."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return requests, replies


def _send(replies: BinaryIO, value: dict[str, Any]) -> None:
    replies.write(json.dumps(value, allow_nan=False).encode() + b"\n")
    replies.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]), json.loads(sys.argv[4]))
