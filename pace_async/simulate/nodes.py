"""Simulated machines under virtual time: nodes with slots, which die and come back, and evaluations that are preempted.

A node lives for an exponential time, is away for `repair_s`, and then is back, or replaced, with all its slots. All
that ran there when it died is lost. An attempt is preempted with a fixed probability, at a uniform share of its time.
Attempts wait in one line, first come, first served. The first gets a slot of the node with the most free ones.
Invariants: a life depends on the seed, the node and its number alone, and a preemption on the seed and the attempt's
identity, so that the order of events changes neither. An attempt never runs where the node is away, and never more of
them run on a node than it has slots.
"""

import asyncio
import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

from pace_async.evaluate.base import EvaluationId
from pace_async.search.draws import generator

End = Literal["done", "node_died", "preempted"]


@dataclass(frozen=True, slots=True)
class NodesShape:
    """Machines of one kind. `mtbf_s` is the mean life of a node in seconds (None: endless), `repair_s` how long it is
    away after that, and `preempt` the probability, below 1, that one attempt is preempted."""

    count: int
    slots_each: int
    mtbf_s: float | None = None
    repair_s: float = 600.0
    preempt: float = 0.0

    @property
    def slots(self) -> int:
        """Slots of all nodes."""
        return self.count * self.slots_each


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt: its node, why it ended, its seconds in a slot, and its wait for the slot."""

    node: int
    end: End
    seconds: float
    queue_seconds: float


@dataclass(slots=True)
class _Node:
    """A node in its life number `life` (from 1), which lasts from `since` to `until`. Before `since` it is away."""

    number: int
    free: int
    life: int = 0
    since: float = 0.0
    until: float = 0.0


@dataclass(slots=True)
class Nodes:
    """The nodes of one simulation, from virtual time 0 on. `ended` counts attempts by the cause of their end."""

    shape: NodesShape
    seed: int
    ended: Counter[End] = field(default_factory=Counter[End])
    _nodes: list[_Node] = field(init=False)
    _line: deque[asyncio.Future[_Node]] = field(default_factory=deque[asyncio.Future[_Node]])
    _woken_at: float = math.inf

    def __post_init__(self) -> None:
        self._nodes = [_Node(number, self.shape.slots_each) for number in range(self.shape.count)]
        for node in self._nodes:
            self._live(node, 0.0)

    async def run(self, identity: EvaluationId, seconds: float) -> Run:
        """Wait for a slot, and hold it for `seconds`, or until the attempt is lost. A caller that is cancelled gives
        its slot back."""
        now = asyncio.get_running_loop().time
        arrival = now()
        node = await self._slot()
        began, life, until = now(), node.life, node.until
        try:
            left, end = self._attempt_end(identity, seconds, until - began)
            await asyncio.sleep(left)
            self.ended[end] += 1
            if end == "node_died" and node.life == life:
                self._live(node, node.until + self.shape.repair_s)
            return Run(node.number, end, left, began - arrival)
        finally:
            node.free += 1
            self._serve()

    def deaths(self, until: float) -> tuple[int, float]:
        """How many nodes died before that time, and the seconds for which nodes were away until then."""
        died, away = 0, 0.0
        for node in self._nodes:
            life, end = 1, self.length(node.number, 1)
            while end < until:
                died += 1
                life, back = life + 1, end + self.shape.repair_s
                away += min(back, until) - end
                end = back + self.length(node.number, life)
        return died, away

    def length(self, node: int, life: int) -> float:
        """The seconds of one life of a node."""
        if self.shape.mtbf_s is None:
            return math.inf
        return generator(self.seed, "node", node, life).expovariate(1 / self.shape.mtbf_s)

    def _attempt_end(self, identity: EvaluationId, seconds: float, life: float) -> tuple[float, End]:
        """How long the attempt runs, and why it ends, on a node that lives for `life` seconds more."""
        ends: list[tuple[float, End]] = [(seconds, "done"), (life, "node_died")]
        if self.shape.preempt:
            draw = generator(self.seed, "preempt", *identity.series, identity.attempt)
            if draw.random() < self.shape.preempt:
                ends.append((seconds * draw.random(), "preempted"))
        return min(ends, key=lambda end: end[0])

    async def _slot(self) -> _Node:
        future = asyncio.get_running_loop().create_future()
        self._line.append(future)
        self._serve()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # served in the moment in which it was cancelled
                future.result().free += 1
                self._serve()
            raise

    def _serve(self) -> None:
        """Give free slots to those who wait. If they wait for a node to come back, serve them then."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._line:
            if self._line[0].done():  # its caller was cancelled
                self._line.popleft()
                continue
            node = self._freest(now)
            if node is None:
                break
            node.free -= 1
            self._line.popleft().set_result(node)
        back = min((node.since for node in self._nodes if node.free and node.since > now), default=math.inf)
        if self._line and back < self._woken_at:
            self._woken_at = back
            loop.call_at(back, self._wake)

    def _wake(self) -> None:
        self._woken_at = math.inf
        self._serve()

    def _freest(self, now: float) -> _Node | None:
        best: _Node | None = None
        for node in self._nodes:
            while now >= node.until:
                self._live(node, node.until + self.shape.repair_s)
            if node.free and node.since <= now and (best is None or node.free > best.free):
                best = node
        return best

    def _live(self, node: _Node, since: float) -> None:
        """Begin the node's next life."""
        node.life += 1
        node.since, node.until = since, since + self.length(node.number, node.life)
