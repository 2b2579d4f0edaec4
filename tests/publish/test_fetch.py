"""Versions that an engine fetches by digest: whole and proven, or not at all, and only what was offered."""

import socket
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest

from pace_async.advise.client import HttpEngine
from pace_async.advise.engines.fetched import KEPT, PLACE, fetched
from pace_async.advise.engines.load import BadCheckpoint
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.publish.base import Offerer, PushFailed
from pace_async.publish.fetch import FetchPublisher
from pace_async.publish.offering import CopiedVersions, offering
from pace_async.publish.version_server import KEPT as OFFERED
from pace_async.transfer import Offer
from pace_async.weights import checkpoint_digests, version_digest
from tests.doubles.engine_servers import EngineServer
from tests.support.engine_models import plain_logprobs, save_tiny_model
from tests.support.fetching import NAME, Elsewhere, source

PROMPT = tuple(range(70, 100))


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("versions")
    return [save_tiny_model(folder / str(seed), seed=seed) for seed in range(4)]


@pytest.fixture(scope="module")
def server(versions: list[Path]) -> Iterator[EngineServer]:
    server = EngineServer(versions[0])
    yield server
    server.kill()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of fetched versions, which is no folder of the run."""
    monkeypatch.setenv(PLACE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "versions"


@pytest.fixture
async def offerer() -> AsyncGenerator[Offerer]:
    async with offering(None) as offerer:
        yield offerer


async def offered(offerer: Offerer, version: Path) -> Offer:
    return await offerer.offer(version, checkpoint_digests(version), "http://127.0.0.1:1", 60.0)


def bytes_of(version: Path) -> bytes:
    return (version / NAME).read_bytes()


def held_in(cache: Path) -> set[str]:
    """The names of fetched versions, each of which holds what its name says."""
    names = {folder.name for folder in cache.iterdir() if folder.is_dir()}
    assert names == {version_in(cache / name) for name in names}
    return names


def version_in(folder: Path) -> str:
    return version_digest(checkpoint_digests(folder))


async def test_a_fetched_version_is_proven_and_served_and_needs_no_file_of_the_run(
    server: EngineServer, versions: list[Path], offerer: Offerer, cache: Path
) -> None:
    async with FetchPublisher(server.url, offerer) as publisher, HttpEngine(server.url) as engine:
        for version in (1, 2, 1):
            receipt = await publisher.publish(version, versions[version])
            assert receipt.digests == checkpoint_digests(versions[version])
            answer = await engine.generate(PROMPT, max_tokens=20, temperature=1.0, seed=version)
            expected = plain_logprobs(versions[version], PROMPT, answer.token_ids, 1.0)
            assert answer.logprobs == pytest.approx(expected, abs=1e-4)
    assert held_in(cache) == {version_in(versions[at]) for at in (1, 2)}


@pytest.mark.fault("Weights", "a fetch that breaks off")
async def test_a_fetch_that_breaks_off_half_way_leaves_the_old_version_served(
    server: EngineServer, versions: list[Path], offerer: Offerer, cache: Path
) -> None:
    whole = bytes_of(versions[2])
    with source(whole[: len(whole) // 2], len(whole)) as url:
        async with FetchPublisher(server.url, offerer) as publisher, HttpEngine(server.url) as engine:
            await publisher.publish(1, versions[1])
            async with FetchPublisher(server.url, Elsewhere(url)) as broken:
                with pytest.raises(PushFailed) as caught:
                    await broken.publish(2, versions[2])
            assert (caught.value.kind, caught.value.began) == ("push_refused", False)
            assert await engine.served_version() == 1
            answer = await engine.generate(PROMPT, max_tokens=10, temperature=1.0, seed=3)
            expected = plain_logprobs(versions[1], PROMPT, answer.token_ids, 1.0)
            assert answer.logprobs == pytest.approx(expected, abs=1e-4)
            assert held_in(cache) == {version_in(versions[1])}
            await publisher.publish(2, versions[2])
            assert await engine.served_version() == 2


def test_other_bytes_than_those_of_the_digest_are_refused(versions: list[Path], cache: Path) -> None:
    right, other = bytes_of(versions[1]), bytes_of(versions[2])
    size, digest = len(right), version_in(versions[1])
    assert len(other) == size
    for sent, announced, why in (
        (other, size, "has the digest"),
        (right[:-1] + b"\0\0", size + 1, "more than the announced"),
        (b"", 0, "0 of "),
        (bytes(size), size, "cannot be read"),
    ):
        with source(sent, announced) as url, pytest.raises(BadCheckpoint, match=why):
            fetched(Offer(url, digest, {"model.safetensors": size}, "", 60.0))
    assert held_in(cache) == set()


async def test_a_version_is_fetched_once_on_a_machine_and_the_last_used_are_kept(
    versions: list[Path], offerer: Offerer, cache: Path
) -> None:
    one = await offered(offerer, versions[0])
    folders: list[Path] = []

    async def fetch() -> None:
        folders.append(await anyio.to_thread.run_sync(fetched, one))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(fetch)
    assert folders == [cache / one.digest] * 3
    for version in versions[1:]:
        offer = await offered(offerer, version)
        await anyio.to_thread.run_sync(fetched, offer)
        # A version that is there needs no source.
        await anyio.to_thread.run_sync(fetched, replace(offer, url="http://127.0.0.1:1", token=""))
    assert held_in(cache) == {version_in(version) for version in versions[-KEPT:]}


async def test_only_offered_files_leave_and_only_for_the_token(versions: list[Path], offerer: Offerer) -> None:
    offers = [await offered(offerer, version) for version in versions]
    last, right = offers[-1], {"Authorization": f"Bearer {offers[-1].token}"}
    async with httpx.AsyncClient(base_url=last.url, trust_env=False) as http:
        answers = {
            (path, bool(headers)): (await http.get(path, headers=headers)).status_code
            for path in (
                f"/{last.digest}/model.safetensors",
                f"/{last.digest}/config.json",
                f"/{last.digest}/..%2F{last.digest}/model.safetensors",
                f"/{last.digest}/{versions[0]}/config.json",
                f"/{offers[0].digest}/model.safetensors",
                "/",
            )
            for headers in ({}, right)
        }
        wrong = await http.get(f"/{last.digest}/model.safetensors", headers={b"Authorization": "Bearer naïve".encode()})
        whole = await http.get(f"/{last.digest}/model.safetensors", headers=right)
    assert len(versions) > OFFERED, "the first one is not on offer any more"
    assert [asked for asked, status in answers.items() if status != 404] == [
        (f"/{last.digest}/model.safetensors", True)
    ]
    assert wrong.status_code == 404
    assert whole.content == bytes_of(versions[-1])


async def test_a_refused_fetch_names_no_token(versions: list[Path], offerer: Offerer) -> None:
    offer = await offered(offerer, versions[0])
    for changed in (replace(offer, token=f"{offer.token}x"), replace(offer, url="http://127.0.0.1:1")):
        with pytest.raises(BadCheckpoint) as caught:
            await anyio.to_thread.run_sync(fetched, changed)
        assert offer.token not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"url": "ftp://somewhere"}, "fetched from http, https, s3, file"),
        ({"url": "/etc"}, "fetched from"),
        ({"digest": "../../etc"}, "32 hex digits"),
        ({"files": {"../model.safetensors": 1}}, "plain names"),
        ({"files": {".hidden.safetensors": 1}}, "plain names"),
        ({"files": {"config.json": 1}}, "plain names"),
        ({"files": {}}, "safetensors files"),
        ({"files": {"model.safetensors": 1 << 60}}, "has room for"),
    ],
)
def test_a_hostile_offer_is_refused_and_writes_nothing(
    changed: dict[str, object], why: str, versions: list[Path], cache: Path
) -> None:
    offer = Offer("http://127.0.0.1:1", version_in(versions[0]), {"model.safetensors": 1}, "", 1.0)
    with pytest.raises(BadCheckpoint, match=why):
        fetched(replace(offer, **changed))  # pyright: ignore[reportArgumentType]
    assert not cache.exists() or [one.name for one in cache.iterdir()] == ["lock"]


async def test_versions_are_copied_to_a_folder_that_engines_can_read(
    server: EngineServer, versions: list[Path], tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    copied = CopiedVersions(f"file://{shared}/")
    half = shared / version_in(versions[1])  # of a run that was killed
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"half")
    async with FetchPublisher(server.url, copied) as publisher:
        for version in range(4):
            assert (await publisher.publish(version, versions[version])).digests
    assert held_in(shared) == {version_in(version) for version in versions[-OFFERED:]}
    (tmp_path / "file").touch()
    broken = CopiedVersions(f"file://{tmp_path}/file")
    async with FetchPublisher(server.url, broken) as publisher:
        with pytest.raises(PushFailed) as caught:
            await publisher.publish(4, versions[0])
    assert (caught.value.kind, caught.value.began) == ("offer_failed", False)


async def test_a_run_serves_versions_where_it_was_told_to_or_says_why_not(versions: list[Path]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with (
            offering(f"http://127.0.0.1:{port}") as offerer,
            FetchPublisher("http://127.0.0.1:1", offerer) as publisher,
        ):
            with pytest.raises(PushFailed, match=f"cannot be served at http://127.0.0.1:{port}") as caught:
                await publisher.publish(1, versions[1])
    assert (caught.value.kind, caught.value.began) == ("offer_failed", False)
    async with offering(f"http://127.0.0.1:{port}") as offerer:
        offer = await offered(offerer, versions[1])
        assert offer.url == f"http://127.0.0.1:{port}"
        assert version_in(await anyio.to_thread.run_sync(fetched, offer)) == offer.digest
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"advisor.transport": "fetch"}, "is for servers by URL, and advisor.engine is embedded"),
        ({"advisor.fetch_from": "http://10.0.0.1:9000"}, r"needs advisor\.transport fetch"),
        ({"advisor.fetch_from": "10.0.0.1:9000"}, "is neither http://HOST:PORT"),
        ({"advisor.fetch_from": "http://user@10.0.0.1:9000"}, "is neither http://HOST:PORT"),
    ],
)
def test_settings_that_fetch_nothing_are_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        resolve(None, settings, {})


def test_the_folder_for_versions_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLACE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    offer = Offer("http://127.0.0.1:1", "0" * 32, {"model.safetensors": 1}, "", 1.0)
    with pytest.raises(BadCheckpoint, match="was not fetched"):
        fetched(offer)
    assert (tmp_path / "home" / "pace" / "versions").stat().st_mode & 0o777 == 0o700
