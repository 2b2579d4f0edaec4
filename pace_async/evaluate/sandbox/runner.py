"""Runs one program in one sandbox: forked by a warm parent while that can be trusted, started cold otherwise.

Invariants: a candidate runs in a warm fork only after the self-check was passed in such a fork. A failure of the warm
parent never affects a candidate's outcome: if the parent refuses, dies or forks a process that never reports ready, the
program is started cold at once, and so is every later one. That is reported once. Not a judge: `verdict` says what the
end of a run means, and no program is run twice here because of how it ended.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from pace_async.errors import InfrastructureFault
from pace_async.evaluate.base import Limits
from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.selfcheck import check_tier
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.evaluate.sandbox.verdict import Ended, judge, one_line
from pace_async.evaluate.sandbox.warm import WarmParent, start_warm_parent

log = logging.getLogger(__name__)


class CandidateRunner:
    """`hidden` are folders that no candidate may read. `say` is called at most once, with the reason why candidates are
    started cold although warm starts were asked for."""

    def __init__(self, tier: Tier, hidden: Sequence[Path], say: Callable[[str], Awaitable[None]] | None = None) -> None:
        self._tier, self._hidden = tier, hidden
        self._say = say
        self._warm: WarmParent | None = None

    @property
    def is_warm(self) -> bool:
        """Whether the next candidate will be forked from a warm parent."""
        return self._warm is not None

    async def warm_up(self, imports: Sequence[str]) -> None:
        """Start a parent with these imports, where the tier has one, and prove by the self-check that its forks are
        locked in as well as a cold start."""
        try:
            parent = start_warm_parent(self._tier, self._hidden, imports)
        except OSError as error:
            await self._tell(error.strerror or str(error))
            return
        if parent is None:
            return
        self._warm = parent
        await parent.ready()
        if not parent.broken:
            check = await check_tier(self._tier, parent, self._hidden)
            if not check.proven:
                parent.give_up(check.reason)
        if parent.broken:
            await self._go_cold(parent)

    async def close(self) -> None:
        """End the warm parent."""
        parent, self._warm = self._warm, None
        if parent is not None:
            await parent.close()

    async def run(self, job: Job, limits: Limits) -> Ended:
        """How the program ended. Raises InfrastructureFault if the machine did not start it."""
        parent = self._warm
        if parent is not None:
            try:
                ended = await launch(self._tier, job, limits, self._hidden, parent)
                verdict = judge(ended)
                if verdict.outcome != "infrastructure_error":
                    return ended
                parent.give_up(verdict.detail)
            except InfrastructureFault as fault:
                parent.give_up(str(fault))
            await self._go_cold(parent)
        return await launch(self._tier, job, limits, self._hidden)

    async def _go_cold(self, parent: WarmParent) -> None:
        """The first caller reports it. A parent that is given up has no candidates left."""
        if self._warm is parent:
            self._warm = None
            await parent.close()
            await self._tell(parent.broken)

    async def _tell(self, reason: str) -> None:
        text = f"candidates are started cold from here on: {one_line(reason)}"
        if self._say is None:
            log.warning("%s", text)
        else:
            await self._say(text)
