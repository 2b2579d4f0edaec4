"""What the tests of the command line begin with."""

from pathlib import Path

import pytest

from tests.support.finished_runs import make_run


@pytest.fixture
def finished_run(tmp_path: Path) -> Path:
    """A finished run as runs/circle_packing-1 in the folder of `shell`."""
    return make_run(tmp_path / "runs" / "circle_packing-1")
