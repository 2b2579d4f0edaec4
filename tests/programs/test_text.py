"""Programs of several files: one text everywhere, modules in the sandbox."""

import json
import sys
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import EvaluationConfig
from pace_async.errors import CandidateFault, UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.implement.edits import program_of
from pace_async.programs.compiled import compiled, program_hash
from pace_async.programs.text import join_files, parted
from pace_async.task import Task, load_task
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.tiers import TIERS
from tests.support.command_line import Shell
from tests.support.evaluate_tasks import make_task

MAIN = "import math\nimport moves\n# EVOLVE-BLOCK-START\ndef f(instance):\n    return moves.grow(instance['x'])\n"
MOVES = (
    "from __future__ import annotations\nfrom grow import by\n\ndef grow(x):\n    return by(x, 3)\n# EVOLVE-BLOCK-END\n"
)
GROW = "def by(x, times):\n    return x * times\n"
names = st.lists(st.sampled_from(["a.py", "b.py", "c_1.py"]), min_size=1, unique=True)
texts = st.lists(st.sampled_from(["", "x = 1\n", "# FILE: no\n", "\n\ny = 2\n"]), min_size=3, max_size=3)


def several(folder: Path) -> Task:
    make_task(folder)
    for name, text in {"initial.py": MAIN, "moves.py": MOVES, "grow.py": GROW}.items():
        (folder / name).write_text(text)
    with (folder / "task.yaml").open("a") as stream:
        stream.write("files: [moves.py, grow.py]\n")
    return load_task(str(folder))


@given(names=names, texts=texts)
def test_files_joined_and_parted_are_the_same_text(names: list[str], texts: list[str]) -> None:
    program = join_files(dict(zip(names, texts, strict=False)))
    parts = parted(program)
    assert [name for name, _ in parts] == names
    assert "".join(text for _, text in parts) == program
    assert parted("\n" + program) == (("", "\n" + program),)


def test_the_same_program_is_the_same_files_with_the_same_content() -> None:
    program = join_files(
        {"a.py": "from __future__ import annotations\nx = 1\n", "b.py": "from __future__ import annotations\n"}
    )
    assert compiled(program).fault == ""
    assert program_hash(program) == program_hash(program.replace("x = 1", "x = 1  # a comment\n"))
    assert program_hash(program) != program_hash(program.replace("b.py", "c.py"))
    assert program_hash(join_files({"a.py": "x = 1\n", "b.py": ""})) != program_hash(
        join_files({"a.py": "", "b.py": "x = 1\n"})
    )
    assert compiled(join_files({"a.py": "x = 1\n", "b.py": "y = (\n"})).fault.startswith("line 4:")


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
@pytest.mark.parametrize("tier", TIERS)
def test_the_first_file_imports_the_others_and_an_edit_may_change_any_of_them(tier: Tier, tmp_path: Path) -> None:
    task = several(tmp_path / "sum")
    answer = "<<<<<<< SEARCH\n    return by(x, 3)\n=======\n    return by(x, 5)\n>>>>>>> REPLACE\n"
    edited = program_of(answer, task.program)
    foreign = task.program.replace("# FILE: grow.py", "# FILE: other.py")
    without = task.program.partition("# FILE: moves.py")[0]
    programs = [task.program, edited, foreign, without, "def f(instance):\n    return instance['x']\n"]

    async def main() -> list[Evaluation]:
        async with open_evaluator(task, EvaluationConfig(), tier=tier, log=tmp_path / "log") as evaluator:
            return [await scored(evaluator, program, 1) for program in programs]

    own, changed, strange, lacking, alone = anyio.run(main)
    assert (own.score, changed.score, alone.score) == (18.0, 30.0, 6.0), own.detail
    assert (strange.outcome, lacking.outcome) == ("candidate_error", "candidate_error")
    assert "consists of initial.py, moves.py, grow.py" in strange.detail
    assert lacking.detail.startswith("ModuleNotFoundError: No module named 'moves' (line 3)")


def test_the_block_s_borders_and_the_task_s_files_are_held(tmp_path: Path) -> None:
    task = several(tmp_path / "sum")
    assert task.program.count("# FILE: ") == 3
    with pytest.raises(CandidateFault, match="syntax_error"):
        program_of("```python\nfactor = (\n```", task.program)
    (tmp_path / "sum" / "grow.py").unlink()
    with pytest.raises(UsageError, match=r"files names 'grow\.py', which is not in"):
        load_task(str(tmp_path / "sum"))
    text = (tmp_path / "sum" / "task.yaml").read_text()
    (tmp_path / "sum" / "task.yaml").write_text(text.replace("grow.py", "initial.py"))
    with pytest.raises(UsageError, match="different Python files"):
        load_task(str(tmp_path / "sum"))


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
def test_eval_of_a_first_file_takes_the_others_from_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = several(tmp_path / "sum")
    shell = Shell(tmp_path, monkeypatch, capsys)
    whole = tmp_path / "whole.py"
    whole.write_text(task.program)
    first = task.folder / task.spec.program
    scores = [json.loads(shell.pace("eval", "./sum", str(file), "--json").out)["score"] for file in (first, whole)]
    assert scores[0] == scores[1] is not None
    (tmp_path / "alone.py").write_text(first.read_text())
    alone = json.loads(shell.pace("eval", "./sum", "alone.py", "--json").out)
    assert (alone["outcome"], alone["score"]) == ("candidate_error", None)
    assert "moves" in alone["detail"]
