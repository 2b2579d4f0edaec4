"""What a question says of the machine on which programs are evaluated."""

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.interface.evaluating import evaluate_program
from pace_async.runtime.start import surroundings
from pace_async.runtime.start.surroundings import surroundings_here, surroundings_of, tools_on
from pace_async.task import load_task
from pace_async.task.own_program import own_program, task_yaml
from pace_async.task.resources import Environment
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


def test_a_task_with_an_environment_of_its_own_finds_the_python_and_the_packages_of_that(tmp_path: Path) -> None:
    packages = tmp_path / "env" / "lib" / "python3.9" / "site-packages"
    for name in ("numpy-1.26.4", "scikit_learn-1.5.0", "unknown_to_pace-1.0"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
        title, number = name.split("-")
        (packages / f"{name}.dist-info" / "METADATA").write_text(f"Name: {title}\nVersion: {number}\n")
    task = load_task("circle_packing")
    own = task.spec.model_copy(update={"environment": Environment(prefix=str(tmp_path / "env"))})
    found = surroundings_of(replace(task, spec=own))
    assert (found.python, found.packages, found.tools) == ("3.9", ("numpy 1.26", "scikit-learn 1.5"), ())
    assert surroundings_of(task) == surroundings_here()
    assert surroundings_here().python == platform.python_version()
    other = task.spec.model_copy(update={"environment": Environment(prefix=str(tmp_path / "none"))})
    assert surroundings_of(replace(task, spec=other)).packages == ()


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
