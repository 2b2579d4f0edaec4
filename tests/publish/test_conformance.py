"""What every publisher must do: the one by files to the embedded engine, the simulated one, and a double's engine."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from pace_async.publish.base import Publisher, PushFailed
from pace_async.publish.file import FilePublisher
from pace_async.simulate.stages import WEIGHTS, SimulatedPublisher, World
from pace_async.weights import checkpoint_digests
from tests.doubles.engine_servers import EngineServer
from tests.doubles.publishers import PushedEngine
from tests.support.engine_models import save_tiny_model


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights that real and simulated publishers can read."""
    folder = save_tiny_model(tmp_path_factory.mktemp("versions") / "1", seed=1)
    (folder / WEIGHTS).write_text("17")
    return folder


@pytest.fixture(scope="module")
def server(version: Path) -> Iterator[EngineServer]:
    server = EngineServer(version)
    yield server
    server.kill()


@pytest.fixture(params=["file", "simulated", "double"])
async def publisher(request: pytest.FixtureRequest, version: Path) -> AsyncGenerator[Publisher]:
    if request.param == "file":
        async with FilePublisher(request.getfixturevalue("server").url) as publisher:
            yield publisher
    elif request.param == "simulated":
        yield SimulatedPublisher(World())
    else:
        yield PushedEngine(checkpoint_digests(version))


async def test_a_push_ends_with_a_receipt_of_its_version_and_can_be_repeated(
    publisher: Publisher, version: Path
) -> None:
    for number in (1, 2, 2):
        receipt = await publisher.publish(number, version)
        assert receipt.version == number
        assert receipt.digests
        assert 0.0 <= receipt.paused_seconds <= receipt.seconds
        assert receipt.k3 is None, "no learner was there to compare with"


async def test_incomplete_weights_are_refused_before_sending_and_the_next_push_works(
    publisher: Publisher, version: Path, tmp_path: Path
) -> None:
    with pytest.raises(PushFailed) as failed:
        await publisher.publish(1, tmp_path)
    assert not failed.value.began
    assert (await publisher.publish(1, version)).version == 1
