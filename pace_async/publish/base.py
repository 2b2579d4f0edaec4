"""The seam that carries weights from the learner to whatever serves."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pace_async.errors import InfrastructureFault


class PushFailed(InfrastructureFault):
    """`began` is False where nothing was transferred (the old version is still served), True where the engine's
    weights are unknown and it was left paused."""

    def __init__(self, kind: str, detail: str, began: bool) -> None:
        super().__init__(kind, detail)
        self.began = began


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the receiving side says it loaded: tensor name to digest of its bytes. Every name of the checkpoint is in
    it, or the push has failed. Durations in seconds. `k3` is what the logprob probe found afterwards (`publish.probe`);
    None where there was nobody to compare with."""

    version: int
    digests: Mapping[str, str]
    seconds: float
    paused_seconds: float
    k3: float | None = None


class Publisher(Protocol):
    """pause → transfer → label with the version → resume; it alone owns the pause. One that probes does so after it."""

    async def publish(self, version: int, weights: Path) -> Receipt:
        """Raises PushFailed."""
        ...
