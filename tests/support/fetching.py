"""Sources of versions that an engine fetches, and what becomes of an engine on another machine that fetches them."""

import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from pace_async.advise.client import HttpEngine
from pace_async.publish.base import PushFailed
from pace_async.publish.fetch import FetchPublisher
from pace_async.publish.file import FilePublisher
from pace_async.publish.offering import offering
from pace_async.publish.version_server import files_of
from pace_async.transfer import Offer
from pace_async.weights import checkpoint_digests, version_digest

NAME = "model.safetensors"


@contextmanager
def source(sent: bytes, announced: int, host: str = "127.0.0.1") -> Generator[str]:
    """A server that announces files of so many bytes, sends others, and closes the connection."""
    with socket.create_server((host, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.recv(1 << 16)
                    client.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {announced}\r\n\r\n".encode() + sent)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://{host}:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


class Elsewhere:
    """An `Offerer` of what another server has."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def offer(self, weights: Path, digests: Mapping[str, str], engine: str, seconds: float) -> Offer:
        return Offer(self.url, version_digest(digests), files_of(weights), "", seconds)


async def fetched_by_another_machine(url: str, here: str, versions: list[Path]) -> None:
    """The engine at `url`, which does not see the versions, gets the second one, keeps it while a fetch of the third
    one breaks off half-way, and gets that one afterwards. This machine has the address `here` there."""
    third = (versions[2] / NAME).read_bytes()
    with source(third[: len(third) // 2], len(third), here) as half:
        async with (
            offering(None) as offerer,
            FetchPublisher(url, offerer, phase_s=240.0) as publisher,
            FetchPublisher(url, Elsewhere(half), phase_s=240.0) as broken,
            FilePublisher(url, phase_s=240.0) as by_file,
            HttpEngine(url, timeout_s=240.0) as engine,
        ):
            with pytest.raises(PushFailed) as blind:
                await by_file.publish(1, versions[1])
            assert not blind.value.began
            receipt = await publisher.publish(1, versions[1])
            assert receipt.digests == checkpoint_digests(versions[1])
            with pytest.raises(PushFailed, match="was not fetched") as cut:
                await broken.publish(2, versions[2])
            assert (cut.value.kind, cut.value.began) == ("push_refused", False)
            assert await engine.served_version() == 1
            answer = await engine.generate(tuple(range(70, 100)), max_tokens=8, temperature=1.0, seed=3)
            assert [(span.version, span.start, span.end) for span in answer.spans] == [(1, 0, 8)]
            assert (await publisher.publish(2, versions[2])).digests == checkpoint_digests(versions[2])
            assert await engine.served_version() == 2
