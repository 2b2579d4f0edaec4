"""Publishing by file: the engine gets the path of a checkpoint directory and proves what it loaded.

    init (announce) → prepared → pause → start → update → receipt → finish (label) → resume

Invariant: a version is labelled and served only after the engine's digest of every tensor equals the file's. This
holds twice: for what it read before the pause (prepared) and for what it computes with during it (receipt). A failure
before `start` is sent leaves the old version served. After that the engine's weights count as unknown, whatever
failed, and it stays paused until some push succeeds.
Speaks the weight-update paths of vLLM 0.32 and 0.33. `collective_rpc` calls our own methods `weights_prepared` and
`weight_receipt` in the workers for the digests. Engine and publisher must see the same file system. Does not retry.
"""

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

import anyio

from pace_async.publish.base import EnginePublisher, PublisherParts, PushFailed, Receipt
from pace_async.publish.phases import OneEngine

_RESUME_S = 10.0


def by_file(parts: PublisherParts) -> EnginePublisher:
    """From the files that the learner wrote."""
    return FilePublisher(parts.url, phase_s=parts.phase_s, label=parts.label)


class FilePublisher(OneEngine):
    """A `Publisher` to one engine. Pushes do not overlap."""

    @property
    def names_adapters(self) -> bool:
        return False

    async def turn_to(self, name: str) -> None:
        """Does nothing: the engine serves one version at a time."""

    async def publish(self, version: int, weights: Path) -> Receipt:
        """Make the engine serve `weights` as `version`. Raises PushFailed of kind incomplete_checkpoint, not_finite,
        push_refused, push_timeout, push_unreachable or receipt_differs."""
        async with self._one:
            return await self._push(version, weights)

    async def _push(self, version: int, weights: Path) -> Receipt:
        started = time.monotonic()
        folder = self._phases.complete(weights)
        await self._announce(version, folder)
        digests = await self._phases.digests(folder)
        await self._phases.wait_prepared(digests)
        paused = time.monotonic()
        await self._pause()
        self._phases.began = True
        await self._transfer(version, folder, digests)
        await self._phases.ask("resume")
        self._phases.began = False
        now = time.monotonic()
        return Receipt(version, digests, now - started, now - paused)

    async def _announce(self, version: int, folder: Path) -> None:
        """Tell the engine to begin reading the next update's checkpoint."""
        await self._phases.ask("init_weight_transfer_engine", {"init_info": {"path": str(folder)}})

    async def _pause(self) -> None:
        try:
            await self._phases.ask("pause?mode=keep&clear_cache=true")
        except BaseException:
            if not self._phases.began:  # the engine may be paused although its answer was lost
                with anyio.move_on_after(_RESUME_S, shield=True), contextlib.suppress(PushFailed):
                    await self._phases.ask("resume")
            raise

    async def _transfer(self, version: int, folder: Path, digests: Mapping[str, str]) -> None:
        await self._phases.ask("start_weight_update")
        await self._phases.ask("update_weights", {"update_info": {"path": str(folder)}})
        await self._phases.refuse_unless_received({"method": "weight_receipt"}, digests)
        await self._phases.ask("finish_weight_update", {"weight_version": self._label(version)})
