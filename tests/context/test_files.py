"""A program of several files in a question: the needed files first, as many as there is room for."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.config import PromptsConfig
from pace_async.context.beside import beside
from pace_async.context.checked import first_questions
from pace_async.context.files import files_levels, files_text, may_change_text
from pace_async.context.questions import Prompts
from pace_async.context.sections import FILES_SHARE, Levels, fit_sections
from pace_async.context.templates import Templates
from pace_async.context.texts import size_text
from pace_async.programs.fileset import Program
from pace_async.search.state import Member
from pace_async.task import Task, TaskSpec

BODY = "".join(f"    line_{number} = {number}\n" for number in range(60))
FILES = {
    "src/core.py": f"class Core:\n    def run(self, n: int) -> int:\n{BODY}",
    "src/other.py": f"def helper(a, b):\n{BODY}",
    "src/util.py": f"async def wait():\n{BODY}",
    "bench.py": f"def main():\n{BODY}",
    "README.md": "read me\n" * 100,
}
SEED = Program.of_files(FILES)
CHANGED = Program.of_files({**FILES, "src/util.py": FILES["src/util.py"] + "    return 1\n"})
SPEC = TaskSpec.model_validate(
    {
        "name": "own",
        "kind": "command",
        "background": "b",
        "coding_requirements": "c",
        "direction": "maximize",
        "bounds": {"lower": 0, "upper": 1},
        "program": "files",
        "change": ["src/**"],
        "hide": ["tests/**"],
        "evaluate": ["python", "bench.py"],
        "timeout_s": 1,
        "memory_mb": 64,
        "deterministic": True,
    }
)


def whole_files(text: str) -> list[str]:
    """The files that are shown whole, in their order."""
    return [line.split(" ")[1] for line in text.splitlines() if line.startswith("FILE: ")]


def test_all_files_are_shown_whole_where_there_is_room() -> None:
    text = files_text(CHANGED.text, SEED.text, SPEC, "Candidate 4.")
    assert text.startswith("Candidate 4.\nFILE: src/util.py\n```python\nasync def wait():")
    assert whole_files(text) == ["src/util.py", "src/core.py", "src/other.py", "bench.py"]
    assert "FILE: bench.py (may not change)\n" in text
    assert text.endswith("signatures or first lines:\nREADME.md (101 lines, may not change)" + 3 * "\n    read me")


def test_data_that_may_not_change_is_shown_whole_where_it_is_short_or_asked_for() -> None:
    assert whole_files(files_levels(CHANGED.text, SEED.text, SPEC, "", "See README.md.")(0) or "")[1] == "README.md"
    short = Program.of_files({**FILES, "README.md": "read me\n"})
    assert "README.md" in whole_files(files_levels(short.text, short.text, SPEC, "")(0) or "")


def test_named_files_come_after_changed_ones_and_before_the_others() -> None:
    levels = files_levels(CHANGED.text, SEED.text, SPEC, "", "Change helper in other.py, see bench.py.")
    assert whole_files(levels(0) or "")[:3] == ["src/util.py", "bench.py", "src/other.py"]


def test_files_without_room_are_told_by_name_and_signature() -> None:
    levels = files_levels(CHANGED.text, SEED.text, SPEC, "")
    text = levels(3) or ""
    assert whole_files(text)[0] == "src/util.py"
    assert "src/other.py (61 lines)" not in whole_files(text)
    assert "    def run(self, n: int) -> int:" in text
    assert "bench.py (62 lines, may not change)\n    def main():" in text
    assert "line_30 = 30" not in text.partition("Files that are not shown here")[2]


def test_each_level_is_shorter_and_the_last_shows_no_file() -> None:
    levels = files_levels(CHANGED.text, SEED.text, SPEC, "head")
    texts: list[str] = []
    while (text := levels(len(texts))) is not None:
        texts.append(text)
    sizes = [len(text) for text in texts]
    assert sizes == sorted(sizes, reverse=True)
    assert whole_files(texts[-1]) == []
    assert all(path in texts[-1] for path in FILES)


@pytest.mark.parametrize("budget", [60_000, 6_000, 3_000, 1_500])
def test_a_question_keeps_room_for_the_rest(budget: int) -> None:
    def told(text: str) -> Levels:
        return lambda level: text if level == 0 else None

    program = files_levels(CHANGED.text, SEED.text, SPEC, "head")
    found = fit_sections({"task": told("task " * 20), "results": told("r" * 400), "program": program}, budget)
    assert found.size <= budget
    least = len(program(7) or "")
    assert len(found.texts["program"]) <= max(budget * FILES_SHARE, least)
    assert found.texts["results"] or budget < 3_000


def test_a_program_beside_the_parent_is_shown_by_its_changed_files_only() -> None:
    text = beside(CHANGED.text, Member(3, SEED.text, 1.0), SPEC)
    assert text.startswith("as a difference from candidate 3:\n```diff\nFILE: src/util.py\n")
    assert "core.py" not in text


def test_the_questions_speak_of_several_files_and_hide_nothing() -> None:
    task = Task(SPEC, Path(), SEED.text, "")
    asked = first_questions(Prompts(task, Templates.of(PromptsConfig())), "one")
    assert "You change one Python program of several files as" in asked["implement"].system
    assert "Needs: paths of the files" in asked["one"].text and "the rest is hidden" not in asked["one"].text
    alone = SPEC.model_copy(update={"change": (), "language": "c++"})
    asked = first_questions(Prompts(replace(task, spec=alone), Templates.of(PromptsConfig())), "one")
    assert "Needs:" not in asked["one"].text, "its author sees the whole program"
    assert "You change one C++ program as" in asked["implement"].system


def test_the_form_says_what_may_change() -> None:
    said = may_change_text(SPEC, SEED.text)
    assert "`src/**`" in said
    assert "`tests/**`" in said
    assert size_text(SPEC, SEED.text) == f"{SEED.characters} characters in 5 files"
