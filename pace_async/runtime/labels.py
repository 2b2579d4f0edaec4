"""What an engine's weights are called, and which names are to be believed.

Each push gives its weights a name of their own, `VERSION.RUN.PUSH`: so a server that came back with other weights, or
that another run pushed to, never passes for the one that was pushed to, and of two pushes of one version the one that
went wrong is told from the one that did not. Invariant: a version is given for a name only once its push has been
proven; who asks before waits, and is told `Voided` if it failed.
"""

import secrets
from dataclasses import dataclass, field

import anyio

from pace_async.advise.base import Voided
from pace_async.errors import InfrastructureFault


@dataclass(slots=True)
class _Push:
    version: int
    proven: bool | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)


class PushLabels:
    """`advise.client.Labels` of one engine. `numbered` is for an engine that the run itself starts with known weights:
    a bare number is then a version, too."""

    def __init__(self, *, numbered: bool = False) -> None:
        self._numbered = numbered
        self._run = secrets.token_hex(4)
        self._pushes: dict[str, _Push] = {}

    def begin(self, version: int) -> str:
        """A name for what is being pushed."""
        label = f"{version}.{self._run}.{len(self._pushes) + 1}"
        self._pushes[label] = _Push(version)
        return label

    def settle(self, proven: bool) -> str | None:
        """The push that was begun last is proven, or it has failed; its name if it is proven."""
        for label, push in reversed(self._pushes.items()):
            if push.proven is None:
                push.proven = proven
                push.settled.set()
            return label if push.proven else None
        return None

    @property
    def last(self) -> str | None:
        """The name begun last."""
        return next(reversed(self._pushes), None)

    async def version(self, label: str) -> int:
        push = self._pushes.get(label)
        if push is None:
            return self._number(label)
        await push.settled.wait()
        if not push.proven:
            raise Voided(f"sampled by weights {label}, which a probe or a push left unproven")
        return push.version

    async def oldest(self, before: str, after: str) -> int:
        versions = [await self.version(before), await self.version(after)]
        names = list(self._pushes)
        first = names.index(before) if before in self._pushes else -1
        last = names.index(after) if after in self._pushes else -1
        return min([*versions, *[await self.version(name) for name in names[first + 1 : last]]])

    def _number(self, label: str) -> int:
        if not (self._numbered and label.isdecimal()):
            raise InfrastructureFault("bad_spans", f"weights {label!r} are none that this run has pushed")
        return int(label)
