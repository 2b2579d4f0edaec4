"""A browser for the tests of one file."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browsers import opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ask for it after everything that starts an event loop."""
    with opened() as found:
        yield found
