"""What some tests need of the machine. Without it they are skipped, or fail where PACE_NEEDS_<NAME> is set, so that a
skip is not taken for a pass. `.ci/run` sets the variables of what the set-up could install."""

import os
from typing import Literal, NoReturn

import pytest

Needed = Literal["NETWORK_NAMESPACES", "PGBOUNCER", "POSTGRES", "RAY", "REDIS"]


def required(name: Needed) -> bool:
    """Whether a test that lacks it must fail."""
    return bool(os.environ.get(f"PACE_NEEDS_{name}"))


def without(name: Needed, why: str) -> NoReturn:
    """Skip the test that runs, or fail it where this is required."""
    (pytest.fail if required(name) else pytest.skip)(why)


def skipped_without(name: Needed, found: bool, why: str) -> pytest.MarkDecorator:
    """Marks tests that are skipped if this was not found. Where it is required they run, and fail when they use it."""
    return pytest.mark.skipif(not found and not required(name), reason=why)
