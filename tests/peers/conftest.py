"""The command line of the tests of importers."""

from pathlib import Path

import pytest

from pace_async.runtime.start import importing
from tests.support.command_line import Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """With one try of each stage."""
    monkeypatch.setattr(importing, "TRIES", 1)
    return Shell(tmp_path, monkeypatch, capsys)
