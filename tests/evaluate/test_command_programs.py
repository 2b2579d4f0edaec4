"""Evaluators of the user's whose programs are several files, or are compiled by the evaluator itself."""

import shutil
import sys
from pathlib import Path

import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from tests.doubles.evaluators import scored
from tests.support.command_tasks import make_command_task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")

COMPILED = {
    "c++": (
        "initial.cpp",
        'g++ -O1 -o built "$1" || exit 3',
        "#include <iostream>\n// EVOLVE-BLOCK-START\nconst int x = 3;\n// EVOLVE-BLOCK-END\n"
        "int main() { std::cout << x * 7 << std::endl; }\n",
    ),
    "go": (
        "initial.go",
        'go build -o built "$1" || exit 3',
        'package main\n\nimport "fmt"\n\n// EVOLVE-BLOCK-START\nvar x = 3\n\n// EVOLVE-BLOCK-END\n'
        "func main() { fmt.Println(x * 7) }\n",
    ),
}
ANSWER = '\necho "{\\"combined_score\\": $(./built)}" > "$2/metrics.json"\n'


async def test_the_files_of_a_program_lie_beside_each_other_and_a_change_of_each_counts(tmp_path: Path) -> None:
    (tmp_path / "any").mkdir()
    (tmp_path / "any" / "moves.py").write_text("def times(x):\n    return 7 * x\n# EVOLVE-BLOCK-END\n")
    task = make_command_task(
        tmp_path / "any",
        'echo "{\\"combined_score\\": $(python3 "$1")}" > "$2/metrics.json"\n',
        program="from moves import times\n# EVOLVE-BLOCK-START\nx = 3\nprint(times(x))\n",
        name="main.py",
        more={"language": "python", "files": ["moves.py"]},
    )
    async with open_evaluator(task, EvaluationConfig(retries=0), tier=await pick_tier(False)) as evaluator:
        assert (await scored(evaluator, task.program)).score == 21.0
        assert (await scored(evaluator, task.program.replace("x = 3", "x = 4"))).score == 28.0
        assert (await scored(evaluator, task.program.replace("7 *", "5 *"))).score == 15.0
        other = await scored(evaluator, task.program.replace("# FILE: moves.py", "# FILE: other.py"))
    assert (other.outcome, other.score) == ("candidate_error", None)
    assert "consists of main.py, moves.py" in other.detail


@pytest.mark.parametrize("language", COMPILED)
async def test_an_evaluator_compiles_programs_and_the_compilers_words_are_its_feedback(
    tmp_path: Path, language: str
) -> None:
    name, build, program = COMPILED[language]
    if shutil.which(build.split()[0]) is None:
        pytest.skip(f"there is no {build.split()[0]}")
    more = {"language": language, "feedback": True, "memory_mb": 1024, "timeout_s": 120}
    task = make_command_task(tmp_path / "any", build + ANSWER, program=program, name=name, more=more)
    async with open_evaluator(task, EvaluationConfig(retries=0), tier=await pick_tier(False)) as evaluator:
        good = await scored(evaluator, program)
        bad = await scored(evaluator, program.replace("x = 3", "x = nothing"))
    assert (good.outcome, good.score) == ("ok", 21.0), good.detail
    assert (bad.outcome, bad.score) == ("candidate_error", None)
    assert "exit code 3" in bad.detail
    assert "nothing" in bad.feedback
