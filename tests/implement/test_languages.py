"""What an implementer is asked, and what is taken from its answer, for a program in another language than Python."""

from pathlib import Path

import pytest

from pace_async.errors import CandidateFault, UsageError
from pace_async.events import ImplementerTry
from pace_async.events.complaint import complaint
from pace_async.implement.base import Experiment
from pace_async.implement.edits import program_of
from pace_async.implement.prompts import messages_for
from pace_async.implement.repair import is_repairable
from pace_async.programs.languages import BUILD_FAILED, PROGRAM_ENDED
from pace_async.search.state import Member
from pace_async.task import Task, load_task
from tests.support.process_tasks import DOUBLE_C, make_process_task

WHOLE = DOUBLE_C.replace("// EVOLVE-BLOCK-START\n", "").replace("// EVOLVE-BLOCK-END\n", "")
ERROR = "initial.c:9:24: error: 'factr' undeclared"


def asked(task: Task, *tries: ImplementerTry) -> tuple[str, str]:
    messages = messages_for(task, Member(1, task.program, 6.0), Experiment(1, "an idea", "Change it.", tries))
    return messages[0]["content"], messages[1]["content"]


def test_the_question_names_the_language_its_marks_and_how_the_program_is_built_and_started(tmp_path: Path) -> None:
    system, user = asked(make_process_task(tmp_path / "sums"))
    assert "one C program" in system and "`// EVOLVE-BLOCK-START`" in system and "```c\n" in system
    assert "built by `gcc -O1 -o program initial.c`" in user and "started by `./program`" in user
    assert "one JSON value a line" in user and f"```c\n{DOUBLE_C}```" in user
    assert "Python" not in system + user and "function" not in system + user


def test_of_a_program_without_marks_all_may_change(tmp_path: Path) -> None:
    system, _ = asked(make_process_task(tmp_path / "sums", WHOLE))
    assert "The whole program is the block that may change." in system
    assert "EVOLVE-BLOCK" not in system
    assert program_of("```c\nint main(void) {}\n```", WHOLE, "c") == "int main(void) {}\n"
    with pytest.raises(CandidateFault, match="inside the evolve block"):
        program_of("```c\n// EVOLVE-BLOCK-START\nint main(void) {}\n// EVOLVE-BLOCK-END\n```", WHOLE, "c")


def test_an_answer_in_the_language_changes_the_block_and_nothing_else() -> None:
    wanted = DOUBLE_C.replace("factor = 2", "factor = 3")
    assert program_of("```c\nconst int factor = 3;\n```", DOUBLE_C, "c") == wanted
    edit = "<<<<<<< SEARCH\nconst int factor = 2;\n=======\nconst int factor = 3;\n>>>>>>> REPLACE\n"
    assert program_of(edit, DOUBLE_C, "c") == wanted
    with pytest.raises(CandidateFault, match="the same as its parent"):
        program_of("```c\nconst int factor = 2;\n```", DOUBLE_C, "c")
    with pytest.raises(CandidateFault, match="marked python, not c"):
        program_of("```python\nfactor = 3\n```", DOUBLE_C, "c")


def test_a_model_is_shown_the_compilers_first_error(tmp_path: Path) -> None:
    task = make_process_task(tmp_path / "sums")
    tried = ImplementerTry(1, "m", "ok", "", DOUBLE_C, None, "candidate_error", f"{BUILD_FAILED}{ERROR}")
    assert is_repairable("candidate_error", f"{BUILD_FAILED}{ERROR}")
    assert f"It could not be built: {ERROR}" in asked(task, tried)[1]


@pytest.mark.parametrize("end", ["SIGSEGV", "exit code 101", "SIGABRT"])
def test_of_a_crash_a_model_learns_how_it_ended_and_nothing_that_the_program_printed(end: str) -> None:
    detail = f"{PROGRAM_ENDED} ({end}): hidden=[0.8147,0.9058]"
    assert is_repairable("candidate_error", detail)
    said = complaint("candidate_error", detail, DOUBLE_C, "")
    assert said == f"It ended before its last answer, with {end}."


def test_a_program_that_is_killed_is_not_repaired() -> None:
    assert not is_repairable("candidate_error", f"{PROGRAM_ENDED} (SIGKILL)")


def test_a_refused_output_is_described_without_the_words_of_the_evaluator() -> None:
    said = complaint("invalid_score", "the output is not JSON: 0.8147", DOUBLE_C, "")
    assert "one line of JSON" in said and "8147" not in said


def test_a_function_cannot_pass_its_words_off_as_a_compilers() -> None:
    said = complaint("candidate_error", f"{BUILD_FAILED}hidden=[0.8147]", "def f(x): pass", "f")
    assert "8147" not in said


def test_a_task_that_mixes_the_two_kinds_is_refused_in_one_sentence(tmp_path: Path) -> None:
    make_process_task(tmp_path / "sums")
    path = tmp_path / "sums" / "task.yaml"
    right = path.read_text()
    for old, new, words in (
        ("kind: process\n", "", "entry is missing"),
        ("kind: process\n", "entry: f\n", "are for tasks that say kind: process"),
        ('run: ["./program"]\n', "", "run is missing"),
        ("kind: process\n", "kind: process\nentry: f\n", "one file and no entry"),
        ("program: initial.c\n", "program: ../initial.c\n", "program"),
    ):
        assert old in right
        path.write_text(right.replace(old, new))
        with pytest.raises(UsageError, match=words):
            load_task(str(tmp_path / "sums"))
    path.write_text(right)
    (tmp_path / "sums" / "initial.c").write_text(DOUBLE_C.replace("// EVOLVE-BLOCK-END\n", ""))
    with pytest.raises(UsageError, match="exactly one // EVOLVE-BLOCK-START … // EVOLVE-BLOCK-END"):
        load_task(str(tmp_path / "sums"))
