"""The decode loop: requests join and leave a running batch between tokens.

Invariant: one thread, the one that calls `run`, touches the model and the cache. The keys and values of a row cover all
its tokens but the last; every step feeds each row's last token and samples its next, so a prompt, a kept request whose
cache was dropped, and a running one differ only in what is prefilled before the step. Every token carries the version
label under which it was sampled. While paused, or while the weights are unknown, no token is sampled.
Not a scheduler: first come, first served, up to `max_rows` at once.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from pace_async.advise.engines.load import load_checkpoint, receipt
from pace_async.advise.engines.sampling import draw_uniforms, sample
from pace_async.advise.engines.slots import decode, prefill, slot_cache

T = TypeVar("T")


class NotNow(RuntimeError):
    """The call does not fit the state the engine is in."""


class NotFinite(RuntimeError):
    """The model produced numbers that are not finite."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A finished answer; spans are (version label, start, end) over its tokens."""

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
    future: "Future[Sampled]"
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
    """`submit` and `call` may be used from any thread."""

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
        """Label of the weights that are served, or `unknown`."""
        return self._version if self._update == "none" else "unknown"

    @property
    def open_requests(self) -> int:
        """Requests that were given and neither answered nor dropped."""
        with self._changed:
            return len(self._waiting) + len(self._rows)

    def submit(
        self, prompt_ids: list[int], *, max_tokens: int, temperature: float, seed: int, past_end: bool = False
    ) -> "Future[Sampled]":
        """Ask for an answer; `past_end`: of exactly `max_tokens`. Cancelling the future ends the request. Fails with
        NotFinite."""
        future: Future[Sampled] = Future()
        uniforms = draw_uniforms(seed, max_tokens)
        ends = frozenset[int]() if past_end else self._end_ids
        row = _Row(len(prompt_ids), list(prompt_ids), temperature, uniforms, future, ends)
        with self._changed:
            self._waiting.append(row)
            self._changed.notify()
        return future

    def call(self, action: Callable[[], T]) -> "Future[T]":
        """Run `action` in the loop's thread between two tokens."""
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

    # What follows runs in the loop's thread only.

    def run(self) -> None:
        """Decode for ever."""
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
        """From here to `finish_update` the weights count as unknown. Raises NotNow unless paused."""
        if not self.paused:
            raise NotNow("pause before a weight update")
        self._update = "started"
        self._types = None

    def load(self, folder: Path) -> None:
        """Raises NotNow, or BadCheckpoint; after either the weights are unknown."""
        if self._update not in ("started", "loaded"):
            raise NotNow("start a weight update first")
        self._update = "failed"
        self._types = load_checkpoint(self._model, folder)
        self._forget()
        self._update = "loaded"

    def loaded_digests(self) -> dict[str, str]:
        """What was loaded since `start_update`, digested from the model. Raises NotNow."""
        if self._update != "loaded" or self._types is None:
            raise NotNow("no weights were loaded in this update")
        return receipt(self._model, self._types)

    def finish_update(self, version: str) -> None:
        """The weights are known again, and are `version`. Raises NotNow."""
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
                if self._calls:  # a pause need not wait until all are prefilled
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
        """Answer the row if it is at its end."""
        finish = row.finished()
        failed = not isfinite(row.logprobs[-1])
        if finish is None and not failed:
            return False
        if row.future.set_running_or_notify_cancel():
            if failed:
                row.future.set_exception(NotFinite("the model's logits are not finite"))
            else:
                row.future.set_result(
                    Sampled(row.ids[row.prompt_length :], row.logprobs, row.spans, finish or "length")
                )
        return True

    def _keep(self, kept: list[bool]) -> None:
        """Drop the other rows; the last ones move into the gaps."""
        for slot in reversed([slot for slot, keep in enumerate(kept) if not keep]):
            last = self._rows.pop()
            if slot < len(self._rows):
                self._rows[slot] = last
                self._cache.move(len(self._rows), slot)

    def _forget(self) -> None:
        """Every row's keys and values are computed anew before its next token."""
        self._cache.clear()
        for row in self._rows:
            row.cached = False
