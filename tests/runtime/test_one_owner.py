"""State has one owner, and the population one writer: read from the syntax trees of the package.

What the walk cannot see: a part of the state that is passed to another function. Such parameters are typed `Mapping`,
`Sequence` or as frozen values, and pyright holds them to that.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import pace_async
from pace_async.gc_freeze import rare_collections
from pace_async.state.run_state import Claims, OpenRollout, RunState, VisibleState

PACKAGE = Path(pace_async.__file__).parent

WRITES: dict[str, dict[str, str]] = {
    "commit": {
        "runtime/run/recorder.py": "record: the one way of a running run",
        "runtime/start/launch.py": "the seed program and the changes of a resume, before the run is driven",
        "runtime/start/lost_rows.py": "that a resume goes on without rows that are lost, before the run is driven",
        "runtime/start/unbegun.py": "how a run ended whose search did not begin",
        "runtime/start/rescoring.py": "new scores of a run that no process drives",
        "simulate/predict.py": "the seed program of a simulated run, before it is driven",
        "population/memory.py": "the tables of a new population in memory",
    },
    "keep_snapshot": {"runtime/run/snapshots.py": "what the facts of a running run come to, now and then"},
    "create_run": {"runtime/start/launch.py": "a new run, before it is driven"},
}
"""Methods that commit, where each is called, and why it may be."""

WRITERS: dict[str, dict[str, str]] = {
    "population.schema.upgrade": {
        "population/store.py": "a population that is made",
        "population/copying.py": "the target of a copy, if it is made",
        "cli/database.py": "`pace db upgrade`, under the lock of the run",
    },
    "population.copying.run_copied": {"runtime/copy_run.py": "`pace db copy`, under the lock of the run"},
    "population.memory.MemoryPopulation": {"simulate/predict.py": "the population of a simulated run"},
    "population.connect.engine": {
        "population/store.py": "the connections of the writer",
        "population/schema.py": "the migration of a population",
        "population/copying.py": "a copy",
        "population/reading/reader.py": "a connection that only reads",
        "population/writing/write_people.py": "a person's idea, which another process puts into the inbox alone",
    },
    "population.writing.writer.Writer": {"population/store.py": "the one writer"},
    "population.writing.writes.write": {
        "population/store.py": "what a commit writes",
        "population/memory.py": "what a commit writes",
    },
    "population.writing.writes.project": {
        "population/memory.py": "what a commit writes where no journal is kept",
        "population/checking.py": "a run that is made anew from its journal, in a temporary database",
    },
    "population.writing.write_snapshots.snapshot_kept": {"population/store.py": "what keep_snapshot writes"},
    "population.writing.write_run.run_created": {
        "population/store.py": "what create_run writes",
        "population/memory.py": "the run of a new population in memory",
        "population/checking.py": "a run that is made anew from its journal, in a temporary database",
        "population/writing/writes.py": "not itself: other functions of its module",
    },
}
"""Functions and classes that write to a population, which files take hold of each, and why they may."""

CHANGES = {
    "state/apply.py": "the fold",
    "runtime/run/recorder.py": "claimed places",
    "state/rescored.py": "the fold of new scores that come into force",
    "state/bans.py": "the fold of bans, of those taken back, and of scores that were measured again",
    "state/pools.py": "the fold of ideas that leave a pool",
    "population/journal/states.py": "a state that is read back from a snapshot",
    "population/reading/replay.py": "what the leases of a run took in is lent to the fold before its first fact",
}
"""Where the state, or a collection that it holds, is changed."""

HELD = {field.name for kind in (RunState, Claims, VisibleState, OpenRollout) for field in fields(kind)}
MUTATORS = {"add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
STATES = {"state", "run_state", "_state"}
KINDS = {kind.__name__ for kind in (RunState, Claims, VisibleState, OpenRollout)}


@cache
def _files() -> tuple[tuple[str, ast.Module], ...]:
    """The path and the syntax tree of each file of the package. Nobody changes the trees."""
    with rare_collections():
        return tuple(
            (path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
            for path in sorted(PACKAGE.rglob("*.py"))
        )


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


@dataclass(frozen=True)
class _Names:
    """Names in one function, or at the top of a file. `states` hold a run's state or a part of it, `held` hold
    something that it holds: `running` after `running = core.state.running`."""

    states: AbstractSet[str]
    held: AbstractSet[str] = frozenset()

    def reaches(self, node: ast.AST) -> bool:
        """Whether it is an attribute of a run's state, or lies below one: `core.state.running[1].paid`."""
        names = _chain(node)
        return names[-1:] != [] and (
            any(name in HELD and outer in self.states for name, outer in pairwise(names))
            or (names[-1] in self.held and not isinstance(node, ast.Name))
        )

    def with_aliases(self, scope: ast.AST) -> "_Names":
        """With the names to which the scope gives parts of the state, and its parameters of the state's types."""
        states, held = set(self.states), set(self.held)
        nodes = list(ast.walk(scope))
        for node in nodes:
            if isinstance(node, ast.arg) and node.annotation is not None and _names_a_kind(node.annotation):
                states.add(node.arg)
        for name, value in _given(nodes):
            names = _chain(value)
            if names[:1] and names[0] in states:
                states.add(name)
            elif _Names(states, held).reaches(value):
                held.add(name)
        return _Names(states, held)


