"""The cases of public reports: a case that is absent is counted, and one is judged by a right value."""

from pathlib import Path

import pytest

from scripts.checks.public_reports import ABSENT, CASES, RIGHT, TABLE, UNJUDGED, WRONG, Case, page, result_of


def test_every_case_is_listed_once() -> None:
    folders = [case.folder for case in TABLE]
    assert len(folders) == len(set(folders))


def test_every_folder_of_a_case_is_listed() -> None:
    if not CASES.is_dir():
        pytest.skip(f"the cases of public reports are not here ({CASES})")
    there = {f"{one.parent.parent.name}/{one.parent.name}" for one in CASES.glob("*/*/README.md")}
    assert there <= {case.folder for case in TABLE}


def test_a_result_is_a_right_value_or_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "input").write_text("7", encoding="utf-8")
    right = Case("a", "a file", judge=lambda place, pace: (place / "input").read_text(encoding="utf-8") == "7")
    wrong = Case("a", "a file", judge=lambda place, pace: (place / "absent").read_text(encoding="utf-8") == "7")
    found = {case: result_of(case, tmp_path) for case in (right, wrong, Case("a", "unjudged"), Case("b", "absent"))}
    assert list(found.values()) == [RIGHT, WRONG, UNJUDGED, ABSENT]
    assert f"| a | – | a file | its commands | {RIGHT} |" in page(found)
