"""One model behind litellm: one question, one answer, no retries.

litellm takes seconds and much memory to import, so it is imported on first use and in a thread. It reads the key from
the environment, and this module never holds one. It uses the price list in its package instead of fetching one, and it
reads no .env file. Its own retries are off, because the caller retries.
"""

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import anyio.to_thread

from pace_async.config import ProviderConfig
from pace_async.providers.failures import CallFailed, failure_of
from pace_async.providers.prices import Price, listed_price

CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A model's answer. `finish` is litellm's value: stop, length, content_filter, …. `cost_usd` is None if it is
    unknown, because the provider reported no tokens."""

    text: str
    finish: str
    refused: bool
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    seconds: float


class Chat(Protocol):
    """A model that answers. `price` is None if it is unknown."""

    @property
    def model(self) -> str: ...

    @property
    def price(self) -> Price | None: ...

    async def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, timeout_s: float) -> ChatAnswer:
        """Raises CallFailed, or CandidateFault if the provider refuses this prompt."""
        ...


class LitellmChat:
    """Implements `Chat`. Made by `open_chats`."""

    def __init__(self, model: str, config: ProviderConfig, litellm: Any) -> None:
        self._model = model
        self._config = config
        self._litellm = litellm
        self._has_listeners = any("callback" in name for name in config.options)
        listed = self._listed()
        self._is_listed = listed is not None
        self._price = listed or self._given()

    @property
    def model(self) -> str:
        return self._model

    @property
    def price(self) -> Price | None:
        return self._price

    async def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int, timeout_s: float) -> ChatAnswer:
        began = time.perf_counter()
        not_logged = _not_logged()
        before = not_logged.set(not self._has_listeners)
        try:
            with anyio.fail_after(timeout_s):
                response: Any = await self._litellm.acompletion(
                    **{
                        "model": self._model,
                        "messages": [dict(message) for message in messages],
                        "max_tokens": max_tokens,
                        "timeout": timeout_s,
                        "num_retries": 0,
                        "max_retries": 0,
                        "drop_params": True,
                        **({"api_base": self._config.api_base} if self._config.api_base else {}),
                        **self._config.options,
                    }
                )
        except TimeoutError:
            raise CallFailed("timeout", f"no answer within {timeout_s:g} s", charged=None) from None
        except Exception as error:
            raise failure_of(error) from None
        finally:
            not_logged.reset(before)
        return self._read(response, time.perf_counter() - began)

    def missing_keys(self) -> list[str]:
        """Environment variables that the provider needs, unset or empty. litellm itself counts empty ones as set."""
        with _without_empty(os.environ):
            return list(self._litellm.validate_environment(model=self._model)["missing_keys"])

    def _read(self, response: Any, seconds: float) -> ChatAnswer:
        if not response.choices:
            raise CallFailed("no_choice", "the provider's answer holds no choice", charged=None)
        choice, usage = response.choices[0], getattr(response, "usage", None)
        message = choice.message
        extra: dict[str, Any] = getattr(message, "provider_specific_fields", None) or {}
        prompt_tokens = int(getattr(usage, "prompt_tokens", 0) or 0)
        completion_tokens = int(getattr(usage, "completion_tokens", 0) or 0)
        return ChatAnswer(
            text=message.content or "",
            finish=choice.finish_reason or "stop",
            refused=bool(extra.get("refusal")) or choice.finish_reason == "content_filter",
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost_usd=self._cost(response, prompt_tokens, completion_tokens),
            seconds=seconds,
        )

    def _cost(self, response: Any, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Cost in USD: litellm's own figure if it has one, because it includes caches and tiers."""
        if not prompt_tokens:
            return None
        listed = response._hidden_params.get("response_cost")
        if self._is_listed and isinstance(listed, int | float):
            return float(listed)
        return self._price.cost(prompt_tokens, completion_tokens) if self._price is not None else 0.0

    def _listed(self) -> Price | None:
        try:
            return listed_price(self._litellm.get_model_info(self._model))
        except Exception:  # litellm raises a bare Exception for a model that it does not know
            return None

    def _given(self) -> Price | None:
        prompt, completion = self._config.price_per_million_in, self._config.price_per_million_out
        return None if prompt is None or completion is None else Price.per_million(prompt, completion)


@asynccontextmanager
async def open_chats(models: Sequence[str], config: ProviderConfig) -> AsyncGenerator[list[LitellmChat]]:
    """Opens the models. litellm's clients and tasks end with the context. Without models it imports nothing."""
    if not models:
        yield []
        return
    litellm, closings = await anyio.to_thread.run_sync(_import)
    try:
        yield [LitellmChat(model, config, litellm) for model in models]
    finally:
        for close in closings:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await close()
        litellm.in_memory_llm_clients_cache.flush_cache()


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
    return litellm, (stop_logging, close_litellm_async_clients)
