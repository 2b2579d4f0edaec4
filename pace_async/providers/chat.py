"""One model behind litellm: one question, one request, one answer, no retries. No other module knows litellm.

litellm takes seconds and much memory to import, so it is imported on first use and in a thread. It reads the key from
the environment, and this module never holds one. It uses the price list in its package instead of fetching one, and it
reads no .env file. Its own retries are off, because the caller retries.

Invariant: litellm asks nobody but the provider, and nothing of it waits in the event loop without a deadline. What it
would look up about a model at another address is not looked up.
"""

import logging
import os
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import anyio.to_thread

from pace_async.config import ProviderConfig
from pace_async.errors import StageFault
from pace_async.installing import refuse_without_litellm
from pace_async.outside import LARGEST, bounded_count, sound
from pace_async.providers.base import ChatAnswer
from pace_async.providers.failures import CallFailed, failure_of
from pace_async.providers.prices import Price, listed_price
from pace_async.providers.received import ProviderReply, received, says_error
from pace_async.providers.redact import redact
from pace_async.providers.wire import Exchange, no_second_request, recorded, recording

CLOSE_S = 10.0
LOOK_UP_S = 20.0
"""Deadline of everything that litellm says about one model, in seconds."""
USUAL_TEMPERATURE = 1.0


class Chat(Protocol):
    """A model that answers. `price` is None if it is unknown."""

    @property
    def model(self) -> str: ...

    @property
    def price(self) -> Price | None: ...

    async def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, timeout_s: float) -> ChatAnswer:
        """Raises CallFailed, or CandidateFault if the provider refuses this prompt."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """What litellm says about a model: its listed price, and the arguments of every call that are left out."""

    price: Price | None = None
    left_out: tuple[str, ...] = ()


class LitellmChat:
    """Implements `Chat`. Made by `open_chats`."""

    def __init__(self, model: str, config: ProviderConfig, litellm: Any, known: _Known) -> None:
        self._model = model
        self._config = config
        self._litellm = litellm
        self._has_listeners = any("callback" in name for name in config.options)
        self._left_out = list(known.left_out)
        configured_price = self._price_in_config()
        self._is_listed = configured_price is None and known.price is not None
        self._price = configured_price or known.price

    @property
    def model(self) -> str:
        return self._model

    @property
    def price(self) -> Price | None:
        """The price that the settings give, else the one that litellm lists."""
        return self._price

    @property
    def is_listed_free(self) -> bool:
        """Whether a list says that it costs nothing, and no setting does."""
        return self._is_listed and self._price is not None and self._price.is_free

    async def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, timeout_s: float) -> ChatAnswer:
        began = time.perf_counter()
        not_logged = _not_logged()
        before = not_logged.set(not self._has_listeners)
        response, error = None, None
        with recorded() as exchange:
            try:
                with anyio.fail_after(timeout_s):
                    response = await self._litellm.acompletion(**self._arguments(messages, max_tokens, timeout_s))
            except TimeoutError:
                raise CallFailed("timeout", f"no answer within {timeout_s:g} s", charged=None) from None
            except Exception as raised:
                error = raised
            finally:
                not_logged.reset(before)
        seconds, body = time.perf_counter() - began, exchange.body
        reply = None if error is not None and says_error(body) else received(body, response)
        if reply is not None:
            return self._answer(reply, response, seconds)
        if error is not None:
            raise _failure(error, exchange, max_tokens) from None
        raise CallFailed("no_choice", "the provider's answer holds no choice", charged=None)

    def missing_keys(self) -> list[str]:
        """Environment variables that the provider needs, unset or empty. litellm itself counts empty ones as set."""
        with _without_empty(os.environ):
            return list(self._litellm.validate_environment(model=self._model)["missing_keys"])

    def _arguments(self, messages: Sequence[Mapping[str, str]], max_tokens: int, timeout_s: float) -> dict[str, Any]:
        """An option that the model does not take is an error of litellm's, unless the options say `drop_params`."""
        return {
            "model": self._model,
            "messages": [dict(message) for message in messages],
            "max_tokens": max_tokens,
            "timeout": timeout_s,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
            **({"api_base": self._config.api_base} if self._config.api_base else {}),
            **({"additional_drop_params": self._left_out} if self._left_out else {}),
            **self._config.options,
        }

    def _answer(self, reply: ProviderReply, response: Any, seconds: float) -> ChatAnswer:
        """Raises CallFailed, with what came, if the service failed in the middle of it."""
        answer = ChatAnswer(
            text=sound(reply.text),
            finish=sound(reply.finish),
            refused=reply.refused,
            prompt_tokens=bounded_count(reply.prompt_tokens),
            completion_tokens=bounded_count(reply.completion_tokens),
            cost_usd=self._cost(reply, response),
            seconds=seconds,
        )
        if reply.unfinished:
            detail = f"the service did not finish its answer: {redact(reply.unfinished)}"
            raise CallFailed("unfinished", detail, charged=None, answer=answer)
        return answer

    def _cost(self, reply: ProviderReply, response: Any) -> float | None:
        """Cost in USD: litellm's own figure if it has one for these tokens, because it includes caches and tiers."""
        if not reply.counted:
            return None
        own = self._price.cost(reply.prompt_tokens, reply.completion_tokens) if self._price is not None else 0.0
        listed = response._hidden_params.get("response_cost") if response is not None and self._is_listed else None
        if not isinstance(listed, int | float) or not 0 <= listed < LARGEST:
            return own if own < LARGEST else None
        return max(float(listed), own) if reply.added else float(listed)

    def _price_in_config(self) -> Price | None:
        prompt, completion = self._config.price_per_million_in, self._config.price_per_million_out
        return None if prompt is None or completion is None else Price.per_million(prompt, completion)


