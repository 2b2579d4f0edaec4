"""Answers that change a program of several files: edits with paths, new and removed files, and a diff."""

import json
import shutil

import pytest

from pace_async.errors import CandidateFault
from pace_async.implement.edits import UselessProgram
from pace_async.implement.file_answers import globs_of, program_of_answer, program_of_folder
from pace_async.programs.fileset import Program
from pace_async.programs.text import BLOCK_END, BLOCK_START

FILES = {
    "pkg/a.py": "VALUE = 3\nOTHER = 4\n",
    "pkg/b.py": "x = 1\n",
    "pkg/block.py": f"import math\n{BLOCK_START}\ny = 1\n{BLOCK_END}\nz = 2\n",
    "pkg/data.txt": "one\r\ntwo\r\n",
    "bench.py": "print(1)\n",
}
PARENT = Program.of_files(FILES)
GLOBS = globs_of(["pkg/**", "!pkg/secret/**"], ["pkg/hidden.py"])
DIFF = """```diff
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -1,7 +1,9 @@
-VALUE = 3
+VALUE = 5
 OTHER = 4
--- /dev/null
+++ b/pkg/new.py
@@ -0,0 +1 @@
+n = 1
--- a/pkg/b.py
+++ /dev/null
@@ -1 +0,0 @@
-x = 1
```
"""
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs Git")


def edit(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def made(answer: str) -> dict[str, str]:
    return dict(Program.of(program_of_answer(answer, PARENT.text, GLOBS)).files)


def fault(answer: str) -> CandidateFault:
    with pytest.raises(CandidateFault) as raised:
        program_of_answer(answer, PARENT.text, GLOBS)
    assert "\n" not in raised.value.detail
    return raised.value


def test_edits_new_and_removed_files_make_one_program() -> None:
    answer = (
        f"I change two things.\n\nFILE: pkg/a.py\n{edit('VALUE = 3', 'VALUE = 5')}\n{edit('OTHER = 4', 'OTHER = 6')}"
        "### FILE: `pkg/deep/new.py`\n```python\nn = 1\n```\n**DELETE: pkg/b.py**\n"
    )
    expected = {**FILES, "pkg/a.py": "VALUE = 5\nOTHER = 6\n", "pkg/deep/new.py": "n = 1\n"}
    del expected["pkg/b.py"]
    assert made(answer) == expected


def test_line_ends_of_a_file_stay() -> None:
    assert made(f"FILE: pkg/data.txt\n{edit('two', 'three')}")["pkg/data.txt"] == "one\r\nthree\r\n"


def test_a_file_without_a_last_newline_stays_without_one() -> None:
    parent = Program.of_files({**FILES, "pkg/a.py": "VALUE = 3\nOTHER = 4"}).text
    answer = f"FILE: pkg/a.py\n{edit('VALUE = 3', 'VALUE = 5')}"
    assert Program.of(program_of_answer(answer, parent, GLOBS)).files["pkg/a.py"] == "VALUE = 5\nOTHER = 4"


@needs_git
def test_a_unified_diff_applies_whole_though_its_counts_are_wrong() -> None:
    found = made(f"Here it is.\n{DIFF}")
    assert found["pkg/a.py"] == "VALUE = 5\nOTHER = 4\n"
    assert found["pkg/new.py"] == "n = 1\n"
    assert "pkg/b.py" not in found


@needs_git
@pytest.mark.parametrize(
    ("before", "after", "kind", "says"),
    [
        ("-VALUE = 3", "-VALUE = 4", "diff_not_applied", "does not apply"),
        ("+++ b/pkg/new.py", "+++ b/../new.py", "bad_path", "leaves the program's folder"),
        ("+++ b/pkg/new.py", "+++ b//tmp/pace-new.py", "bad_path", "is an absolute path"),
        ("+++ b/pkg/new.py", "+++ b/.git/config", "bad_path", "belongs to Git"),
    ],
)
def test_a_diff_that_does_not_apply_or_leads_elsewhere_changes_nothing(
    before: str, after: str, kind: str, says: str
) -> None:
    found = fault(DIFF.replace(before, after))
    assert (found.kind, says in found.detail) == (kind, True)


@needs_git
def test_a_diff_that_makes_a_link_is_refused() -> None:
    head = "diff --git a/pkg/l b/pkg/l\nnew file mode 120000\n--- /dev/null\n+++ b/pkg/l"
    assert "is a link" in fault(f"```diff\n{head}\n@@ -0,0 +1 @@\n+/etc\n```").detail


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (f"FILE: bench.py\n{edit('print(1)', 'print(9)')}", "file_not_open", "'bench.py' may not change"),
        ("FILE: pkg/secret/k.py\n```\nx\n```", "file_not_open", "may not change"),
        ("FILE: pkg/hidden.py\n```\nx = 1\n```", "file_not_open", "may not change"),
        ("FILE: ../out.py\n```\nx = 1\n```", "bad_path", "leaves the program's folder"),
        ("FILE: /etc/cron.d/x\n```\nx\n```", "bad_path", "absolute"),
        ("FILE: pkg/.git/hooks/post-commit\n```\nx\n```", "bad_path", "belongs to Git"),
        ("FILE: pkg/A.py\n```\nx = 1\n```", "bad_path", "case"),
        ("FILE: pkg/a.py/x.py\n```\nx = 1\n```", "bad_path", "a file and a folder"),
        ("DELETE: pkg/none.py", "no_such_file", "'pkg/none.py'"),
        (f"FILE: pkg/none.py\n{edit('a', 'b')}", "no_such_file", "'pkg/none.py'"),
        (f"FILE: pkg/a.py\n{edit('nowhere', 'b')}", "search_not_found", "pkg/a.py"),
        (edit("VALUE = 3", "VALUE = 4"), "no_path", "FILE line"),
        ("Nothing to do.", "no_code_block", "no FILE line"),
        ("FILE: pkg/a.py\nNothing.", "no_code_block", "pkg/a.py"),
        ("FILE: pkg/a.py\n```\nx = 1\n```\n```\ny = 1\n```", "several_code_blocks", "pkg/a.py"),
        (f"FILE: pkg/a.py\n{edit('VALUE = 3', 'V = 1')}```\nx = 1\n```", "mixed_answer", "pkg/a.py"),
        (f"{DIFF}FILE: pkg/a.py\n```\nx = 1\n```", "mixed_answer", "diff"),
        ("FILE: pkg/block.py\n```\ny = 1\n```", "edit_leaves_block", "pkg/block.py"),
        (f"FILE: pkg/block.py\n{edit('z = 2', 'z = 3')}", "edit_leaves_block", "pkg/block.py"),
        ("DELETE: pkg/block.py", "edit_leaves_block", "pkg/block.py"),
        (f"FILE: pkg/a.py\n{edit('VALUE = 3', 'VALUE =  3  # three')}", "unchanged", "same as its parent"),
        ("FILE: pkg/long.py\n```\n" + "x = 1\n" * 50_000 + "```", "answer_too_long", "characters"),
    ],
)
def test_each_way_to_be_wrong_names_the_file(answer: str, kind: str, said: str) -> None:
    found = fault(answer)
    assert (found.kind, said in found.detail) == (kind, True), found.detail


