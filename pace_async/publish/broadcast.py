"""One transfer to several engines: those that want the same version at the same time form one group.

    join → announce to every engine ∥ learner sends to all ranks → over, for all

Invariants: every rank of every engine has its own place in the group, and the learner sends once. A transfer is over
for all engines at the same time. If it fails, no engine has changed its weights. Each engine may then join again, and
one that no longer answers does not: so the next group is without it. A group waits at most for the transfer's deadline,
and at most `GATHER_S` for an engine that has not joined.
"""

import socket
from dataclasses import dataclass, field, replace

import anyio

from pace_async.errors import InfrastructureFault
from pace_async.publish.base import Announce, Sender
from pace_async.transfer import ADDRESS, RECEIVER, Transfer

GATHER_S = 0.5
"""Seconds that the first engine waits for the others. They are pushed to at the same time, and a push takes longer."""


class GroupBroken(InfrastructureFault):
    """A transfer to several engines failed. Those that still answer may join another one at once."""


@dataclass(eq=False, slots=True)
class _Group:
    """One transfer. `ranks` of each engine that has joined, `left` engines that have not announced it yet."""

    engines: int
    ranks: list[int] = field(default_factory=list[int])
    left: int = 0
    transfer: Transfer | None = None
    fault: GroupBroken | None = None
    full: anyio.Event = field(default_factory=anyio.Event)
    closed: anyio.Event = field(default_factory=anyio.Event)
    announced: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)

    def join(self, ranks: int) -> int:
        """Take places for an engine. Returns the first of them."""
        first = RECEIVER + sum(self.ranks)
        self.ranks.append(ranks)
        self.left += 1
        if len(self.ranks) == self.engines:
            self.full.set()
        return first

    def close(self, transfer: Transfer) -> None:
        """Admit no further engine."""
        self.transfer = replace(transfer, port=_free_port(), members=RECEIVER + sum(self.ranks))
        self.closed.set()

    async def announce(self, first: int, announce: Announce) -> None:
        """Announce it to one engine."""
        await self.closed.wait()
        if self.transfer is not None:
            await announce(replace(self.transfer, first=first))
        self.left -= 1
        if self.left == 0:
            self.announced.set()

    def fail(self, error: BaseException) -> None:
        """End it for all engines."""
        detail = error.detail if isinstance(error, InfrastructureFault) else "it was given up"
        self.fault = GroupBroken("transfer_broken", detail)
        for event in (self.closed, self.announced, self.over):
            event.set()


class Broadcast:
    """A `GroupSender` to at most so many engines."""

    def __init__(self, sender: Sender, engines: int = 1) -> None:
        self._sender = sender
        self._engines = engines
        self._open: dict[int, _Group] = {}

    def can_send(self, version: int) -> bool:
        return self._sender.can_send(version)

    async def send(self, version: int, ranks: int, transfer: Transfer, announce: Announce) -> None:
        group = self._open.get(version)
        leads = group is None
        if group is None:
            group = self._open[version] = _Group(self._engines)
        first = group.join(ranks)
        try:
            if leads:
                await self._gather(version, group, transfer)
            await group.announce(first, announce)
            if leads:
                await self._send(group)
        except BaseException as error:
            group.fail(error)
            raise
        await group.over.wait()
        if group.fault is not None:
            raise group.fault

    async def _gather(self, version: int, group: _Group, transfer: Transfer) -> None:
        try:
            with anyio.move_on_after(GATHER_S):
                await group.full.wait()
        finally:
            del self._open[version]
        group.close(transfer)

    async def _send(self, group: _Group) -> None:
        await group.announced.wait()
        if group.fault is None and group.transfer is not None:
            try:
                await self._sender.send(group.transfer)
            except InfrastructureFault as fault:
                if len(group.ranks) == 1:
                    raise
                raise GroupBroken(fault.kind, fault.detail) from fault
            group.over.set()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return probe.getsockname()[1]
