"""A step of the optimizer that can be shortened or undone.

Invariant: `undo` restores weights and optimizer bit for bit. `halve` halves the distance of the weights from the start
of the step. It also halves the first moments, because otherwise the next ten steps would repeat the removed part. The
second moments stay, because the gradient was observed. The result depends on the step alone, so training a group again
gives the same weights.

The copies are in host memory: three times the trained weights in float32. Of sharded weights each rank copies its part.
Only imported in the learner's child process.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import torch

from pace_async.learn.shards import local


class BeforeStep:
    """Weights and optimizer at the start of a step."""

    def __init__(self, adamw: torch.optim.AdamW) -> None:
        self._adamw = adamw
        self._weights = [_copy_of(weight) for weight in self._parameters()]
        states = cast("dict[torch.Tensor, dict[str, torch.Tensor]]", adamw.state)
        self._states = {
            weight: {name: _copy_of(value) for name, value in state.items()} for weight, state in states.items()
        }

    @torch.no_grad()
    def halve(self) -> None:
        """Undo half of the step."""
        states = cast("dict[torch.Tensor, dict[str, torch.Tensor]]", self._adamw.state)
        for weight, before in zip(self._parameters(), self._weights, strict=True):
            own = local(weight)
            start = before.to(own.device)
            own.sub_(start).mul_(0.5).add_(start)
            if weight in states:
                local(states[weight]["exp_avg"]).mul_(0.5)

    @contextmanager
    def at_start(self) -> Generator[None]:
        """Inside the context the weights are those of the start of the step. Needs no further memory, because the two
        exchange places."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for weight, saved in zip(self._parameters(), self._weights, strict=True):
            own = local(weight)
            now = own.to("cpu", copy=True)
            own.copy_(saved)
            saved.copy_(now)

    @torch.no_grad()
    def undo(self) -> None:
        """Undo the whole step."""
        states = cast("dict[torch.Tensor, Any]", self._adamw.state)
        for weight, before in zip(self._parameters(), self._weights, strict=True):
            local(weight).copy_(before)
            state = self._states.get(weight)
            if state is None:
                states.pop(weight, None)
            else:
                for name, value in state.items():
                    local(states[weight][name]).copy_(value)

    def _parameters(self) -> list[torch.Tensor]:
        return [weight for group in self._adamw.param_groups for weight in group["params"]]


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    return local(tensor.detach()).to("cpu", copy=True)
