"""Small tasks whose programs are built and started by commands."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from pace_async.task import Task, load_task
from tests.support.evaluate_tasks import EVALUATOR

BUILD_C = ("gcc", "-O1", "-o", "program", "initial.c")
RUN = ("./program",)
DOUBLE_C = """
#include <stdio.h>
// EVOLVE-BLOCK-START
const int factor = 2;
// EVOLVE-BLOCK-END
int main(void) {
    int x;
    while (scanf(" {\\"x\\": %d}", &x) == 1) {
        printf("%d\\n", factor * x);
        fflush(stdout);
    }
}
"""
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler (apt-get install gcc)")


def make_process_task(
    folder: Path,
    program: str = DOUBLE_C,
    *,
    language: str = "c",
    build: Sequence[str] = BUILD_C,
    run: Sequence[str] = RUN,
    evaluator: str = EVALUATOR,
    more: str = "",
) -> Task:
    """A task whose programs get the values {"x": seed}, {"x": seed + 1} and {"x": seed + 2}."""
    folder.mkdir(parents=True, exist_ok=True)
    suffix = {"c": "c", "go": "go", "c++": "cpp", "python": "py"}[language]
    deterministic = "false" if "seconds" in evaluator else "true"
    (folder / "task.yaml").write_text(
        f"name: {folder.name}\nkind: process\nlanguage: {language}\n"
        "background: A sum.\ncoding_requirements: A number.\n"
        f"direction: maximize\nbounds: {{lower: 0, upper: 100}}\nmemory_mb: 256\noutput_mb: 1\n"
        f"deterministic: {deterministic}\nprogram: initial.{suffix}\nbuild: {json.dumps(list(build))}\n"
        f"run: {json.dumps(list(run))}\n{more or 'timeout_s: 30'}\n"
    )
    (folder / "evaluator.py").write_text(dedent(evaluator))
    (folder / f"initial.{suffix}").write_text(program)
    return load_task(str(folder))


def c_program(body: str, before: str = "") -> str:
    """A C program that runs `body` once it has read the first value into `x`."""
    return (
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <pthread.h>\n"
        f'{before}\nint main(void) {{\n    int x;\n    if (scanf(" {{\\"x\\": %d}}", &x) != 1) return 9;\n{body}\n}}\n'
    )
