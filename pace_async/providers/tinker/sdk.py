"""The service behind the `tinker` package, which only this module imports, and only when a run trains by it.

Its calls run in a thread of the package's own. A fault that it would retry for minutes meets the run's own deadline.
Every failure of a call is one fault in one sentence, whatever the package raises. `answers` reads what a server
answered. The package's telemetry is off.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import httpx

from pace_async.config.tinker import TinkerConfig
from pace_async.errors import GaveUp, InfrastructureFault, NotHere
from pace_async.installing import install_line, missing
from pace_async.providers.redact import redact
from pace_async.providers.tinker import answers
from pace_async.providers.tinker.service import (
    Adam,
    SampledTokens,
    Sampler,
    TrainingRun,
    VersionAddresses,
    WeightedCall,
)
from pace_async.providers.tinker.versions import refuse_unless_understood

KEY = "TINKER_API_KEY"
UNUSED_KEY = "tml-unused"
"""The package refuses to send none, and a server of one's own may ask for none."""
ANSWER_S = 10.0
"""Within so many seconds a server has to say that it is up, before the package waits for it."""
_HEALTH = "/api/v1/healthz"
_TINKER = "https://tinker.thinkingmachines.dev/services/tinker-prod"

T = TypeVar("T")


def refuse_unless_ready(config: TinkerConfig) -> None:
    """Raises NotHere without the package, and without a key for the Tinker API itself. Asks nobody."""
    if missing("tinker"):
        raise NotHere(f"learner.trainer tinker needs the package tinker: {install_line('tinker')}.")
    if config.url is None and not os.environ.get(KEY, "").strip():
        raise NotHere(f"learner.trainer tinker: missing key; set {KEY} in the environment.")


@asynccontextmanager
async def open_service(config: TinkerConfig, base_model: str, deadline_s: float) -> AsyncGenerator["SdkService"]:
    """The service, once it says that it is up. `deadline_s` is that of each call but those of samplers. Raises GaveUp
    in one sentence if it is not there, or does not understand the installed package."""
    refuse_unless_ready(config)
    os.environ.setdefault("TINKER_TELEMETRY", "0")
    url = (config.url or os.environ.get("TINKER_BASE_URL") or _TINKER).rstrip("/")
    key = os.environ.get(KEY, "").strip() or UNUSED_KEY
    async with httpx.AsyncClient(timeout=ANSWER_S, follow_redirects=True) as http:
        await _refuse_unless_up(http, url)
        if url != _TINKER:
            await refuse_unless_understood(http, url, key)
    tinker = await anyio.to_thread.run_sync(import_module, "tinker")
    calls = _Calls(tinker, deadline_s, url)
    client = await calls.blocking(partial(_client, tinker, url, key))
    yield SdkService(tinker, client, base_model, config.reduction, calls)


async def _refuse_unless_up(http: httpx.AsyncClient, url: str) -> None:
    server = f"learner.trainer tinker: {redact(url)}"
    try:
        answer = await http.get(url + _HEALTH)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = redact(str(error) or type(error).__name__)
        raise GaveUp(
            f"{server} does not answer ({reason}): see to the server or the network, then `pace resume` goes on."
        ) from None
    if answer.status_code >= 400:
        raise GaveUp(
            f"{server} answers {answer.status_code} where a Tinker server says that it is up: see to tinker.url, then "
            "`pace resume` goes on."
        )


def _client(tinker: Any, url: str, key: str) -> Any:
    client = tinker.ServiceClient(base_url=url, api_key=key)
    _ = client.holder  # makes the session, which blocks
    return client


@dataclass(frozen=True, slots=True)
class _Calls:
    """Waits for calls of the package. Every failure of theirs is a fault in one sentence."""

    tinker: Any
    deadline_s: float
    url: str

    async def blocking(self, call: Callable[[], T]) -> T:
        """The result of a call that blocks, in a thread."""
        return await self.settled(partial(anyio.to_thread.run_sync, call, abandon_on_cancel=True))

    async def result(self, submit: Callable[[], Any]) -> Any:
        """The result of a call that returns one of the package's futures."""

        async def waited() -> Any:
            return await (await anyio.to_thread.run_sync(submit, abandon_on_cancel=True)).result_async()

        return await self.settled(waited)

    async def settled(self, call: Callable[[], Awaitable[T]], *, timed: bool = True) -> T:
        """Raises InfrastructureFault, GaveUp for a key that is refused."""
        try:
            with anyio.fail_after(self.deadline_s if timed else None):
                return await call()
        except TimeoutError:
            raise InfrastructureFault("service_timeout", f"{self.url}: no answer in {self.deadline_s:g} s") from None
        except self.tinker.APIConnectionError as error:
            raise InfrastructureFault("service_unreachable", self._text_of(error)) from None
        except self.tinker.APIStatusError as error:
            if error.status_code in (401, 403):
                raise GaveUp(
                    f"The Tinker service at {self.url} refuses the key in {KEY} ({self._text_of(error)}): set a valid "
                    "one, then `pace resume` goes on."
                ) from None
            kind = "service_refused" if error.status_code < 500 else "service_error"
            raise InfrastructureFault(kind, self._text_of(error)) from None
        except Exception as error:  # the package passes on what it cannot read of an answer as whatever it raises
            raise InfrastructureFault("service_error", self._text_of(error)) from None

    def _text_of(self, error: BaseException) -> str:
        return f"{redact(self.url)}: {answers.error_line(error)}"


