"""State has one owner, read from the syntax trees of the package."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pace_async
from pace_async.state.run_state import Places, RunState, Underway, Visible

PACKAGE = Path(pace_async.__file__).parent

COMMITS = {
    "runtime/run/recorder.py": "record: the one way of a running run",
    "runtime/start/launch.py": "the seed program and the changes of a resume, before the run is driven",
    "simulate/predict.py": "the seed program of a simulated run, before it is driven",
    "simulate/virtual.py": "a population around another one",
    "population/memory.py": "the tables of a new population in memory",
}
"""Where a committing method is called, and why it may be."""

CHANGES = {
    "state/apply.py": "the fold",
    "runtime/run/recorder.py": "claimed places",
    "population/reading/replay.py": "what the leases of a run took in is lent to the fold before its first fact",
}
"""Where the state, or a collection that it holds, is changed."""

HELD = {field.name for kind in (RunState, Places, Visible, Underway) for field in fields(kind)}
MUTATORS = {"add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
STATES = {"state", "run_state", "_state"}


def _files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _chain(node: ast.AST) -> list[str]:
    """The names of `a.b[c].d`, from the outside in."""
    names: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Name):
            return [*names, node.id]
        else:
            return names


def _is_of_the_state(target: ast.AST) -> bool:
    """Whether it is an attribute of a run's state, or lies below one: `core.state.running[1].paid`."""
    names = _chain(target)
    return any(name in HELD and outer in STATES for name, outer in pairwise(names))


def _changed(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            targets = [node.func.value]
        yield from (ast.unparse(target) for target in targets if _is_of_the_state(target))


def test_only_record_commits_in_a_running_run() -> None:
    found = {
        name
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "commit"
    }
    assert found == set(COMMITS)


def test_only_the_fold_and_the_claimed_places_change_the_state() -> None:
    found = {name: list(_changed(tree)) for name, tree in _files()}
    assert {name: changes for name, changes in found.items() if changes and name not in CHANGES} == {}
    assert found["state/apply.py"] and found["runtime/run/recorder.py"], "the walk sees a change where there is one"


def test_only_record_and_the_reading_of_rows_apply_facts() -> None:
    found = {
        name
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "apply"
    }
    assert found - {"state/apply.py"} == {"runtime/run/recorder.py", "population/reading/replay.py"}