def _names_a_kind(annotation: ast.expr) -> bool:
    parts = set(re.findall(r"\w+", ast.unparse(annotation)))
    return bool(parts & KINDS) and not parts & {"Mapping", "Sequence", "Iterable", "Callable", "tuple"}


def _given(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Names and the values that they are given, in the order of the text."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pairs(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            yield from _pairs(node.target, node.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from _pairs(one, its)


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """Every function, and the file itself."""
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a statement or a call changes in place."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return [target]
        case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in MUTATORS:
            return [value]
        case ast.Call(func=ast.Name(id="setattr"), args=[value, *_]):
            return [ast.Attribute(value, "*")]
        case ast.Call(func=ast.Attribute(attr="__setattr__"), args=[value, *_]):
            return [ast.Attribute(value, "*")]
        case _:
            return []


def _changed(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for scope in _scopes(tree):
        names = _Names(STATES).with_aliases(scope) if scope is not tree else _Names(STATES)
        for node in ast.walk(scope):
            for target in _targets(node):
                inside = isinstance(target, ast.Name) and target.id in names.held and not isinstance(node, ast.Assign)
                wholly = isinstance(target, ast.Attribute) and target.attr == "*" and _chain(target)[1] in names.states
                if inside or wholly or names.reaches(target):
                    found.add(ast.unparse(target))
    return found


@cache
def _called(tree: ast.Module) -> frozenset[str]:
    """The names of all methods that a file calls, or takes to call them under another name."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            constants = (value.value for value in node.args if isinstance(value, ast.Constant))
            names.update(name for name in constants if isinstance(name, str))
    return frozenset(names)


def _calls(tree: ast.Module, method: str) -> bool:
    return method in _called(tree)


@cache
def _imported(tree: ast.Module) -> frozenset[str]:
    """The dotted names that a file imports, at its top or inside a function, by their own names."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{one.name}" for one in node.names)
    return frozenset(names)


def _takes(tree: ast.Module, dotted: str) -> bool:
    """Whether a file gets hold of a function or class of the package, such as `state.apply.apply`, under whatever
    name."""
    module, _, name = f"pace_async.{dotted}".rpartition(".")
    return bool(_imported(tree) & {module, f"{module}.*", f"{module}.{name}"})


@pytest.mark.parametrize("method", WRITES)
def test_only_record_commits_in_a_running_run(method: str) -> None:
    assert {name for name, tree in _files() if _calls(tree, method)} == set(WRITES[method])


@pytest.mark.parametrize("writer", WRITERS)
def test_a_running_run_takes_hold_of_nothing_else_that_writes_to_a_population(writer: str) -> None:
    assert {name for name, tree in _files() if _takes(tree, writer)} == set(WRITERS[writer])


@pytest.mark.long
def test_only_the_fold_and_the_claimed_places_change_the_state() -> None:
    named = re.compile(rf"\b({'|'.join(STATES | KINDS)})\b")  # without one of them nothing of the state is reached
    found = {
        name: _changed(tree) for name, tree in _files() if named.search((PACKAGE / name).read_text(encoding="utf-8"))
    }
    assert {name: changes for name, changes in found.items() if changes and name not in CHANGES} == {}
    assert found["state/apply.py"] and found["runtime/run/recorder.py"], "the walk sees a change where there is one"


TAKERS = {
    "state.apply.apply": {"runtime/run/recorder.py", "population/reading/replay.py"},
    "state.apply.resumed": {"runtime/start/restore.py"},
    "state.apply.weights_found": {"runtime/start/assemble.py"},
}
"""The fold, and what a process sets when it takes a run over, before it is driven: its terms and its islands, and where
it has the weights. No row holds these."""


@pytest.mark.parametrize("function", TAKERS)
def test_only_record_and_the_reading_of_rows_apply_facts(function: str) -> None:
    assert {name for name, tree in _files() if _takes(tree, function)} == TAKERS[function]


@pytest.mark.parametrize("method", WRITES)
@pytest.mark.parametrize(
    "text",
    [
        "METHOD = self.writer.METHOD\nawait METHOD(fact)",
        "tasks.start_soon(store.METHOD, fact)",
        'await getattr(store, "METHOD")(fact)',
        "await store.METHOD(fact)",
    ],
)
def test_a_commit_is_seen_under_any_name(text: str, method: str) -> None:
    assert _calls(ast.parse(text.replace("METHOD", method)), method)


@pytest.mark.parametrize(
    "text",
    [
        "from pace_async.state.apply import apply as fold",
        "from pace_async.state import apply",
        "import pace_async.state.apply as states",
    ],
)
def test_the_fold_is_seen_under_any_name(text: str) -> None:
    assert _takes(ast.parse(text), "state.apply.apply")


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    from pace_async.population.schema import schema_state, upgrade as migrate",
        "from pace_async.population.schema import *",
        "from pace_async.population import schema",
        "import pace_async.population.schema",
    ],
)
def test_a_writer_of_the_population_is_seen_under_any_name(text: str) -> None:
    assert _takes(ast.parse(text), "population.schema.upgrade")


