"""Local variables are named after what they hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "pace_async"
LONE = {"asked", "found", "made", "said", "told"}
"""Words that say where a value comes from and not what it is."""


def lone_names(text: str) -> Iterator[str]:
    """Local variables of the functions of a file that have such a name, with their lines."""
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in LONE:
                    yield f"{node.lineno}: {node.id}"


def test_no_local_variable_of_the_package_has_a_name_that_does_not_say_what_it_holds() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    wrong = {str(file.relative_to(PACKAGE)): names for file in files if (names := list(lone_names(file.read_text())))}
    assert wrong == {}
    assert len(files) > 200


@pytest.mark.parametrize(
    "line", ["found = 1", "async with a() as said: ...", "if (told := 1): ...", "[made for made in []]"]
)
def test_such_a_name_is_seen_however_it_is_bound(line: str) -> None:
    assert list(lone_names(f"async def f():\n    {line}"))
    assert not list(lone_names("async def f():\n    result = read(found)"))
