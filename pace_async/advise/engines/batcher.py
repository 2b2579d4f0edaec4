"""The decode loop: requests join and leave a running batch between tokens.

Invariant: only the thread that calls `run` touches the model and the cache. A row's cached keys and values cover all
its tokens but the last. Every step feeds each row's last token and samples the next. So a new prompt, a kept request
whose cache was dropped, and a running request differ only in what is prefilled before the step. Every token carries
the version label under which it was sampled. No token is sampled while paused or while the weights are unknown.
Not a scheduler: first come, first served, up to `max_rows` at once.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from pace_async.advise.engines.load import load_checkpoint, receipt
from pace_async.advise.engines.slots import decode, prefill, slot_cache

T = TypeVar("T")


class NotNow(RuntimeError):
    """The call is not valid in the engine's current state."""


class NotFinite(RuntimeError):
    """The model produced logits that are not finite."""


@dataclass(frozen=True, slots=True)
class FinishedAnswer:
    """A finished answer. `spans` are (version label, start, end) over its tokens."""

    token_ids: list[int]
    logprobs: list[float]
    spans: list[tuple[str, int, int]]
    finish: Literal["stop", "length"]


@dataclass(slots=True)
class _Row:
    prompt_length: int
    ids: list[int]
    temperature: float
    uniforms: list[float]
    future: "Future[FinishedAnswer]"
    end_ids: frozenset[int]
    cached: bool = False
    logprobs: list[float] = field(default_factory=list[float])
    spans: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])

    def add(self, token: int, logprob: float, version: str) -> None:
        at = len(self.logprobs)
        self.ids.append(token)
        self.logprobs.append(logprob)
        if self.spans and self.spans[-1][0] == version:
            self.spans[-1] = (version, self.spans[-1][1], at + 1)
        else:
            self.spans.append((version, at, at + 1))

    def finished(self) -> Literal["stop", "length"] | None:
        if self.ids[-1] in self.end_ids:
            return "stop"
        return "length" if len(self.logprobs) == len(self.uniforms) else None


