"""What every test of the sandbox has."""

from collections.abc import AsyncGenerator, Generator

import anyio
import pytest

from pace_async.evaluate.sandbox.tiers import Bubblewrap
from pace_async.evaluate.sandbox.warm import WarmParent, start_warm_parent
from tests.evaluate.sandbox.tiers import BWRAP, close_parents


@pytest.fixture(scope="module", autouse=True)
def parents() -> Generator[None]:
    """Warm parents are shared within a module and end with it."""
    yield
    anyio.run(close_parents)


@pytest.fixture
async def parent() -> AsyncGenerator[WarmParent]:
    """A warm parent of the test's own, which may be killed, or have its processes counted. Needs bubblewrap."""
    made = start_warm_parent(Bubblewrap(BWRAP or ""), (), [])
    assert made is not None
    await made.ready()
    yield made
    await made.close()
