"""The score, the metrics and the feedback of a command task's evaluator, from what it left. Pure.

Everything here was written in a sandbox that the program shares with the evaluator, so it is data and may be anything:
it is read only up to a length, and each way in which it is not what the task promises has its own sentence.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pace_async.evaluate.scorer.strict_json import DEEPEST, Invalid, measure
from pace_async.outside import LARGEST, LONGEST_NAME, MOST_METRICS, is_bounded, readable, sound
from pace_async.task import TaskSpec
from pace_async.task.kinds.command import FEEDBACK_FILE, LAST_LINE, MEAN, PRINTED

METRICS_FILE = "metrics.json"
ARTIFACTS_FILE = "artifacts.json"
LONGEST_FILE = 128 << 10
"""Bytes of one file of results."""
LONGEST_FEEDBACK = 8192
"""Characters of feedback that are kept."""
LONGEST_ERROR = 200
_TEXTS = ("feedback", "text_feedback", "artifacts", "error")
"""Entries of the metrics that are meant for the author of the next program."""
_PRINTED_NUMBER = re.compile(
    r"""(?<![\w.])[-+]?(?:
        \d{1,3}(?:,\d{3})+(?:\.\d+)?            # with a comma between thousands
        |(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?
        |inf|nan)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""A number that is no part of a name such as `step3` or `v1.2.3`."""
_ERROR = re.compile(r"^(\w*(?:error|exception)\w*):\n(?!(?:null|none|false|0|\[\]|\{\}|\"\")$)(\S.*)$", re.I | re.M)


@dataclass(frozen=True, slots=True)
class EvaluatorOutput:
    """What an evaluator left. `files` are the wanted files of the folder of results: their text, or their size if they
    are too long. `stdout` is the end of its standard output."""

    files: Mapping[str, str | int]
    stdout: bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """`score` is None if there is none, and `wrong` says why in one sentence. `metrics` are finite."""

    score: float | None
    wrong: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    feedback: str = ""


class _Wrong(ValueError):
    """What an evaluator left is not what its task promises."""


def result_files(spec: TaskSpec) -> tuple[str, ...]:
    """The files of the folder of results that are read."""
    names = [_metrics_file(spec)] if _metrics_file(spec) else []
    if spec.valid is not None and ":" in spec.valid:
        names.append(spec.valid.rpartition(":")[0])
    if spec.feedback:
        names += [ARTIFACTS_FILE, FEEDBACK_FILE]
    return tuple(dict.fromkeys(names))


def read(spec: TaskSpec, left: EvaluatorOutput) -> Reading:
    """The evaluation of a program whose evaluator ended well."""
    metrics: Mapping[str, Any] = {}
    try:
        metrics = _metrics(spec, left)
        _refuse_unless_valid(spec, metrics, left)
        score = _score(spec, metrics)
    except _Wrong as wrong:
        return Reading(None, str(wrong), feedback=_feedback(spec, metrics, left))
    return Reading(score, "", _numbers(metrics), _feedback(spec, metrics, left))


def reported_error(feedback: str) -> str:
    """The first entry of a feedback that is called an error, in one line, or nothing. Many evaluators catch what went
    wrong and give such a program a score."""
    match = _ERROR.search(feedback)
    return f"{match[1]}: {match[2].strip()[:LONGEST_ERROR]}" if match is not None else ""


def shorten_feedback(text: str, most: int = LONGEST_FEEDBACK) -> str:
    """At most `most` characters and a note, without the middle. Control characters become spaces."""
    clean = readable(text)
    if len(clean) <= most:
        return clean
    half = most // 2
    return f"{clean[:half]}\n… {len(clean) - 2 * half} characters left out …\n{clean[-half:]}"


def _metrics_file(spec: TaskSpec) -> str:
    """The name of the file with the metrics, or nothing."""
    if not isinstance(spec.metrics, str):
        return METRICS_FILE
    return "" if spec.metrics in (LAST_LINE, PRINTED) else spec.metrics


def _metrics(spec: TaskSpec, left: EvaluatorOutput) -> Mapping[str, Any]:
    name = _metrics_file(spec)
    if name:
        return _object(left, name)
    if spec.metrics == PRINTED:
        return _printed(left.stdout, spec.score[0])
    return _last_object(left.stdout, spec.score[0])


def _object(left: EvaluatorOutput, name: str) -> Mapping[str, Any]:
    text = left.files.get(name)
    if text is None:
        raise _Wrong(f"the evaluator left no {name}; if it prints the score, say metrics: {PRINTED} in task.yaml")
    if isinstance(text, int):
        raise _Wrong(f"the evaluator's {name} is too long: {text} bytes, and {LONGEST_FILE} are read")
    if not text.strip():
        raise _Wrong(f"the evaluator's {name} is empty")
    try:
        value = _parsed(text)
    except Invalid:
        raise _Wrong(f"the evaluator's {name} is nested deeper than {DEEPEST}") from None
    except ValueError:
        raise _Wrong(f"the evaluator's {name} is not JSON, or only half of it") from None
    if not isinstance(value, dict):
        raise _Wrong(f"the evaluator's {name} holds {_kind(value)}, not an object with metrics")
    return cast("dict[str, Any]", value)


def _last_object(stdout: bytes, score: str) -> Mapping[str, Any]:
    """The last line that is a JSON object. Where there is none, a last line that is a number is the metric `score`. A
    last line that only begins an object was cut off."""
    lines = [line for line in stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    for number, line in enumerate(reversed(lines)):
        if not line.lstrip().startswith("{"):
            continue
        if (entries := _object_of(line)) is not None:
            return entries
        if number == 0:
            raise _Wrong("the last line of standard output begins a JSON object and does not end it")
    if lines and _PRINTED_NUMBER.fullmatch(lines[-1].strip()):
        return {score: float(lines[-1].strip().replace(",", ""))}
    raise _Wrong(f"the evaluator printed no JSON object and its last line is no number: {_to_print(score)}")


def _to_print(score: str) -> str:
    """What an evaluator has to print, for one that did not."""
    return f'let it print the score last, as in 0.5 or {{"{score}": 0.5}}'


def _printed(stdout: bytes, metric: str) -> Mapping[str, Any]:
    """The last line that is a JSON object or holds a number. The last number of such a line is the score, and the last
    line before it that is an object holds the other metrics."""
    score: float | None = None
    for line in reversed(stdout.decode("utf-8", "replace").splitlines()):
        if (entries := _object_of(line)) is not None:
            return entries if score is None else {**entries, "score": score}
        if score is None and (numbers := _PRINTED_NUMBER.findall(line)):
            score = float(numbers[-1].replace(",", ""))
    if score is None:
        raise _Wrong(f"the evaluator printed no number and no JSON object: {_to_print(metric)}")
    return {"score": score}


def _object_of(line: str) -> dict[str, Any] | None:
    """The JSON object that the line is, None if it is none."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = _parsed(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _parsed(text: str) -> Any:
    """The value of a text. Raises Invalid for one that is nested deeper than what is written of it later can be, and
    another ValueError for one that is not JSON."""
    measure(text.encode("utf-8", "replace"))
    return json.loads(text)


def _refuse_unless_valid(spec: TaskSpec, metrics: Mapping[str, Any], left: EvaluatorOutput) -> None:
    if spec.valid is None:
        return
    file, _, key = spec.valid.rpartition(":")
    report = _object(left, file) if file else metrics
    value = _at(report, key)
    if value is None:
        raise _Wrong(f"{spec.valid}, which says whether the program is valid, is missing")
    if not isinstance(value, bool | int | float):
        raise _Wrong(f"{spec.valid}, which says whether the program is valid, is {_kind(value)}")
    if not value or value != value:
        error = report.get("error")
        raise _Wrong(f"the evaluator says that the program is not valid{f': {error}' if error else ''}")


def _score(spec: TaskSpec, metrics: Mapping[str, Any]) -> float:
    for name in spec.score:
        value = _at(metrics, name)
        if value is None and name == MEAN:
            numbers = [_as_float(number) for number in metrics.values() if _is_number(number)]
            value = sum(numbers) / len(numbers) if numbers else None
        if value is not None:
            return _number(name, value)
    names = " or ".join(spec.score)
    available = ", ".join(list(metrics)[:8]) or "none"
    numbers = [name for name, value in metrics.items() if _is_number(value)]
    other = f", or say in task.yaml which metric is the score, as in score: {numbers[0]}" if numbers else ""
    raise _Wrong(f'the metric {names} is missing; there are: {available}; print {{"{spec.score[0]}": NUMBER}}{other}')


def _number(name: str, value: object) -> float:
    if not _is_number(value):
        raise _Wrong(f"the metric {name} is {_kind(value)}, not a number")
    number = _as_float(value)
    if not math.isfinite(number):
        raise _Wrong(f"the metric {name} is not finite ({number})")
    if not is_bounded(number):
        raise _Wrong(f"the metric {name} is not between -{LARGEST:g} and {LARGEST:g} ({number})")
    return number


def _as_float(number: Any) -> float:
    """A whole number that is too large for a float is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _at(metrics: Mapping[str, Any], path: str) -> Any:
    """The value of a name, or of a path of names with dots between them. None if there is none."""
    if path in metrics:
        return metrics[path]
    value: Any = metrics
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = cast("dict[str, Any]", value)[name]
    return value


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers, those of mappings under a path with dots. Truth values are 0 and 1."""
    numbers: dict[str, float] = {}
    for name, value in _flat(metrics, "", 4):
        if len(numbers) == MOST_METRICS:
            break
        if isinstance(value, int | float) and len(name) <= LONGEST_NAME:
            number = _as_float(value)
            if is_bounded(number):
                numbers[sound(name)] = number
    return numbers


def _flat(metrics: Mapping[str, Any], above: str, deep: int) -> Iterator[tuple[str, object]]:
    for name, value in metrics.items():
        if isinstance(value, dict):
            if deep and name not in _TEXTS:
                yield from _flat(cast("dict[str, Any]", value), f"{above}{name}.", deep - 1)
        else:
            yield f"{above}{name}", value


def _feedback(spec: TaskSpec, metrics: Mapping[str, Any], left: EvaluatorOutput) -> str:
    """The texts that are meant for the author of the next program, where the task allows it."""
    if not spec.feedback:
        return ""
    parts = [_part(name, metrics[name]) for name in _TEXTS if metrics.get(name)]
    artifacts = left.files.get(ARTIFACTS_FILE)
    if isinstance(artifacts, str):
        try:
            value: Any = _parsed(artifacts)
        except ValueError:
            value = artifacts
        parts.append(_part("artifacts", value))
    elif isinstance(artifacts, int):
        parts.append(f"({ARTIFACTS_FILE} is too long to be shown: {artifacts} bytes)")
    text = left.files.get(FEEDBACK_FILE)
    if isinstance(text, str):
        parts.append(text.strip())
    elif isinstance(text, int):
        parts.append(f"({FEEDBACK_FILE} is too long to be shown: {text} bytes)")
    return shorten_feedback("\n\n".join(part for part in parts if part))


def _part(name: str, value: object) -> str:
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return "\n\n".join(f"{key}:\n{_text_of(entry)}" for key, entry in entries)
    return f"{name}:\n{_text_of(value)}"


def _text_of(value: object) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    kinds: Mapping[type, str] = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds.get(type(value), "null")
