"""What every test of the sandbox has."""

from collections.abc import Generator

import anyio
import pytest

from tests.sandbox.tiers import close_parents


@pytest.fixture(scope="module", autouse=True)
def parents() -> Generator[None]:
    """Warm parents are shared within a module and end with it."""
    yield
    anyio.run(close_parents)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
