"""The seam that carries weights from the learner to the engine."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypedDict

import httpx

from pace_async.errors import InfrastructureFault
from pace_async.transfer import Offer, SharedBuffer, Table, Transfer


class PushFailed(InfrastructureFault):
    """A push failed. `began` is False if nothing was transferred and the old version is still served. It is True if the
    engine's weights are unknown and the engine stays paused."""

    def __init__(self, kind: str, detail: str, began: bool) -> None:
        super().__init__(kind, detail)
        self.began = began


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receiving side's record of what it loaded: the digest of each tensor's bytes, by name. It contains every
    tensor of the checkpoint, or the push has failed. Durations are in seconds. `k3` is the result of the later
    logprob probe (`publish.probe`), or None if there was no learner to compare with."""

    version: int
    digests: Mapping[str, str]
    seconds: float
    paused_seconds: float
    k3: float | None = None


class Publisher(Protocol):
    """pause → transfer → label with the version → resume. Only a publisher pauses engines. A probe comes after that."""

    async def publish(self, version: int, weights: Path) -> Receipt:
        """Raises PushFailed."""
        ...


class EnginePublisher(Publisher, Protocol):
    """A `Publisher` to one engine over HTTP."""

    @property
    def names_adapters(self) -> bool:
        """Whether each version is an adapter that requests name. Version 0 is then the base alone."""
        ...

    async def turn_to(self, name: str) -> None:
        """Send new requests to the proven version of this name."""
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


class PushSettings(TypedDict, total=False):
    """`phase_s` is the deadline of each phase, in seconds (60 by default), and large versions get more
    (`phases.SECONDS_A_GB`). `label` is called once in each push and gives the version's label. `transport` is httpx's,
    for an engine that is not behind a socket."""

    phase_s: float
    label: Callable[[int], str]
    transport: httpx.AsyncBaseTransport | None


class Holder(Protocol):
    """Has the newest version in its own memory."""

    def can_send(self, version: int) -> bool:
        """Whether the learner is idle and holds that version exactly as in its files."""
        ...


class Sender(Holder, Protocol):
    """Sends that version."""

    async def send(self, transfer: Transfer) -> None:
        """Send all tensors. Returns when the other end has them. Raises InfrastructureFault, also if the other end did
        not connect in time."""
        ...


class Sharer(Holder, Protocol):
    """Shares the newest version in its own memory with an engine on its card."""

    async def share(self, version: int, table: Table) -> SharedBuffer:
        """Copy these tensors of the version into a buffer and share it, in place of an earlier one. Raises
        InfrastructureFault."""
        ...

    def end_share(self, *, closed: bool) -> None:
        """The push is over: free the buffer as soon as possible. `closed`: the engine is known to have closed it."""
        ...


class LearnerMemory(Sender, Sharer, Protocol):
    """The learner, for a transport that takes versions from its memory."""


Announce = Callable[[Transfer], Awaitable[object]]
"""Announces a transfer to one engine, whose ranks then wait for the learner while they generate."""


class GroupSender(Holder, Protocol):
    """Sends the newest version from the learner's memory to every engine that asks for it at the same time."""

    async def send(self, version: int, ranks: int, transfer: Transfer, announce: Announce) -> None:
        """Send to an engine of so many ranks, which is announced the transfer with its places filled in. Returns when
        all ranks of all engines have the tensors. Raises what `announce` raises, and InfrastructureFault: of class
        `broadcast.GroupBroken` if there were other engines, one of which may have caused it."""
        ...


class Offerer(Protocol):
    """Puts versions where engines of other machines can fetch them."""

    async def offer(self, weights: Path, digests: Mapping[str, str], engine: str, seconds: float) -> Offer:
        """Offer a complete version with these digests of its tensors to the engine at this URL. Raises
        InfrastructureFault."""
        ...


@dataclass(frozen=True, slots=True)
class PublisherParts:
    """Arguments of a publisher to one engine. `phase_s` is the deadline of each phase, in seconds. `label` is called
    once in each push and gives the version's label. `sender` sends from the learner's memory, or None, and `sharer`
    shares it. `offerer` is None unless engines fetch versions."""

    url: str
    phase_s: float
    label: Callable[[int], str]
    sender: GroupSender | None
    offerer: Offerer | None = None
    sharer: Sharer | None = None


PublisherFactory = Callable[[PublisherParts], EnginePublisher]
"""Makes the publisher of one transport."""
