"""docs/paper_statements.md names files that exist and what they define."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "paper_statements.md"
CODE = re.compile(r"`([^`]+)`")


def rows() -> list[list[str]]:
    """The cells of each row of the table."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def places() -> list[tuple[str, str]]:
    """Each file of the third column with each name beside it."""
    named: list[tuple[str, str]] = []
    for _, _, where, _ in rows():
        for part in where.split("; "):
            file, *names = CODE.findall(part)
            named += [(file, name) for name in names]
    return named


@cache
def defined(file: str) -> frozenset[str]:
    """What a Python file defines at its top: functions, classes, constants, and what stands in a class, after a dot."""
    names: set[str] = set()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        names.update(names_of(node))
        if isinstance(node, ast.ClassDef):
            names.update(f"{node.name}.{name}" for inner in node.body for name in names_of(inner))
    return frozenset(names)


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


def stands_in(file: str, key: str) -> bool:
    """Whether a file of settings has this key."""
    found: Any = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
    for part in key.split("."):
        if not isinstance(found, dict) or part not in found:
            return False
        found = cast("dict[str, Any]", found)[part]
    return True


def test_the_table_has_every_section_and_four_cells_a_row() -> None:
    assert len(rows()) >= 62
    assert all(len(row) == 4 and all(row) for row in rows())
    begins = {re.split(r"[ ,]", row[0])[0] if row[0][0].isdigit() else row[0].split(",")[0] for row in rows()}
    assert begins >= {"2.1", "2.2", "3.1", "3.2", "3.3", "4.2", "appendix B", "appendix C", "appendix E", "appendix F"}


def test_every_row_names_a_place() -> None:
    for _, _, where, _ in rows():
        parts = where.split("; ")
        assert all(len(CODE.findall(part)) >= 2 for part in parts), where


@pytest.mark.parametrize(("file", "name"), places())
def test_every_file_of_the_table_defines_what_is_named_beside_it(file: str, name: str) -> None:
    assert stands_in(file, name) if file.endswith(".yaml") else name in defined(file)


def test_a_name_that_is_gone_is_noticed() -> None:
    assert "sloo" in defined("pace_async/objectives/maxk.py")
    assert "slow" not in defined("pace_async/objectives/maxk.py")
    assert not stands_in("configs/paper/eplb.yaml", "learner.nothing")
