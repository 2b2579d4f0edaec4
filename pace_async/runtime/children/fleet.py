"""A fleet of external engines behind the seams of one engine.

Invariant: `served`, V, is the lowest version of any member that may get a request. It becomes L as soon as one member
is proven to serve L. From then on members that lag get no request until a push to them succeeds. A member gets requests
only while it is known to serve what this run pushed to it, under a label of this run. At the start none does. Each
member has a task that brings it to the newest version, watches it, and tries again while it fails. No task waits for
another. The caller decides how long all members may be down.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio

from pace_async.advise.base import Completion, PromptTooLong, Voided
from pace_async.errors import InfrastructureFault
from pace_async.publish.base import PushFailed, Receipt
from pace_async.runtime.children.replica import Replica, Tell

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """Timing of requests and checks. `wait_s`: how long a request waits for an available member. `look_s`: interval of
    the checks of an idle member, which detect that a server has gone or come back. `answer_s`: deadline of a check.
    `backoff`: seconds before try n."""

    tell: Tell
    backoff: Callable[[int], float]
    wait_s: float = 120.0
    look_s: float = 2.0
    answer_s: float = 10.0


@dataclass(slots=True, eq=False)
class FleetMember:
    """One engine of a fleet. `version` is the version proven to be served under `label`, None while unknown. `suspect`:
    it failed and was not checked since. `failures` counts failed checks and pushes, `streak` those in a row."""

    replica: Replica
    version: int | None = None
    label: str | None = None
    receipt: Receipt | None = None
    suspect: bool = False
    failures: int = 0
    streak: int = 0
    fault: InfrastructureFault | None = None
    asked: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])


class Fleet:
    """An `Engine`, a `Publisher` and a `engine_supervisor.SupervisedEngine`. Made by `fleet_of`."""

    log = "its operator has its log"

    def __init__(self, replicas: Sequence[Replica], version: int, weights: Path, policy: FleetPolicy) -> None:
        self.members = [FleetMember(replica) for replica in replicas]
        self.served = version
        self._target = version, weights
        self._policy = policy
        self._urged = 0
        self._event = anyio.Event()

    async def encode(self, text: str) -> tuple[int, ...]:
        return await self._ask(lambda replica: replica.encode(text))

    async def decode(self, token_ids: tuple[int, ...]) -> str:
        return await self._ask(lambda replica: replica.decode(token_ids))

    async def generate(
        self, prompt_ids: tuple[int, ...], *, max_tokens: int, temperature: float, seed: int
    ) -> Completion:
        return await self._ask(
            lambda replica: replica.generate(prompt_ids, max_tokens=max_tokens, temperature=temperature, seed=seed)
        )

    async def publish(self, version: int, weights: Path) -> Receipt:
        """Return once one member serves the version. The others follow in their own tasks. Raises PushFailed when every
        member has failed since the call."""
        self._target = version, weights
        self._urged += 1
        before = [member.failures for member in self.members]
        self._changed()
        while True:
            for member in self.members:
                if member.version == version and member.receipt is not None:
                    return member.receipt
            if all(member.failures > count for member, count in zip(self.members, before, strict=True)):
                raise PushFailed("no_engine_pushed", self.faults(), began=False)
            await self._event.wait()

    async def wait_lost(self, hung_s: float) -> InfrastructureFault:
        """Return when no member is available. Each check has its own deadline."""
        await self._until(lambda: not any(map(self.may_be_asked, self.members)))
        return InfrastructureFault("engine_died", "no engine can be asked: waiting for one")

    async def restart(self) -> None:
        """Return once a member can serve. Its own task brings it there."""
        await self._until(lambda: any(map(self.may_be_asked, self.members)))

    async def wait_refused(self, times: int) -> None:
        """Return when every member has answered and still failed so many times in a row."""
        await self._until(lambda: all(member.streak >= times and _answered(member) for member in self.members))

    def may_be_asked(self, member: FleetMember) -> bool:
        """Whether requests go to the member."""
        return member.version is not None and member.version >= self.served and not member.suspect

    def faults(self) -> str:
        """The fault of each member whose last check or push failed."""
        return "; ".join(f"{member.replica.url}: {member.fault}" for member in self.members if member.fault is not None)

    async def keep(self, member: FleetMember) -> None:
        """Bring the member to the newest version and keep it there, until cancelled."""
        while True:
            urged = self._urged
            if await self._bring(member):
                with anyio.move_on_after(self._policy.look_s):
                    await self._until(lambda: member.suspect or member.version != self._target[0])
            else:
                with anyio.move_on_after(self._policy.backoff(member.streak)):
                    await self._until(lambda urged=urged: self._urged != urged)

    async def _bring(self, member: FleetMember) -> bool:
        """Check the member and push to it if needed. Returns whether it serves the newest version."""
        version, weights = self._target
        try:
            label = await member.replica.client.label(self._policy.answer_s)
            if label != member.label:
                await self._forget(member, label)
            elif member.suspect:
                member.suspect = False
                self._changed()
            if member.version != version:
                member.receipt = await member.replica.publish(version, weights)
                member.version, member.label, member.suspect = version, member.replica.labels.last, False
                self.served = max(self.served, version)
        except InfrastructureFault as fault:
            await self._failed(member, fault)
            return False
        member.streak, member.fault = 0, None
        self._changed()
        return True

    async def _forget(self, member: FleetMember, label: str) -> None:
        """Record that the member serves other weights than were pushed."""
        expected, member.version, member.label = member.label, None, None
        if expected is not None:
            self._leave(member)
            detail = f"{member.replica.url} serves weights {label!r} where {expected!r} were pushed"
            await self._policy.tell(InfrastructureFault("other_weights", detail))

    async def _failed(self, member: FleetMember, fault: InfrastructureFault) -> None:
        if isinstance(fault, PushFailed) and fault.began:
            member.version = member.label = None
        elif not isinstance(fault, PushFailed) or fault.kind in ("push_unreachable", "push_timeout"):
            member.suspect = True
        if not self.may_be_asked(member):
            self._leave(member)
        known, member.fault = member.fault, fault
        member.failures += 1
        member.streak += 1
        self._changed()
        if known is None or known.kind != fault.kind:
            await self._policy.tell(InfrastructureFault(fault.kind, f"{member.replica.url}: {fault.detail}"))

    def _leave(self, member: FleetMember) -> None:
        """Cancel the member's open requests. Each moves to another member if there is one."""
        if any(map(self.may_be_asked, self.members)):
            for scope in member.asked:
                scope.cancel()

    async def _ask(self, ask: Callable[[Replica], Awaitable[T]]) -> T:
        with anyio.move_on_after(self._policy.wait_s) as waited:
            await self.restart()
        if waited.cancelled_caught:
            raise InfrastructureFault("no_engine", f"none could be asked for {self._policy.wait_s:g} s")
        member = min(filter(self.may_be_asked, self.members), key=lambda member: len(member.asked))
        with anyio.CancelScope() as scope:
            member.asked.add(scope)
            try:
                return await ask(member.replica)
            except (PromptTooLong, Voided):
                raise
            except InfrastructureFault as fault:
                if fault.kind != "engine_refused":
                    member.suspect = True
                    self._changed()
                raise
            finally:
                member.asked.discard(scope)
        raise InfrastructureFault("engine_lost", f"{member.replica.url} was left out before it had answered")

    def _changed(self) -> None:
        event, self._event = self._event, anyio.Event()
        event.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._event.wait()


@asynccontextmanager
async def fleet_of(
    replicas: Sequence[Replica], version: int, weights: Path, policy: FleetPolicy
) -> AsyncGenerator[Fleet]:
    """A fleet whose members are brought to `version` and kept up. An exception of the body passes through unchanged."""
    fleet = Fleet(replicas, version, weights, policy)
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        for member in fleet.members:
            tasks.start_soon(fleet.keep, member)
        try:
            yield fleet
        except Exception as error:
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _answered(member: FleetMember) -> bool:
    """Whether the member's last failure was an answer of the server."""
    silent = ("engine_unreachable", "engine_timeout", "push_unreachable", "push_timeout")
    return member.fault is not None and member.fault.kind not in silent
