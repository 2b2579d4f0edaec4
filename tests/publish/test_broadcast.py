"""Engines that want a version at the same time get it in one transfer, and a broken group is made again without the one
that broke it. On virtual time."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pace_async.errors import InfrastructureFault
from pace_async.publish.base import PushFailed
from pace_async.publish.broadcast import GATHER_S, Broadcast, GroupBroken
from pace_async.publish.nccl import NcclPublisher
from pace_async.simulate.virtual import run_virtually
from pace_async.transfer import Transfer
from pace_async.weights import checkpoint_digests, record_digests
from tests.doubles.publishers import PushedEngine

BARE = Transfer(0, 60.0, ["a"], ["float32"], [[2]])


class Learner:
    """A sender that takes a second for a transfer, or until its deadline where an engine in it is dead."""

    def __init__(self) -> None:
        self.sent: list[Transfer] = []
        self.places: dict[int, list[tuple[str, int, int]]] = {}
        self.dead: set[str] = set()
        self.refusal: Exception | None = None

    def can_send(self, version: int) -> bool:
        return True

    async def send(self, transfer: Transfer) -> None:
        self.sent.append(transfer)
        if self.refusal is not None:
            raise self.refusal
        if self.dead & {engine for engine, _, _ in self.places[transfer.port]}:
            await anyio.sleep(transfer.seconds)
            raise InfrastructureFault("transfer_broken", f"not over after {transfer.seconds:g} s")
        await anyio.sleep(1.0)

    def announced(self, engine: str, ranks: int) -> Callable[[Transfer], Awaitable[None]]:
        async def announce(transfer: Transfer) -> None:
            self.places.setdefault(transfer.port, []).append((engine, transfer.first, ranks))

        return announce


Ends = dict[str, BaseException | float]
"""How a transfer ended for each engine: an error, or when it was over."""


def sent_to(learner: Learner, broadcast: Broadcast, engines: dict[str, tuple[int, float]]) -> Ends:
    """Send version 1 to engines of so many ranks, each from so many seconds on."""
    ends: Ends = {}

    async def one(engine: str, ranks: int, after: float) -> None:
        await anyio.sleep(after)
        try:
            await broadcast.send(1, ranks, BARE, learner.announced(engine, ranks))
        except Exception as error:
            ends[engine] = error
        else:
            ends[engine] = anyio.current_time()

    async def all_of_them() -> None:
        started = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for engine, (ranks, after) in engines.items():
                tasks.start_soon(one, engine, ranks, after)
        ends.update((engine, end - started) for engine, end in ends.items() if isinstance(end, float))

    run_virtually(all_of_them)
    return ends


def test_engines_that_come_together_get_one_transfer_and_every_rank_a_place_of_its_own() -> None:
    learner = Learner()
    ends = sent_to(learner, Broadcast(learner, 3), {"a": (1, 0.0), "b": (2, 0.1), "c": (4, 0.2)})
    assert ends == pytest.approx({"a": 1.2, "b": 1.2, "c": 1.2}, abs=0.01)
    (transfer,) = learner.sent
    assert transfer.members == 1 + 1 + 2 + 4
    taken = [place for _, first, ranks in learner.places[transfer.port] for place in range(first, first + ranks)]
    assert sorted(taken) == list(range(1, 8))


def test_one_that_comes_late_delays_the_others_by_little_and_gets_a_transfer_of_its_own() -> None:
    learner = Learner()
    ends = sent_to(learner, Broadcast(learner, 3), {"a": (1, 0.0), "b": (1, 0.0), "c": (2, 30.0)})
    assert ends == pytest.approx({"a": GATHER_S + 1, "b": GATHER_S + 1, "c": 30 + GATHER_S + 1}, abs=0.01)
    assert [transfer.members for transfer in learner.sent] == [3, 3]
    assert len({transfer.port for transfer in learner.sent}) == 2


def test_an_engine_alone_waits_for_nobody() -> None:
    learner = Learner()
    assert sent_to(learner, Broadcast(learner), {"a": (2, 0.0)}) == pytest.approx({"a": 1.0}, abs=0.01)


def test_a_transfer_that_fails_is_over_for_all_engines_at_once() -> None:
    learner = Learner()
    learner.dead = {"b"}
    ends = sent_to(learner, Broadcast(learner, 2), {"a": (1, 0.0), "b": (1, 0.0)})
    for end in ends.values():
        assert isinstance(end, GroupBroken)
        assert (end.kind, end.detail) == ("transfer_broken", "not over after 60 s")


def test_a_fault_that_is_no_engines_ends_the_transfer_for_all_and_is_told_once() -> None:
    learner = Learner()
    learner.refusal = ValueError("cannot be sent")
    ends = sent_to(learner, Broadcast(learner, 2), {"a": (1, 0.0), "b": (1, 0.0)})
    assert ends["a"] is learner.refusal
    assert isinstance(ends["b"], GroupBroken)


@pytest.mark.parametrize("gives_up", ["a", "b"])
def test_an_engine_that_gives_up_before_the_transfer_ends_it_for_the_others(gives_up: str) -> None:
    """The first to join, which sends, or another. It is still waiting for the others, or for its engine's answer."""
    learner, ends = Learner(), list[BaseException]()

    async def joins(broadcast: Broadcast, engine: str) -> None:
        try:
            await broadcast.send(1, 1, BARE, slow if engine == gives_up else learner.announced(engine, 1))
        except GroupBroken as error:
            ends.append(error)

    async def slow(transfer: Transfer) -> None:
        await anyio.sleep(100.0)

    async def both() -> None:
        broadcast = Broadcast(learner, 2)
        scopes = {"a": anyio.CancelScope(), "b": anyio.CancelScope()}

        async def one(engine: str) -> None:
            with scopes[engine]:
                await joins(broadcast, engine)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "a")
            await anyio.sleep(0.1)
            tasks.start_soon(one, "b")
            await anyio.sleep(5.0)
            scopes[gives_up].cancel()

    run_virtually(both)
    assert [str(end) for end in ends] == [str(GroupBroken("transfer_broken", "it was given up"))]
    assert learner.sent == []


