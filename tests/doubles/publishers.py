"""Publishers for tests, and the engine that a push meets."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx

from pace_async.publish.base import Receipt
from pace_async.publish.file import FilePublisher
from tests.support.publishing import phase_of

Failure = Callable[[httpx.Request], httpx.Response]


class PushedEngine:
    """An engine that answers every phase as it should, or one of them otherwise, and keeps what it was asked."""

    def __init__(self, digests: dict[str, str], workers: int = 1) -> None:
        self.receipts = [dict(digests) for _ in range(workers)]
        self.read = dict(digests)
        self.workers = workers
        self.looks = 0
        self.asked: list[str] = []
        self.bodies: dict[str, object] = {}
        self.failing: dict[str, Failure] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        phase = phase_of(request.url.path, request.content)
        self.asked.append(phase)
        self.bodies[phase] = json.loads(request.content) if request.content else dict(request.url.params)
        if phase in self.failing:
            return self.failing[phase](request)
        if phase == "weights_prepared":
            self.looks -= 1
            ready = self.looks < 0
            return httpx.Response(200, json={"results": [self.read if ready else None] * self.workers})
        if phase == "memory_closed":
            return httpx.Response(200, json={"results": [{"closed": True}] * self.workers})
        if phase == "serves_on":
            return httpx.Response(200, json={"results": ["cuda"] * self.workers})
        answer = {"results": self.receipts} if phase == "weight_receipt" else {"message": "done"}
        return httpx.Response(200, json=answer)

    async def publish(self, version: int, weights: Path) -> Receipt:
        async with FilePublisher("http://engine", transport=httpx.MockTransport(self)) as publisher:
            return await publisher.publish(version, weights)


def refusing(request: httpx.Request) -> httpx.Response:
    return httpx.Response(500, json={"error": {"message": "no"}})


def breaking(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("connection lost", request=request)
