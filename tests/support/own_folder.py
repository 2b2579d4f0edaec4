"""A folder of this session alone for what tests write.

By itself pytest removes folders of earlier sessions, and with warnings as errors the session then fails if something in
one of them cannot be removed.
"""

import shutil
import tempfile
from pathlib import Path

import pytest


class OwnFolder:
    """A plugin. The folder is removed when every test passed, and kept otherwise. Where `--basetemp` names one (the
    workers' are named too), that one stays in use."""

    def __init__(self, config: pytest.Config) -> None:
        self._made: Path | None = None
        if config.option.basetemp is None:
            self._made = Path(tempfile.mkdtemp(prefix="pace-tests-"))
            config.option.basetemp = str(self._made)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._made is not None and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            shutil.rmtree(self._made, ignore_errors=True)
