"""Which files of a compiler or interpreter a program is shown."""

import stat
from pathlib import Path

import pytest

from pace_async.evaluate.sandbox.environment import Environment
from pace_async.evaluate.sandbox.toolchain import find_toolchain, lacks_tools
from tests.support.process_tasks import make_process_task


def command(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_of_a_command_in_a_home_folder_only_its_own_folder_is_shown(tmp_path: Path) -> None:
    made = command(tmp_path / "home" / "bin" / "compiler")
    (tmp_path / "home" / "secret").write_text("a key")
    task = make_process_task(tmp_path / "sums", build=[str(made), "initial.c"])
    found = find_toolchain(task, Environment())
    assert made.parent in found.readable
    assert not any((tmp_path / "home" / "secret").is_relative_to(folder) for folder in found.readable)
    assert found.path.split(":")[0] == str(made.parent)


@pytest.mark.parametrize(("name", "option"), [("rustc", "--print"), ("python3", "-c")])
def test_a_command_that_knows_its_installation_brings_it_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, option: str
) -> None:
    real = command(tmp_path / "kept" / "stable" / "bin" / name).parent.parent
    command(tmp_path / "first" / name, f'#!/bin/sh\n[ "$1" = {option} ] && echo {real}\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}:/usr/bin:/bin")
    found = find_toolchain(make_process_task(tmp_path / "sums", build=[name, "initial.c"]), Environment())
    assert real in found.readable
    assert found.path.split(":")[0] == str(real / "bin")


def test_another_version_of_a_command_is_another_toolchain(tmp_path: Path) -> None:
    made = command(tmp_path / "bin" / "compiler")
    task = make_process_task(tmp_path / "sums", build=[str(made), "initial.c"])
    before = find_toolchain(task, Environment()).identity
    command(made, "#!/bin/sh\n# newer\n")
    assert find_toolchain(task, Environment()).identity != before


def test_what_a_build_makes_is_not_looked_for_on_the_machine(tmp_path: Path) -> None:
    assert lacks_tools(make_process_task(tmp_path / "sums", build=["sh"], run=["./program"])) == ""
    task = make_process_task(tmp_path / "sums", build=["sh"], run=["interpreter-that-is-missing"])
    assert "runs its programs with interpreter-that-is-missing" in lacks_tools(task)
