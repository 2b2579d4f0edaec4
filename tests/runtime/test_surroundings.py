"""What a question says of the machine on which programs are evaluated."""

from pathlib import Path

import pytest

from pace_async.interface.evaluating import evaluate_program
from pace_async.runtime.start import surroundings
from pace_async.runtime.start.surroundings import surroundings_here, tools_on
from pace_async.task.own_program import own_program, task_yaml
from pace_async.task.spec import Bounds
from pace_async.yaml_text import dumped


def executable(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_a_compiler_counts_where_the_sandbox_shows_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "SHOWN", tmp_path / "shown")
    executable(tmp_path / "shown", "clang")
    executable(tmp_path / "shown", "a_compiler_of_no_name")
    (tmp_path / "shown" / "rustc").symlink_to(executable(tmp_path / "elsewhere", "rustc"))
    (tmp_path / "shown" / "gcc").symlink_to(executable(tmp_path / "shown", "gcc-13"))
    assert tools_on([str(tmp_path / "none"), str(tmp_path / "shown")]) == ("gcc", "clang")


COMPILES = """\
import pathlib, subprocess, sys
pathlib.Path("answer.c").write_text("#include <stdio.h>\\nint main(void) { puts(\\"42\\"); }")
subprocess.run(["cc", "answer.c", "-o", "answer"], check=True)
print(subprocess.run(["./answer"], check=True, capture_output=True, text=True).stdout)
"""


@pytest.mark.skipif("cc" not in surroundings_here().tools, reason="this machine has no C compiler")
def test_a_compiler_that_is_named_works_in_the_sandbox_of_a_command_task(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COMPILES)
    own = own_program(Path("program.py"), "python {program}", (), tmp_path)
    bounds = Bounds(lower=0, upper=100)
    fields = task_yaml(own, "maximize", "Answer.", bounds=bounds, timeout_s=60, memory_mb=2048, deterministic=True)
    (tmp_path / "task.yaml").write_text(dumped(fields))
    found = evaluate_program(tmp_path, tmp_path / "program.py")
    assert (found["score"], found["detail"]) == (42.0, "")