def test_a_reader_beside_a_writer_is_no_writer() -> None:
    assert not _takes(ast.parse("from pace_async.population.schema import schema_state"), "population.schema.upgrade")


@pytest.mark.parametrize(
    "text",
    [
        "core.state.best = None",
        "core.state.running[1].paid['m'] = 1.0",
        "known = core.state\n    known.best = None",
        "running = core.state.running\n    running.pop(1)",
        "running = core.state.running\n    del running[1]",
        "running = core.state.running\n    one = running[1]\n    one.paid.clear()",
        "best, running = 1, core.state.running\n    running[1] = 2",
        "if running := core.state.running:\n        running.clear()",
        "running = core.state.running\n    running |= {}",
        "setattr(core.state, 'best', None)",
        "object.__setattr__(core.state, 'best', None)",
        "underway.tries = ()",
        "mine.best = None",
        "core.state.best, other = None, 1",
    ],
)
def test_a_change_of_the_state_is_seen_under_any_name(text: str) -> None:
    assert _changed(ast.parse(f"def f(core, underway: OpenRollout, mine: 'RunState | None'):\n    {text}"))


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "running = dict(core.state.running)\n    running.pop(1)",
        "best = core.state.best\n    best = None",
        "self.best = core.state.best",
    ],
)
def test_a_copy_or_a_name_of_ones_own_may_be_changed(text: str) -> None:
    assert not _changed(ast.parse(f"def f(self, core):\n    {text}"))