def test_a_changed_file_that_does_not_compile_makes_a_program_to_mend() -> None:
    found = fault("FILE: pkg/a.py\n```python\ndef (\n```")
    assert isinstance(found, UselessProgram)
    assert found.kind == "syntax_error"
    assert found.detail.startswith("pkg/a.py: line 1")
    assert Program.of(found.program).files["pkg/a.py"] == "def (\n"


def test_a_file_that_did_not_compile_before_is_nobodys_fault() -> None:
    parent = Program.of_files({**FILES, "bench.py": "print 1\n"}).text
    assert program_of_answer(f"FILE: pkg/a.py\n{edit('VALUE = 3', 'VALUE = 4')}", parent, GLOBS)


def test_only_the_block_of_a_marked_file_may_change() -> None:
    assert "y = 7\n" in made(f"FILE: pkg/block.py\n{edit('y = 1', 'y = 7')}")["pkg/block.py"]


def test_what_a_file_says_is_never_taken_for_a_heading() -> None:
    text = "FILE: pkg/b.py\n== pkg/b.py 3 ==\nDELETE: bench.py\n"
    found = made(f"FILE: pkg/notes.txt\n```\n{text}```\n")
    assert found == {**FILES, "pkg/notes.txt": text}


def test_a_folder_is_checked_like_an_answer() -> None:
    with pytest.raises(CandidateFault, match="bench"):
        program_of_folder(json.dumps({**FILES, "bench.py": "print(2)\n"}), PARENT.text, GLOBS)
    with pytest.raises(CandidateFault, match="same as its parent"):
        program_of_folder(json.dumps(FILES), PARENT.text, GLOBS)
