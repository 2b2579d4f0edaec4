"""Learners for tests."""

import threading
from collections.abc import Sequence
from pathlib import Path

import anyio

from pace_async.errors import InfrastructureFault
from pace_async.learn.base import GROUP_UNREADABLE, Step
from pace_async.replay.groupfile import read_digested
from tests.support.engine_models import plain_logprobs


class ScriptedLearner:
    """A `Learner` and a `Scorer` whose versions exist already. The last one follows what the learner `awaits`."""

    def __init__(self, versions: Sequence[Path]) -> None:
        self.versions = versions
        self.version = 0
        self.awaits: threading.Event | None = None

    async def train(self, group: Path) -> Step:
        try:
            content, digest = read_digested(group)
        except (OSError, ValueError) as error:
            raise InfrastructureFault(GROUP_UNREADABLE, str(error)) from None
        if self.awaits is not None and content.update + 2 == len(self.versions):
            await anyio.to_thread.run_sync(self.awaits.wait, 60.0)
        self.version = content.update + 1
        return Step(content.update, self.version, digest, self.versions[self.version], "", {}, 0.0)

    async def logprobs(
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...] | None:
        if version != self.version:
            return None
        return tuple(plain_logprobs(self.versions[version], prompt_ids, completion_ids, 1.0))
