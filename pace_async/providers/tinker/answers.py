"""What a server of the Tinker API answered, read field by field.

Invariant: whatever is missing there, of another type or of another length is one InfrastructureFault in one sentence.
The `tinker` package checks some of it and passes on the rest.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, cast

from pace_async.errors import InfrastructureFault
from pace_async.providers.redact import redact
from pace_async.providers.tinker.service import SampledTokens, VersionAddresses


def logprobs(result: Any, lengths: Sequence[tuple[int, int]]) -> list[tuple[float, ...]]:
    """The logprobs of each answer. A length is that of a prompt and of its answer, in tokens."""
    with _reading("a result of logprobs"):
        outputs = [output["logprobs"].data for output in result.loss_fn_outputs]
    if len(outputs) != len(lengths):
        raise InfrastructureFault("bad_answer", f"the server gave {len(outputs)} results for {len(lengths)} calls")
    return [
        _finite(values, prompt + answer - 1)[prompt - 1 :]
        for values, (prompt, answer) in zip(outputs, lengths, strict=True)
    ]


def sampled(answer: Any) -> SampledTokens:
    """The one answer to a question."""
    with _reading("an answer"):
        [sequence] = answer.sequences
        tokens = tuple(_whole(token) for token in sequence.tokens)
        values, reason = sequence.logprobs, sequence.stop_reason
    if values is None:
        raise InfrastructureFault("bad_logprobs", "the server gave an answer without logprobs")
    return SampledTokens(tokens, _finite(values, len(tokens)), "stop" if reason == "stop" else "length")


def metrics(result: Any) -> Mapping[str, float]:
    """What the service measured in a step."""
    with _reading("a result of a step"):
        measured = cast("Mapping[str, Any]", result.metrics or {})
        return {str(key): _number(value) for key, value in measured.items()}


def address(result: Any) -> str:
    """The address of what was saved."""
    with _reading("a result of saving"):
        return _text(result.path)


def name(training: Any) -> str:
    """The service's own name for a run. It is a line of a file, and a part of addresses."""
    with _reading("the name of a new run"):
        model_id = _text(training.model_id)
        if "/" in model_id or model_id.split() != [model_id]:
            raise ValueError(f"{model_id!r} has a slash or a space")
        return model_id


def addresses_of(listed: Any, version: str) -> VersionAddresses | None:
    """The addresses of a version among all that a run has saved. None unless both parts are there."""
    with _reading("a list of checkpoints"):
        paths = [_text(checkpoint.tinker_path) for checkpoint in listed.checkpoints]
    states = [path for path in paths if path.endswith(f"/weights/{version}")]
    snapshots = [path for path in paths if path.endswith(f"/sampler_weights/{version}")]
    return VersionAddresses(states[0], snapshots[0]) if states and snapshots else None


@contextmanager
def _reading(description: str) -> Generator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InfrastructureFault(
            "bad_answer", f"the server gave {description} that cannot be read ({error_line(error)})"
        ) from None


def error_line(error: BaseException) -> str:
    """An error of the package or of an answer, in one line without secrets."""
    return redact(" ".join(f"{type(error).__name__}: {error}".split()))


def _finite(values: Any, count: int) -> tuple[float, ...]:
    """The values, if they are as many logprobs."""
    with _reading("logprobs"):
        numbers = tuple(math.nan if value is None else _number(value) for value in values)
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        problem = f"{len(numbers)} logprobs for {count} tokens, or one is not finite"
        raise InfrastructureFault("bad_logprobs", f"the server gave {problem}")
    return numbers


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{type(value).__name__} in place of a number")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{type(value).__name__} in place of a token")
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{type(value).__name__ if value != '' else 'nothing'} in place of a text")
    return value
