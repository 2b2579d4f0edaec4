"""Versions that an engine fetches from a bucket: proven by their digest, and only the last are kept."""

import importlib.util
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import pytest

from pace_async.advise.engines.fetched import PLACE, fetched
from pace_async.advise.engines.load import BadCheckpoint
from pace_async.publish.base import PushFailed
from pace_async.publish.fetch import FetchPublisher
from pace_async.publish.offering import CopiedVersions
from pace_async.publish.version_server import KEPT
from pace_async.weights import checkpoint_digests, version_digest
from tests.doubles.engine_servers import EngineServer
from tests.support.engine_models import save_tiny_model
from tests.support.fetching import NAME

MISSING = any(importlib.util.find_spec(one) is None for one in ("s3fs", "moto"))
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(MISSING and "PACE_NEEDS_EXTRAS" not in os.environ, reason="pip install '.[s3]' moto"),
]
BUCKET = "versions"


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A client of a bucket on a server of this process, which both sides find by the usual variables."""
    server = cast("Any", import_module("moto.server")).ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    names = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**names, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "kept secret"}.items():
            patch.setenv(name, value)
        client = cast("Any", import_module("boto3")).client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield client
        client.close()
    server.stop()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is fetched lies in the test's folder."""
    monkeypatch.setenv(PLACE, str(tmp_path / "cache"))


async def test_an_engine_fetches_each_version_from_a_bucket(tmp_path: Path, bucket: Any) -> None:
    versions = [save_tiny_model(tmp_path / str(seed), seed=seed) for seed in range(KEPT + 1)]
    server, copied = EngineServer(versions[0]), CopiedVersions(f"s3://{BUCKET}/of a run")
    try:
        async with FetchPublisher(server.url, copied) as publisher:
            for number, version in enumerate(versions, start=1):
                receipt = await publisher.publish(number, version)
                assert receipt.digests == checkpoint_digests(version)
            names = {one["Key"] for one in bucket.list_objects_v2(Bucket=BUCKET)["Contents"]}
            kept = [version_digest(checkpoint_digests(version)) for version in versions[-KEPT:]]
            assert names == {f"of a run/{digest}/{NAME}" for digest in kept}
            broken = CopiedVersions("s3://another/folder")
            async with FetchPublisher(server.url, broken) as nowhere:
                with pytest.raises(PushFailed, match="cannot be copied to s3://another/folder") as caught:
                    await nowhere.publish(9, versions[0])
            assert (caught.value.kind, caught.value.began) == ("offer_failed", False)
            assert "kept secret" not in str(caught.value)
            assert [one["Name"] for one in bucket.list_buckets()["Buckets"]] == [BUCKET], "no bucket is made by mistake"
    finally:
        server.kill()


async def test_what_somebody_changed_in_the_bucket_is_not_served(tmp_path: Path, bucket: Any) -> None:
    version, other = (save_tiny_model(tmp_path / str(seed), seed=seed) for seed in range(2))
    offer = await CopiedVersions(f"s3://{BUCKET}").offer(version, checkpoint_digests(version), "http://engine", 60.0)
    whole = (version / NAME).read_bytes()
    for changed, why in (
        ((other / NAME).read_bytes(), "has the digest"),
        (whole[:-1], f"{len(whole) - 1} of {len(whole)} bytes"),
        (whole + b"\0", "more than the announced"),
    ):
        bucket.put_object(Bucket=BUCKET, Key=f"{offer.digest}/{NAME}", Body=changed)
        with pytest.raises(BadCheckpoint, match=why):
            await anyio.to_thread.run_sync(fetched, offer)
    bucket.put_object(Bucket=BUCKET, Key=f"{offer.digest}/{NAME}", Body=whole)
    assert checkpoint_digests(await anyio.to_thread.run_sync(fetched, offer)) == checkpoint_digests(version)
