"""An installation without torch and litellm searches and reads runs, and says how to add what is missing."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pace_async import installing
from pace_async.config import Config
from pace_async.errors import NotHere
from pace_async.installing import EXTRAS, install_line
from pace_async.runtime.start.packages import refuse_without_packages

UNKNOWN = "pip install 'PLACE[ray]', where PLACE is a clone of pace or its wheel (docs/install.md)"
ENDED = "a command ended with "
SMALL = """
import shlex, sys
for name in {hidden!r}:
    sys.modules[name] = None
from pace_async.cli.main import main
for line in {lines!r}:
    sys.argv = ["pace", *shlex.split(line)]
    try:
        main()
    except SystemExit as ended:
        print({ended_mark!r} + str(ended.code or 0), file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    installing._origin.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield
    installing._origin.cache_clear()  # pyright: ignore[reportPrivateUsage]


def small(folder: Path, *lines: str) -> list[tuple[int, str]]:
    """Exit code and standard error of command lines in one process, which cannot import what the extras bring."""
    hidden = [package for packages in EXTRAS.values() for package in packages]
    command = [sys.executable, "-c", SMALL.format(hidden=hidden, lines=lines, ended_mark=ENDED)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    *texts, last = re.split(rf"{ENDED}(\d+)\n", done.stderr)
    assert last == "", last
    return [(int(code), text) for text, code in zip(texts[::2], texts[1::2], strict=True)]


@pytest.mark.long
@pytest.mark.nightly
def test_a_small_installation_searches_reads_and_says_what_it_lacks(tmp_path: Path) -> None:
    works = (
        "run circle_packing --advisor bandit --candidates 4 --display plain --run-dir run",
        "status run",
        "best run",
        "report run -o run.html",
        "db check run",
    )
    lacks = {
        "run circle_packing --candidates 4 --run-dir other": "learn",
        "run circle_packing --advisor bandit --implementer ollama/x --run-dir other": "api",
        "plan": "learn",
        "export run --format parquet -o run.parquet": "parquet",
    }
    ended = dict(zip((*works, *lacks), small(tmp_path, *works, *lacks), strict=True))
    for line in works:
        assert ended[line][0] == 0, (line, ended[line])
    for line, extra in lacks.items():
        code, err = ended[line]
        assert code == 2 and install_line(extra) in err and "Traceback" not in err, (line, code, err)
    assert not (tmp_path / "other").exists() and not (tmp_path / "run.parquet").exists()


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ({"url": "file://{place}", "dir_info": {"editable": True}}, "pip install -e '{place}[ray]'"),
        ({"url": "file://{place}", "dir_info": {}}, "pip install '{place}[ray]'"),
        ({"url": "file://{place}/pace%20async.whl", "archive_info": {}}, "pip install '{place}/pace async.whl[ray]'"),
        ({"url": "file://{place}/gone.whl", "archive_info": {}}, UNKNOWN),
        ({"url": "https://example.org/pace_async.whl"}, UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_the_line_fits_how_pace_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: dict[str, Any] | None, line: str
) -> None:
    (tmp_path / "pace async.whl").touch()
    text = None if record is None else json.dumps(record).replace("{place}", str(tmp_path))
    recorded = SimpleNamespace(read_text={"direct_url.json": text}.get)
    monkeypatch.setattr(installing, "distribution", Mock(return_value=recorded))
    assert install_line("ray") == line.replace("{place}", str(tmp_path))


@pytest.mark.parametrize(("pip", "begins"), [(None, "uv pip install "), (object(), "pip install ")])
def test_the_line_of_an_environment_that_uv_made_needs_no_pip(
    monkeypatch: pytest.MonkeyPatch, pip: object, begins: str
) -> None:
    recorded = SimpleNamespace(read_text={"INSTALLER": "uv\n"}.get)
    monkeypatch.setattr(installing, "distribution", Mock(return_value=recorded))
    monkeypatch.setattr(installing, "find_spec", Mock(return_value=pip))
    assert install_line("ray").startswith(begins)


@pytest.mark.parametrize(("published", "line"), [(False, UNKNOWN), (True, "pip install 'pace-async[ray]'")])
def test_a_copy_that_nobody_installed_names_the_package_only_where_an_index_has_it(
    monkeypatch: pytest.MonkeyPatch, published: bool, line: str
) -> None:
    monkeypatch.setattr(installing, "distribution", Mock(side_effect=PackageNotFoundError))
    monkeypatch.setattr(installing, "PUBLISHED", published)
    assert install_line("ray") == line


def config(advisor: str, implementer: str) -> Config:
    return Config.model_validate({"advisor": {"model": advisor}, "implementer": {"model": implementer}})


@pytest.mark.parametrize(
    ("advisor", "implementer", "extra"),
    [
        ("tiny", "catalog", "learn"),
        ("bandit", "openai/x", "api"),
        ("api:openai/x", "catalog", "api"),
        ("bandit", "catalog", ""),
    ],
)
def test_a_run_needs_no_more_than_its_actors(
    monkeypatch: pytest.MonkeyPatch, advisor: str, implementer: str, extra: str
) -> None:
    monkeypatch.setattr(installing, "find_spec", Mock(return_value=None))
    if extra:
        with pytest.raises(NotHere) as refused:
            refuse_without_packages(config(advisor, implementer))
        assert install_line(extra) in str(refused.value)
    else:
        refuse_without_packages(config(advisor, implementer))
