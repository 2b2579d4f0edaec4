"""The commands of the tutorial and the README work as printed.

They run in an empty folder, in the printed order. Runs are made small and train nothing, the local server has another
port, and a page is written but not opened. Commands that need a provider on the network are left out.
"""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pace_async.task import load_task
from scripts.rivals.local_implementer_server import LocalProvider, serving
from tests.support.command_line import Shell, search
from tests.support.finished_runs import copy_run, make_run

ROOT = Path(__file__).parents[2]
URL = "http://127.0.0.1:8123/v1"
SEARCHES = ("pace run", "pace resume my_task")
"""They need a process of their own: they handle signals."""


def lines(text: str) -> list[str]:
    """Every command of pace, from blocks and from sentences, in order."""
    found = re.findall(r"^(pace .+)$|`(pace [^`]+)`", text, re.MULTILINE)
    return [block or inline for block, inline in found]


TUTORIAL = lines((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
README = lines((ROOT / "README.md").read_text(encoding="utf-8"))


def small(line: str) -> list[str]:
    """The words of a line, its run made small."""
    words = shlex.split(line.replace(" --open", ""))
    if "--candidates" in words:
        at = words.index("--candidates") + 1
        words[at] = str(max(4, int(words[at]) // 12))
    return words[1:]


@pytest.fixture
def server() -> Iterator[tuple[LocalProvider, str]]:
    provider = LocalProvider(load_task("circle_packing"))
    with serving(provider) as url:
        yield provider, url


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_tutorial_works_from_its_first_line_to_its_last(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    server: tuple[LocalProvider, str],
) -> None:
    provider, url = server
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    typed: list[str] = []
    for line in TUTORIAL:
        if "gemini/" in line:  # on the network
            continue
        if "--implementer" in line:
            provider.task = load_task(str(tmp_path / "my_task"))
        typed.append(line)
        arguments = small(line.replace(URL, url))
        if line.startswith(SEARCHES) and "--dry-run" not in line:
            done = search(tmp_path, arguments)
            assert done.code == 0, done.err + done.out
            said = done.out + done.err
        else:
            shown = Shell(tmp_path, monkeypatch, capsys).pace(*arguments)
            assert shown.code == 0, f"{line}: {shown.err}{shown.out}"
            said = shown.out + shown.err
        assert said.strip() and "Traceback" not in said, line
    assert len(typed) >= 14 and sum(URL in line for line in typed) == 2
    assert provider.calls >= 5
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["my_task-1", "my_task-2"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run."""
    folder = tmp_path_factory.mktemp("readme")
    copy_run(make_run(folder / "made"), folder)
    shutil.rmtree(folder / "made", ignore_errors=True)
    return folder


@pytest.mark.parametrize("line", README)
def test_a_line_of_the_readme_works_as_printed(
    line: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(prepared, tmp_path / "here"))
    arguments = small(line.replace("RUN", "circle_packing-1").replace("CANDIDATE", "1"))
    if line.startswith("pace resume"):
        arguments = ["resume", "circle_packing-1"]  # it is finished: going on has tests of its own
    if line.startswith("pace run"):
        arguments.append("--dry-run")
    said = Shell(folder, monkeypatch, capsys).pace(*arguments)
    assert said.code == 0, said.err + said.out
    assert said.out or said.err
    assert "Traceback" not in said.err