@dataclass(frozen=True, slots=True)
class SdkService:
    """A `service.TrainingService`."""

    tinker: Any
    client: Any
    base_model: str
    reduction: str
    calls: _Calls

    async def begin(self, rank: int, state: str | None = None) -> TrainingRun:
        training = await self.calls.settled(
            lambda: self.client.create_lora_training_client_async(base_model=self.base_model, rank=rank)
        )
        run = _SdkRun(self.tinker, training, self.reduction, self.calls, answers.name(training))
        if state is not None:
            await self.calls.result(lambda: training.load_state_with_optimizer(state))
        return run

    async def saved(self, run: str, name: str) -> VersionAddresses | None:
        rest = await self.calls.blocking(self.client.create_rest_client)

        async def listing() -> Any:
            try:
                return await rest.list_checkpoints_async(run)
            except self.tinker.NotFoundError:
                return None

        listed = await self.calls.settled(listing)
        return None if listed is None else answers.addresses_of(listed, name)

    async def sampler(self, snapshot: str) -> Sampler:
        client = await self.calls.settled(lambda: self.client.create_sampling_client_async(model_path=snapshot))
        return _SdkSampler(self.tinker, client, self.calls)


@dataclass(frozen=True, slots=True)
class _SdkRun:
    tinker: Any
    training: Any
    reduction: str
    calls: _Calls
    name: str

    async def logprobs(self, calls: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> list[tuple[float, ...]]:
        data = [
            self._datum(prompt, answer, weights=[0.0] * (len(prompt) + len(answer) - 1)) for prompt, answer in calls
        ]
        output = await self.calls.result(lambda: self.training.forward(data, "cross_entropy"))
        return answers.logprobs(output, [(len(prompt), len(answer)) for prompt, answer in calls])

    async def add_gradient(self, calls: Sequence[WeightedCall]) -> None:
        data: list[Any] = []
        for call in calls:
            length = len(call.prompt_ids) + len(call.completion_ids) - 1
            scale = len(calls) * length if self.reduction == "mean" else 1
            before = [0.0] * (length - len(call.completion_ids))
            advantages = [*before, *(scale * value for value in call.coefficients)]
            logprobs = [*before, *call.logprobs]
            data.append(self._datum(call.prompt_ids, call.completion_ids, logprobs=logprobs, advantages=advantages))
        await self.calls.result(lambda: self.training.forward_backward(data, "importance_sampling"))

    async def step(self, adam: Adam) -> Mapping[str, float]:
        parameters = self.tinker.AdamParams(
            learning_rate=adam.learning_rate,
            beta1=adam.betas[0],
            beta2=adam.betas[1],
            eps=adam.eps,
            weight_decay=adam.weight_decay,
            grad_clip_norm=adam.max_grad_norm,
        )
        return answers.metrics(await self.calls.result(lambda: self.training.optim_step(parameters)))

    async def save(self, name: str) -> VersionAddresses:
        state = await self.calls.result(lambda: self.training.save_state(name))
        snapshot = await self.calls.result(lambda: self.training.save_weights_for_sampler(name))
        return VersionAddresses(answers.address(state), answers.address(snapshot))

    def _datum(self, prompt: Sequence[int], answer: Sequence[int], **inputs: Sequence[float]) -> Any:
        """All tokens but the last predict all but the first."""
        tokens = [*prompt, *answer]
        tensors = {name: self._tensor(values, "float32") for name, values in inputs.items()}
        return self.tinker.Datum(
            model_input=self.tinker.ModelInput.from_ints(tokens[:-1]),
            loss_fn_inputs={"target_tokens": self._tensor(tokens[1:], "int64"), **tensors},
        )

    def _tensor(self, values: Sequence[float], dtype: str) -> Any:
        return self.tinker.TensorData(data=list(values), dtype=dtype, shape=[len(values)])


@dataclass(frozen=True, slots=True)
class _SdkSampler:
    tinker: Any
    client: Any
    calls: _Calls

    async def sample(
        self, prompt_ids: Sequence[int], *, max_tokens: int, seed: int, stop_ids: Sequence[int]
    ) -> SampledTokens:
        parameters = self.tinker.SamplingParams(
            max_tokens=max_tokens, seed=seed % 2**31, temperature=1.0, stop=list(stop_ids) or None
        )
        prompt = self.tinker.ModelInput.from_ints(list(prompt_ids))
        call = partial(self.client.sample_async, prompt, 1, parameters)
        return answers.sampled(await self.calls.settled(call, timed=False))
