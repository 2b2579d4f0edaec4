"""Launches for one evaluator: from a warm parent for as long as that goes well, cold after.

Invariant: a candidate never pays for its parent. Where the parent refuses, dies or gives a process that never says that
it is ready, the same program is started cold at once, and so is every later one; that is said once.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pace_async.errors import InfrastructureFault
from pace_async.evaluate.launch import Ended, launch
from pace_async.evaluate.selfcheck import check_tier
from pace_async.evaluate.tiers import Limits, Tier
from pace_async.evaluate.verdict import judge, one_line
from pace_async.evaluate.warm import WarmParent, start_warm_parent
from pace_async.evaluate.work import Work

log = logging.getLogger(__name__)


class Launcher:
    """`hidden` are folders that no candidate may read. `say` is told, at most once, why candidates are started cold
    though warmth was asked for."""

    def __init__(
        self, tier: Tier, limits: Limits, hidden: Sequence[Path], say: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        self._tier, self._limits, self._hidden = tier, limits, hidden
        self._say = say
        self._warm: WarmParent | None = None

    @property
    def is_warm(self) -> bool:
        """Whether the next candidate will be forked."""
        return self._warm is not None

    async def warm_up(self, imports: Sequence[str]) -> None:
        """Start a parent with these imports, where the tier has one, and prove by the self-check that what it forks is
        locked in as well as what is started cold."""
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
        parent, self._warm = self._warm, None
        if parent is not None:
            await parent.close()

    async def launch(self, work: Work) -> Ended:
        """Raises InfrastructureFault if the machine would not start it."""
        parent, limits = self._warm, self._limits
        if work.timeout_s is not None:
            limits = replace(limits, seconds=work.timeout_s)
        if parent is not None:
            try:
                ended = await launch(self._tier, work, limits, self._hidden, parent)
                verdict = judge(ended)
                if verdict.outcome != "infrastructure_error":
                    return ended
                parent.give_up(verdict.detail)
            except InfrastructureFault as fault:
                parent.give_up(str(fault))
            await self._go_cold(parent)
        return await launch(self._tier, work, limits, self._hidden)

    async def _go_cold(self, parent: WarmParent) -> None:
        """Whoever comes first says it; a parent that is given up has no candidates left."""
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
