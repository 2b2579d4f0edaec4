"""Which modules of the tests may be imported by others."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FOLDERS = ("tests", "scripts", "research")
FILES = sorted(path for folder in FOLDERS for path in (TESTS.parent / folder).rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything that a file imports, at its top or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{alias.name}" for alias in node.names)


def of_test_modules(text: str) -> list[str]:
    """The imports of modules that hold tests, or fixtures of one folder."""
    parts = {name: name.split(".") for name in imported(ast.parse(text))}
    return [
        name for name, words in parts.items() if any(word.startswith("test_") or word == "conftest" for word in words)
    ]


def test_no_file_imports_from_a_module_of_tests() -> None:
    """What two files need lies in tests/support or tests/doubles, so a test can be changed or moved alone."""
    wrong = {str(file): names for file in FILES if (names := of_test_modules(file.read_text()))}
    assert wrong == {}
    assert len(FILES) > 200


@pytest.mark.parametrize(
    "text",
    [
        "from tests.cli.test_tasks import write",
        "import tests.cli.test_tasks",
        "from tests.cli import test_tasks",
        "def f():\n    from .test_tasks import write",
        "from tests.publish.conftest import weights",
    ],
)
def test_an_import_from_a_module_of_tests_is_found_however_it_is_written(text: str) -> None:
    assert of_test_modules(text)
