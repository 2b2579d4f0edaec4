"""The commands of the README work as printed.

They run in a folder with a finished run. Searches are only planned, and a page is written but not opened.
"""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.support.command_line import Shell
from tests.support.finished_runs import copy_run, make_run
from tests.support.given_steps import count_steps_by
from tests.support.no_server import end_at_once

ROOT = Path(__file__).parents[2]


def lines(text: str) -> list[str]:
    """Every command of pace, from blocks and from sentences, in order."""
    found = re.findall(r"^(pace .+)$|`(pace [^`]+)`", text, re.MULTILINE)
    return [block or inline for block, inline in found]


README = lines((ROOT / "README.md").read_text(encoding="utf-8"))


def small(line: str) -> list[str]:
    """The words of a line, its run made small."""
    words = shlex.split(line.replace(" --open", ""), comments=True)
    if "--candidates" in words:
        at = words.index("--candidates") + 1
        words[at] = str(max(4, int(words[at]) // 12))
    return words[1:]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, a program and a scorer."""
    folder = tmp_path_factory.mktemp("readme")
    copy_run(make_run(folder / "made"), folder)
    shutil.rmtree(folder / "made", ignore_errors=True)
    (folder / "prog.py").write_text("print(1)\n")
    (folder / "score.py").write_text("print(1)\n")
    return folder


@pytest.mark.parametrize("line", README)
def test_a_line_of_the_readme_works_as_printed(
    line: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(prepared, tmp_path / "here"))
    arguments = small(line.replace("RUN", "circle_packing-1").replace("CANDIDATE", "1"))
    if line.startswith("pace resume"):
        arguments = ["resume", "circle_packing-1"]  # it is finished: going on has tests of its own
    if line.startswith(("pace run", "pace optimize")):
        arguments.append("--dry-run")
    end_at_once(monkeypatch)
    count_steps_by(monkeypatch)
    said = Shell(folder, monkeypatch, capsys).pace(*arguments)
    assert said.code == 0, said.err + said.out
    assert said.out or said.err
    assert "Traceback" not in said.err
