"""The folder that holds what the tests of a session write."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.own_folder import OwnFolder


def session(basetemp: str | None) -> Any:
    return cast("Any", SimpleNamespace(option=SimpleNamespace(basetemp=basetemp)))


@pytest.mark.parametrize(("ended", "kept"), [(pytest.ExitCode.OK, False), (pytest.ExitCode.TESTS_FAILED, True)])
def test_a_session_s_folder_is_kept_only_where_a_test_failed(
    ended: pytest.ExitCode, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    config = session(None)
    plugin = OwnFolder(config)
    folder = Path(config.option.basetemp)
    (folder / "left by a test").mkdir()
    plugin.pytest_sessionfinish(int(ended))
    assert folder.parent == tmp_path
    assert folder.exists() is kept


def test_a_folder_that_was_named_stays(tmp_path: Path) -> None:
    config = session(str(tmp_path))
    OwnFolder(config).pytest_sessionfinish(int(pytest.ExitCode.OK))
    assert config.option.basetemp == str(tmp_path)
    assert tmp_path.exists()
