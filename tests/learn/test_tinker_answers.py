"""A server of the Tinker API that answers what it should not: one fault in one sentence. The package is a stand-in."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from pace_async.errors import GaveUp, InfrastructureFault
from pace_async.providers.tinker.sdk import SdkService, _Calls
from pace_async.providers.tinker.service import Adam, SampledTokens, TrainingRun, VersionAddresses, WeightedCall

URL = "http://127.0.0.1:1"
ADAM = Adam(1e-4, (0.9, 0.98), 0.0, 1.0)
CALLS = [((3, 4), (5, 6, 7)), ((3,), (8,))]
GONE: Any = object()


class TinkerError(Exception):
    """The package's errors."""


class APIConnectionError(TinkerError):
    """No connection."""


class APIStatusError(TinkerError):
    """The server refuses."""

    status_code = 500


class NotFoundError(APIStatusError):
    """The server knows nothing of it."""

    status_code = 404


@dataclass
class Answered:
    """One of the package's futures."""

    value: Any

    async def result_async(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def fields(**given: Any) -> SimpleNamespace:
    """An answer without the fields that are GONE."""
    return SimpleNamespace(**{key: value for key, value in given.items() if value is not GONE})


def service_of(**given: Any) -> SdkService:
    """The service behind a package whose calls answer this."""

    async def made(**_: object) -> Any:
        return training

    async def listed(_: str) -> Any:
        return given["listed"]

    async def sampling(**_: object) -> Any:
        return fields(sample_async=sample)

    async def sample(*_: object) -> Any:
        return given["sampled"]

    def answers(key: str) -> Callable[..., Answered]:
        return lambda *_: Answered(given.get(key))

    training = fields(
        model_id=given.get("model_id", "model_1"),
        forward=answers("forward"),
        forward_backward=answers("forward_backward"),
        optim_step=answers("step"),
        save_state=answers("state"),
        save_weights_for_sampler=answers("snapshot"),
        load_state_with_optimizer=answers("loaded"),
    )
    client = fields(
        create_lora_training_client_async=given.get("begin", made),
        create_rest_client=lambda: fields(list_checkpoints_async=listed),
        create_sampling_client_async=sampling,
    )
    package = fields(
        TinkerError=TinkerError,
        APIConnectionError=APIConnectionError,
        APIStatusError=APIStatusError,
        NotFoundError=NotFoundError,
        AdamParams=dict,
        SamplingParams=dict,
        Datum=dict,
        TensorData=dict,
        ModelInput=fields(from_ints=list),
    )
    return SdkService(package, client, "toy", "sum", _Calls(package, 5.0, URL))


async def begun(service: SdkService) -> TrainingRun:
    return await service.begin(8)


async def read(service: SdkService) -> Any:
    return await (await begun(service)).logprobs(CALLS)


async def stepped(service: SdkService) -> Any:
    return await (await begun(service)).step(ADAM)


async def saved(service: SdkService) -> Any:
    return await (await begun(service)).save("pace-v1")


async def found(service: SdkService) -> Any:
    return await service.saved("model_1", "pace-v1")


async def sampled(service: SdkService) -> Any:
    return await (await service.sampler("tinker://a")).sample((1,), max_tokens=4, seed=0, stop_ids=[2])


def results(*values: Any) -> SimpleNamespace:
    return fields(loss_fn_outputs=[{"logprobs": fields(data=one)} for one in values])


def sequence(tokens: Any = (5, 2), logprobs: Any = (-1.0, -2.0), stop_reason: Any = "stop") -> SimpleNamespace:
    return fields(sequences=[fields(tokens=tokens, logprobs=logprobs, stop_reason=stop_reason)])


def listing(*paths: Any) -> SimpleNamespace:
    return fields(checkpoints=[fields(tinker_path=path) for path in paths])


GOOD, OTHER = [-9.0, -1.0, -2.0, -3.0], [-4.0]
CASES: list[tuple[Callable[[SdkService], Awaitable[Any]], str, Any, str]] = [
    (begun, "model_id", GONE, "bad_answer"),
    (begun, "model_id", None, "bad_answer"),
    (begun, "model_id", 7, "bad_answer"),
    (begun, "model_id", "", "bad_answer"),
    (begun, "model_id", "a b", "bad_answer"),
    (begun, "model_id", "a/../b", "bad_answer"),
    (read, "forward", None, "bad_answer"),
    (read, "forward", fields(), "bad_answer"),
    (read, "forward", fields(loss_fn_outputs=None), "bad_answer"),
    (read, "forward", fields(loss_fn_outputs=[]), "bad_answer"),
    (read, "forward", fields(loss_fn_outputs=[{}, {}]), "bad_answer"),
    (read, "forward", fields(loss_fn_outputs=[{"logprobs": [1.0]}, {}]), "bad_answer"),
    (read, "forward", results(GOOD), "bad_answer"),
    (read, "forward", results(GOOD, OTHER, OTHER), "bad_answer"),
    (read, "forward", results(GOOD, []), "bad_logprobs"),
    (read, "forward", results(GOOD[1:], OTHER), "bad_logprobs"),
    (read, "forward", results([*GOOD[:-1], math.nan], OTHER), "bad_logprobs"),
    (read, "forward", results([*GOOD[:-1], -math.inf], OTHER), "bad_logprobs"),
    (read, "forward", results([*GOOD[:-1], None], OTHER), "bad_logprobs"),
    (read, "forward", results([*GOOD[:-1], "-1"], OTHER), "bad_answer"),
    (read, "forward", results([*GOOD[:-1], [-1.0]], OTHER), "bad_answer"),
    (read, "forward", results(None, OTHER), "bad_answer"),
    (read, "forward", results(7, OTHER), "bad_answer"),
    (read, "forward", IndexError("list index out of range"), "service_error"),
    (read, "forward", TypeError("'NoneType' object is not iterable"), "service_error"),
    (read, "forward", KeyError("logprobs"), "service_error"),
    (read, "forward", AssertionError(), "service_error"),
    (read, "forward", TinkerError("two\nlines"), "service_error"),
    (read, "forward", APIConnectionError("refused"), "service_unreachable"),
    (read, "forward", NotFoundError("no such run"), "service_refused"),
    (stepped, "step", None, "bad_answer"),
    (stepped, "step", fields(metrics=[1.0]), "bad_answer"),
    (stepped, "step", fields(metrics={"grad_norm": "large"}), "bad_answer"),
    (stepped, "step", fields(metrics={"grad_norm": None}), "bad_answer"),
    (stepped, "step", fields(metrics={"grad_norm": 10**400}), "bad_answer"),
    (saved, "snapshot", None, "bad_answer"),
    (saved, "snapshot", fields(), "bad_answer"),
    (saved, "snapshot", fields(path=None), "bad_answer"),
    (saved, "snapshot", fields(path=["tinker://a"]), "bad_answer"),
    (saved, "snapshot", fields(path=""), "bad_answer"),
    (found, "listed", fields(), "bad_answer"),
    (found, "listed", fields(checkpoints=None), "bad_answer"),
    (found, "listed", fields(checkpoints=[{}]), "bad_answer"),
    (found, "listed", listing(None), "bad_answer"),
    (sampled, "sampled", None, "bad_answer"),
    (sampled, "sampled", fields(sequences=[]), "bad_answer"),
    (sampled, "sampled", fields(sequences=[*sequence().sequences, *sequence().sequences]), "bad_answer"),
    (sampled, "sampled", fields(sequences=[fields()]), "bad_answer"),
    (sampled, "sampled", sequence(tokens=None), "bad_answer"),
    (sampled, "sampled", sequence(tokens=["5", "2"]), "bad_answer"),
    (sampled, "sampled", sequence(tokens=[5.5, 2.0]), "bad_answer"),
    (sampled, "sampled", sequence(tokens=[True, False]), "bad_answer"),
    (sampled, "sampled", sequence(logprobs=None), "bad_logprobs"),
    (sampled, "sampled", sequence(logprobs=[]), "bad_logprobs"),
    (sampled, "sampled", sequence(logprobs=[-1.0]), "bad_logprobs"),
    (sampled, "sampled", sequence(logprobs=[-1.0, math.nan]), "bad_logprobs"),
    (sampled, "sampled", sequence(logprobs={"a": -1.0, "b": -1.0}), "bad_answer"),
]


@pytest.mark.parametrize(("asked", "key", "answer", "kind"), CASES)
async def test_an_answer_that_is_none_is_one_fault_in_one_sentence(
    asked: Callable[[SdkService], Awaitable[Any]], key: str, answer: Any, kind: str
) -> None:
    given = {"state": fields(path="tinker://model_1/weights/pace-v1"), key: answer}
    with pytest.raises(InfrastructureFault) as fault:
        await asked(service_of(**given))
    assert fault.value.kind == kind
    assert fault.value.detail
    assert "\n" not in str(fault.value)


async def test_a_client_that_raises_at_once_is_one_fault_too() -> None:
    def begin(**_: object) -> Any:
        raise TypeError("unexpected keyword argument 'rank'")

    with pytest.raises(InfrastructureFault, match=r"service_error: http://127.0.0.1:1: TypeError: unexpected keyword"):
        await service_of(begin=begin).begin(8)


async def test_a_refused_key_ends_the_run_with_what_to_do() -> None:
    error = APIStatusError("no")
    error.status_code = 401
    with pytest.raises(GaveUp, match=r"refuses the key in TINKER_API_KEY .* set a valid one, then `pace resume` goes"):
        await read(service_of(forward=error))


async def test_what_a_server_should_answer_is_read() -> None:
    service = service_of(
        forward=results(GOOD, OTHER),
        step=fields(metrics={"grad_norm": 2, "loss": math.nan}),
        state=fields(path="tinker://model_1/weights/pace-v1"),
        snapshot=fields(path="tinker://model_1/sampler_weights/pace-v1"),
        listed=listing("tinker://model_1/sampler_weights/pace-v1", "tinker://model_1/weights/pace-v1"),
        sampled=sequence(),
    )
    run = await service.begin(8, "tinker://a/weights/b")
    assert run.name == "model_1"
    assert await run.logprobs(CALLS) == [(-1.0, -2.0, -3.0), (-4.0,)]
    await run.add_gradient([WeightedCall((3,), (8,), (-4.0,), (0.5,))])
    assert (await run.step(ADAM))["grad_norm"] == 2.0
    both = VersionAddresses("tinker://model_1/weights/pace-v1", "tinker://model_1/sampler_weights/pace-v1")
    assert await run.save("pace-v1") == await service.saved("model_1", "pace-v1") == both
    assert await service.saved("model_1", "pace-v2") is None
    assert await sampled(service) == SampledTokens((5, 2), (-1.0, -2.0), "stop")
    assert await (await begun(service_of(step=fields(metrics=None)))).step(ADAM) == {}
