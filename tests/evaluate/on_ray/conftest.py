"""One Ray cluster of two nodes for all tests of this folder."""

from collections.abc import Generator

import pytest

from tests.support.ray_nodes import RayNodes, ray_nodes


@pytest.fixture(scope="package")
def cluster() -> Generator[RayNodes]:
    """Each node has two CPUs. It ends with this folder: an idle one takes 20 s of processor time in a whole session."""
    with ray_nodes(2, 2) as nodes:
        yield nodes
