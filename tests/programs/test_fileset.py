"""A program as a set of files: its text, its digest, its manifest, and the names that it may have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.programs.compiled import digest_as_it_is, program_hash
from pace_async.programs.fileset import (
    LONGEST_SET,
    NotAProgram,
    Program,
    TooLong,
    changed_paths,
    file_digest,
    from_manifest,
    is_fileset,
)
from pace_async.programs.paths import MOST_FILES, is_chosen_by, why_no_glob, why_not_together, why_refused

NAMES = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}\.[a-z]{1,3}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)
TRICKY = "#!pace files\n== other.py 3 ==\nx=1\n"


@pytest.mark.long
@given(st.dictionaries(NAMES, TEXTS | st.just(TRICKY), min_size=1, max_size=8))
def test_a_text_gives_back_its_files_character_for_character(files: dict[str, str]) -> None:
    if why_not_together(files):
        return
    program = Program.of_files(files)
    assert is_fileset(program.text)
    assert dict(Program.of(program.text).files) == files
    kept = {file_digest(text): text for text in files.values()}
    assert from_manifest(program.manifest, kept.__getitem__) == program.text


@given(TEXTS)
def test_a_single_file_has_its_own_text_and_digest(text: str) -> None:
    program = Program.of(text)
    assert program.text == text
    assert not program.is_set
    assert program.digest == digest_as_it_is(text)


def test_equal_sets_are_equal_in_any_order_and_a_digest_sees_text_and_path() -> None:
    one, other = Program.of_files({"a.py": "1", "b.py": "2"}), Program.of_files({"b.py": "2", "a.py": "1"})
    assert one.text == other.text
    swapped = Program.of_files({"a.py": "2", "b.py": "1"})
    assert len({one.digest, swapped.digest, Program.of_files({"a.py": "1", "c.py": "2"}).digest}) == 3
    assert changed_paths(one, swapped) == ["a.py", "b.py"]


def test_comments_and_layout_of_python_files_make_no_other_program_and_paths_do() -> None:
    def hashed(files: dict[str, str]) -> str:
        return program_hash(Program.of_files(files).text)

    plain = hashed({"a.py": "x = 1\n", "b.txt": "1"})
    assert hashed({"a.py": "x  =  1  # one\n", "b.txt": "1"}) == plain
    assert hashed({"a.py": "x = 1\n", "b.txt": " 1"}) != plain
    assert hashed({"c.py": "x = 1\n", "b.txt": "1"}) != plain


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../a.py", "leaves the program's folder"),
        ("src/../../a.py", "leaves the program's folder"),
        ("/etc/passwd", "is an absolute path"),
        ("C:/a.py", "is an absolute path"),
        ("a\\b.py", "backslash"),
        ("a\n.py", "cannot be printed"),
        ("a\u202eyp.b", "cannot be printed"),
        (".git/hooks/pre-commit", "belongs to Git"),
        ("src/.env", "begins with a dot"),
        ("GIT~1/config", "belongs to Git"),
        ("a//b.py", "not a plain path"),
        ("./a.py", "not a plain path"),
        ("", "no name"),
        ("a" * 300, "too long"),
        ("a/" * 40 + "a", "too many folders"),
        ("a/" * 600 + "a", "1024 bytes"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused_in_one_sentence(path: str, why: str) -> None:
    found = why_refused(path)
    assert why in found
    assert "\n" not in found
    with pytest.raises(NotAProgram):
        Program.of_files({path: "x"})


@pytest.mark.parametrize(
    "paths",
    [
        ("a.py", "A.py"),
        ("caf\u00e9.py", "cafe\u0301.py"),
        ("src/a.py", "SRC/b.py"),
        ("a", "a/b.py"),
        ("\ufb01le.py", "file.py"),
    ],
)
def test_twins_in_case_and_unicode_are_refused(paths: tuple[str, ...]) -> None:
    assert why_not_together(paths)
    with pytest.raises(NotAProgram):
        Program.of_files(dict.fromkeys(paths, ""))


def test_too_many_files_and_too_much_text_are_refused() -> None:
    with pytest.raises(NotAProgram, match=f"more than {MOST_FILES} files"):
        Program.of_files({f"f{number}.py": "" for number in range(MOST_FILES + 1)})
    with pytest.raises(TooLong, match="characters"):
        Program.of_files({"a.py": "x" * (LONGEST_SET + 1)})


@pytest.mark.parametrize(
    "text",
    ["#!pace files\nnothing", "#!pace files\n== a.py 9 ==\nx\n", "#!pace files\n== ../a.py 1 ==\nx\n"],
)
def test_a_damaged_text_is_no_program(text: str) -> None:
    with pytest.raises(NotAProgram):
        Program.of(text)


@pytest.mark.parametrize(
    ("path", "globs", "is_chosen"),
    [
        ("src/a.py", ["src/**"], True),
        ("src/a/b.py", ["src/*.py"], False),
        ("src/a/b.py", ["src/**/*.py"], True),
        ("src/b.py", ["src/**/*.py"], True),
        ("src/a/b.py", ["src"], True),
        ("srcs/b.py", ["src"], False),
        ("tests/a.py", ["**", "!tests/**"], False),
        ("tests/a.py", ["**", "!tests/**", "tests/a.py"], True),
        ("a/test_b.py", ["**", "!**/test_*.py"], False),
        ("test_b.py", ["**", "!**/test_*.py"], False),
        ("a.py", ["?.py"], True),
        ("ab.py", ["?.py"], False),
        ("a+b.py", ["a+b.py"], True),
    ],
)
def test_the_last_glob_that_matches_decides(path: str, globs: list[str], is_chosen: bool) -> None:
    assert is_chosen_by(path, globs) is is_chosen


@pytest.mark.parametrize("glob", ["/etc/*", "../**", "!", "a\\b"])
def test_a_glob_stays_below_the_folder(glob: str) -> None:
    assert why_no_glob(glob)