class Batcher:
    """Decode loop. `submit` and `call` may be called from any thread."""

    def __init__(self, model: Any, *, end_ids: frozenset[int], max_rows: int, threads: int, version: str) -> None:
        self._model = model
        self._end_ids = end_ids
        self._max_rows = max_rows
        self._threads = threads
        self._cache = slot_cache(model)
        self._rows: list[_Row] = []
        self._waiting: deque[_Row] = deque()
        self._calls: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._version = version
        self._types: dict[str, torch.dtype] | None = None
        self._update: Literal["none", "started", "loaded", "failed"] = "none"
        self.paused = False

    @property
    def version(self) -> str:
        """Label of the served weights, or `unknown`."""
        return self._version if self._update == "none" else "unknown"

    @property
    def open_requests(self) -> int:
        """Submitted requests that are neither answered nor dropped."""
        with self._changed:
            return len(self._waiting) + len(self._rows)

    def submit(
        self,
        prompt_ids: list[int],
        *,
        max_tokens: int,
        temperature: float,
        seed: int,
        past_end: bool = False,
        stop_ids: Iterable[int] = (),
    ) -> "Future[FinishedAnswer]":
        """Queue a request for one answer. `past_end`: no end token of the model ends it. `stop_ids` end it too.
        Cancelling the future ends the request. The future may fail with NotFinite."""
        future: Future[FinishedAnswer] = Future()
        uniforms = draw_uniforms(seed, max_tokens)
        ends = (frozenset[int]() if past_end else self._end_ids) | frozenset(stop_ids)
        row = _Row(len(prompt_ids), list(prompt_ids), temperature, uniforms, future, ends)
        with self._changed:
            self._waiting.append(row)
            self._changed.notify()
        return future

    def call(self, action: Callable[[], T]) -> "Future[T]":
        """Run `action` in the loop's thread, between two tokens."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(action())
                except Exception as error:
                    future.set_exception(error)

        with self._changed:
            self._calls.append(run)
            self._changed.notify()
        return future

    # The methods below run in the loop's thread only.

    def run(self) -> None:
        """Decode until the process ends."""
        torch.set_num_threads(self._threads)
        with torch.inference_mode():
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._calls or self._can_decode())
                    calls = [self._calls.popleft() for _ in range(len(self._calls))]
                for call in calls:
                    call()
                if self._can_decode():
                    self._step()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """Raises NotNow while the weights are unknown."""
        if self._update != "none":
            raise NotNow("the weights are unknown: load a complete version first")
        self.paused = False

    def start_update(self) -> None:
        """Begin an update. The weights count as unknown until `finish_update`. Raises NotNow unless paused."""
        if not self.paused:
            raise NotNow("pause before a weight update")
        self._update = "started"
        self._types = None

    def load(self, folder: Path) -> None:
        """Load the checkpoint in `folder`. Raises NotNow or BadCheckpoint. After either the weights are unknown."""
        if self._update not in ("started", "loaded"):
            raise NotNow("start a weight update first")
        self._update = "failed"
        self._types = load_checkpoint(self._model, folder)
        self._forget()
        self._update = "loaded"

    def loaded_digests(self) -> dict[str, str]:
        """Digests, taken from the model, of the tensors loaded since `start_update`. Raises NotNow."""
        if self._update != "loaded" or self._types is None:
            raise NotNow("no weights were loaded in this update")
        return receipt(self._model, self._types)

    def finish_update(self, version: str) -> None:
        """End an update: the weights are known again, as `version`. Raises NotNow."""
        if self._update != "loaded":
            raise NotNow("no weights were loaded in this update")
        self._version = version
        self._update = "none"

    def _can_decode(self) -> bool:
        return not self.paused and self._update == "none" and bool(self._rows or self._waiting)

    def _step(self) -> None:
        self._keep([not row.future.cancelled() for row in self._rows])
        with self._changed:
            while self._waiting and len(self._rows) < self._max_rows:
                row = self._waiting.popleft()
                if not row.future.cancelled():
                    self._rows.append(row)
        rows = self._rows
        for slot, row in enumerate(rows):
            if not row.cached:
                prefill(self._model, self._cache, slot, row.ids[:-1])
                row.cached = True
                if self._calls:  # so that a pause does not wait for all prefills
                    return
        if not rows:
            return
        device = self._model.device
        tokens, logprobs = sample(
            decode(self._model, self._cache, [row.ids for row in rows]),
            torch.tensor([row.temperature for row in rows], device=device),
            torch.tensor([row.uniforms[len(row.logprobs)] for row in rows], dtype=torch.float64, device=device),
        )
        for row, token, logprob in zip(rows, tokens, logprobs, strict=True):
            row.add(token, logprob, self._version)
        if not all(map(isfinite, logprobs)):
            self._forget()
        self._keep([not self._settle(row) for row in rows])

    def _settle(self, row: _Row) -> bool:
        """Answer the row if it has ended or failed. Returns whether it was answered."""
        finish = row.finished()
        failed = not isfinite(row.logprobs[-1])
        if finish is None and not failed:
            return False
        if row.future.set_running_or_notify_cancel():
            if failed:
                row.future.set_exception(NotFinite("the model's logits are not finite"))
            else:
                row.future.set_result(
                    FinishedAnswer(row.ids[row.prompt_length :], row.logprobs, row.spans, finish or "length")
                )
        return True

    def _keep(self, mask: list[bool]) -> None:
        """Drop the rows that are not kept. The last rows fill the gaps."""
        for slot in reversed([slot for slot, keep in enumerate(mask) if not keep]):
            last = self._rows.pop()
            if slot < len(self._rows):
                self._rows[slot] = last
                self._cache.move(len(self._rows), slot)

    def _forget(self) -> None:
        """Drop the cache. Each row is prefilled again before its next token."""
        self._cache.clear()
        for row in self._rows:
            row.cached = False


def draw_uniforms(seed: int, count: int) -> list[float]:
    """`count` doubles in [0, 1) from a generator seeded with `seed`."""
    generator = torch.Generator().manual_seed(seed)
    return _values_of(torch.rand(count, generator=generator, dtype=torch.float64))


def sample(logits_BV: Tensor, temperatures_B: Tensor, uniforms_B: Tensor) -> tuple[list[int], list[float]]:
    """Tokens, and their log-probabilities in nats under softmax(logits / temperature), both of length B. A row with
    a logit that is not finite yields a log-probability that is not finite."""
    logprobs_BV = torch.log_softmax(logits_BV.float() / temperatures_B[:, None], dim=-1)
    cumulative_BV = logprobs_BV.double().exp().cumsum(-1)
    targets_B1 = (uniforms_B * cumulative_BV[:, -1])[:, None]
    tokens_B1 = torch.searchsorted(cumulative_BV, targets_B1, right=True).clamp_(max=logits_BV.shape[1] - 1)
    return _values_of(tokens_B1[:, 0]), _values_of(logprobs_BV.gather(1, tokens_B1)[:, 0])


def _values_of(tensor: Any) -> list[Any]:
    return tensor.tolist()