def push_all(learner: Learner, engines: dict[str, PushedEngine], weights: Path) -> dict[str, PushFailed | None]:
    """Publish a version to all engines at once. Returns how it ended for each."""
    record_digests(weights)  # reading them would need a thread
    ends: dict[str, PushFailed | None] = {}

    async def one(name: str, broadcast: Broadcast) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            answered = engines[name](request)
            body: Any = engines[name].bodies.get("init_weight_transfer_engine")
            if engines[name].asked[-1] == "init_weight_transfer_engine":
                transfer = Transfer(**body["init_info"]["transfer"])
                learner.places.setdefault(transfer.port, []).append((name, transfer.first, engines[name].workers))
            return answered

        transport = httpx.MockTransport(answer)
        async with NcclPublisher("http://engine", broadcast, phase_s=60.0, transport=transport) as publisher:
            try:
                await publisher.publish(1, weights)
            except PushFailed as failed:
                ends[name] = failed
            else:
                ends[name] = None

    async def all_of_them() -> None:
        broadcast = Broadcast(learner, len(engines))
        async with anyio.create_task_group() as tasks:
            for name in engines:
                tasks.start_soon(one, name, broadcast)

    run_virtually(all_of_them)
    return ends


def dies_in_the_middle(learner: Learner, engine: PushedEngine, name: str) -> Callable[[httpx.Request], httpx.Response]:
    """It takes the announcement, and from then on nothing answers."""

    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nothing listens", request=request)

    def last_answer(request: httpx.Request) -> httpx.Response:
        learner.dead.add(name)
        engine.failing["serves_on"] = gone
        return httpx.Response(200, json={"message": "done"})

    return last_answer


@pytest.mark.fault("Weights", "a push that hangs")
def test_an_engine_that_dies_in_the_middle_holds_the_others_until_the_deadline_and_the_next_group_is_without_it(
    weights: Path,
) -> None:
    learner = Learner()
    engines = {name: PushedEngine(checkpoint_digests(weights), workers=2) for name in ("a", "b", "c")}
    engines["b"].failing["init_weight_transfer_engine"] = dies_in_the_middle(learner, engines["b"], "b")
    ends = push_all(learner, engines, weights)
    assert ends["a"] is None
    assert ends["c"] is None
    failed = ends["b"]
    assert failed is not None
    assert (failed.kind, failed.began) == ("push_unreachable", False)
    assert [transfer.members for transfer in learner.sent] == [7, 5]
    assert {engine for engine, _, _ in learner.places[learner.sent[1].port]} == {"a", "c"}


def test_an_engine_that_refuses_the_announcement_is_left_out_at_once(weights: Path) -> None:
    learner = Learner()
    engines = {name: PushedEngine(checkpoint_digests(weights)) for name in ("a", "b", "c")}
    engines["a"].failing["init_weight_transfer_engine"] = lambda request: httpx.Response(500, text="no")
    ends = push_all(learner, engines, weights)
    refused = ends.pop("a")
    assert refused is not None
    assert (refused.kind, refused.began) == ("push_refused", False)
    assert set(ends.values()) == {None}
    assert [transfer.members for transfer in learner.sent] == [3]


def test_engines_whose_groups_keep_breaking_give_up_after_two(weights: Path) -> None:
    learner = Learner()
    learner.refusal = InfrastructureFault("transfer_broken", "no card")
    engines = {name: PushedEngine(checkpoint_digests(weights)) for name in ("a", "b")}
    for failed in push_all(learner, engines, weights).values():
        assert failed is not None
        assert (failed.kind, failed.began) == ("transfer_broken", False)
    assert len(learner.sent) == 2