def _failure(error: Exception, exchange: Exchange, max_tokens: int) -> StageFault:
    """An answer that nobody can read and that is no report of an error may have been charged."""
    failure = failure_of(error, exchange.status, max_tokens)
    unread = exchange.status == 200 and not says_error(exchange.body)
    if unread and isinstance(failure, CallFailed) and failure.charged is False:
        return CallFailed("invalid_answer", failure.detail, charged=None)
    return failure


@asynccontextmanager
async def open_chats(models: Sequence[str], config: ProviderConfig) -> AsyncGenerator[list[LitellmChat]]:
    """Opens the models. litellm's clients and tasks end with the context. Without models it imports nothing."""
    if not models:
        yield []
        return
    litellm, closings = await anyio.to_thread.run_sync(_import)
    try:
        yield [LitellmChat(model, config, litellm, await _model_facts(litellm, model, config)) for model in models]
    finally:
        for close in closings:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await close()
        litellm.in_memory_llm_clients_cache.flush_cache()


async def _model_facts(litellm: Any, model: str, config: ProviderConfig) -> _Known:
    """Nothing is known of a model that takes longer than the deadline."""
    with anyio.move_on_after(LOOK_UP_S):
        return await anyio.to_thread.run_sync(_look_up, litellm, model, config, abandon_on_cancel=True)
    return _Known()


def _look_up(litellm: Any, model: str, config: ProviderConfig) -> _Known:
    return _Known(_list_price(litellm, model, config.options), _left_out(litellm, model, config.options))


def _list_price(litellm: Any, model: str, options: Mapping[str, object]) -> Price | None:
    try:
        info: dict[str, object] = litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for a model that it does not know
        return None
    whole: dict[str, object] = dict(litellm.model_cost.get(info.get("key"), {}))
    always = any(word in model.lower() for word in ("search", "sonar", ":online"))
    searches = always or any("search" in name or name in ("tools", "plugins") for name in options)
    return listed_price({**whole, **{name: value for name, value in info.items() if value is not None}}, searches)


def _left_out(litellm: Any, model: str, options: Mapping[str, object]) -> tuple[str, ...]:
    """The usual temperature, if the model takes none: it is the model's own then."""
    if options.get("temperature") != USUAL_TEMPERATURE:
        return ()
    try:
        name, provider, *_ = litellm.get_llm_provider(model)
        litellm.utils.get_optional_params(name, custom_llm_provider=provider, temperature=USUAL_TEMPERATURE)
    except litellm.UnsupportedParamsError:
        return ("temperature",)
    except Exception:  # an unknown model: the first call says so
        return ()
    return ()


def looked_up(model: str, config: ProviderConfig) -> "LitellmChat":
    """The model as a run would ask it, for its price only. Loads litellm and calls nothing."""
    litellm = _import()[0]
    return LitellmChat(model, config, litellm, _look_up(litellm, model, config))


def price_of(model: str, config: ProviderConfig) -> Price | None:
    """The price that a run would count with, None if it is unknown. Loads litellm and calls nothing."""
    return looked_up(model, config).price


@contextmanager
def _without_empty(environment: MutableMapping[str, str]) -> Generator[None]:
    """Remove empty variables inside the context."""
    empty = {name: value for name, value in environment.items() if not value.strip()}
    for name in empty:
        del environment[name]
    try:
        yield
    finally:
        environment.update(empty)


def _not_logged() -> ContextVar[bool]:
    """litellm's own switch for internal calls. For those it does not prepare, in a separate task and with the cost
    computed again, the record for callbacks. Without callbacks this saves a seventh of a call's overhead."""
    from litellm._internal_context import is_internal_call

    return is_internal_call


def _import() -> tuple[Any, tuple[Callable[[], Awaitable[None]], ...]]:
    """litellm, and the functions to await when it is no longer needed."""
    refuse_without_litellm()
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    import litellm
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    async def stop_logging() -> None:
        # The worker may still belong to an event loop that has ended. Starting it binds it to this one.
        GLOBAL_LOGGING_WORKER.start()
        await GLOBAL_LOGGING_WORKER.flush()
        await GLOBAL_LOGGING_WORKER.stop()

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)  # its warnings are about its own tables
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)  # an answer in another form
    _restrain()
    return litellm, (stop_logging, close_litellm_async_clients)


def _without_retries(make: Callable[..., Any]) -> Callable[..., Any]:
    """OpenAI's client tries again by itself, and litellm passes `max_retries` to it for some providers only."""

    def make_client(*given: Any, **named: Any) -> Any:
        return make(*given, **{**named, "max_retries": 0})

    return make_client


def _nothing(**_: object) -> None:
    """In place of a look-up over the network."""


_restrained = False


def _restrain() -> None:
    """Change litellm, once: it keeps each response for `wire`, sends nothing twice, and looks nothing up about a model
    at the address of an ollama or lemonade server or of Hugging Face, which it would do in the event loop."""
    global _restrained
    if _restrained:
        return
    import litellm.utils as utils
    from litellm.llms.custom_httpx import aiohttp_transport, http_handler
    from litellm.llms.openai.openai import OpenAIChatCompletion

    transport: Any = aiohttp_transport
    transport.LiteLLMAiohttpTransport = recording(transport.LiteLLMAiohttpTransport)
    handler: Any = http_handler.AsyncHTTPHandler
    handler.single_connection_post_request = no_second_request
    clients: Any = OpenAIChatCompletion
    clients._get_openai_client = _without_retries(clients._get_openai_client)
    look_ups: Any = utils
    look_ups.ProviderConfigManager.get_provider_model_info = staticmethod(_nothing)
    look_ups._get_max_position_embeddings = _nothing
    # Its class is completed when it is first used, with warnings that litellm ignores only now.
    look_ups.ModelResponse()
    _restrained = True
