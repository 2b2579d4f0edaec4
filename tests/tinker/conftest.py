"""SkyRL's server with a toy of random weights, one for all tests of the adapter: what it compiles takes most of their
time."""

import os
from collections.abc import AsyncGenerator, Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

from pace_async.config import TinkerConfig
from pace_async.providers.tinker.sdk import SdkService, open_service
from tests.support.skyrl_server import TOY_VOCAB, skyrl_server, until_up

HERE = find_spec("tinker") is not None and find_spec("skyrl") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if HERE or "PACE_NEEDS_TINKER" in os.environ:
        return
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.skip(reason="make test-tinker"))


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from scripts.benchmarks.toys import write_llama

    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=TOY_VOCAB, width=32, layers=1)


@pytest.fixture(scope="session")
def url(toy: Path) -> Generator[str]:
    with skyrl_server(toy, adapters=16) as url:
        yield url


@pytest.fixture(scope="session")
async def service(url: str, toy: Path) -> AsyncGenerator[SdkService]:
    await until_up(url)
    async with open_service(TinkerConfig(url=url, reduction="mean"), str(toy), 500.0) as opened:
        yield opened
