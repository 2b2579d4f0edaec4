"""The source of a function of a user's module, with what it needs of that module, as a separate module.

A statement at the top of the file is needed if it binds a name that the function or another needed statement reads. So
a script that makes a task can start a run below its functions, and the module made of them does not start one. Only
source is taken: what the running program has changed since is not in it.
"""

import ast
import builtins
import dis
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import cast

from pace_async.errors import UsageError

_READ = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_BOUND = {"STORE_NAME", "STORE_GLOBAL"}
_OF_EVERY_MODULE = {*dir(builtins), "__name__", "__file__", "__doc__", "__annotations__"}


def source_with_needs(function: object, role: str) -> tuple[str, str, str]:
    """The function's name, the text of a module that defines it, and the name of the file it comes from. `role` names
    the function in errors. Raises UsageError for anything but a function that stands at the top of a file."""
    _refuse_unless_plain(function, role)
    plain = cast("FunctionType", function)
    try:
        lines, _ = inspect.findsource(plain)
    except (OSError, TypeError):
        raise UsageError(
            f"{role} must come from a file: the source of {plain.__name__!r} is not there, as in a Python prompt. "
            "Write the function into a .py file and import it."
        ) from None
    statements = _statements("".join(lines), role)
    file = Path(plain.__code__.co_filename).name
    start = next(
        (node for node in statements if isinstance(node, ast.FunctionDef) and node.name == plain.__name__), None
    )
    if start is None:
        raise UsageError(
            f"{role}: {file} does not define {plain.__name__!r} any more; it has changed. Import it again."
        )
    needed = _with_needs(start, statements, f"{role} {plain.__name__!r}")
    numbers = sorted({number for node in needed for number in _lines_of(node)})
    text = "".join(lines[number - 1] + _gap(number, numbers) for number in numbers)
    return plain.__name__, text.rstrip() + "\n", file


def _refuse_unless_plain(function: object, role: str) -> None:
    kind = ""
    if not isinstance(function, FunctionType):
        kind = f"{type(function).__name__} object"
    elif function.__name__ == "<lambda>":
        kind = "lambda"
    elif "<locals>" in function.__qualname__:
        kind = "function within another function"
    elif function.__qualname__ != function.__name__ or hasattr(function, "__wrapped__"):
        kind = "method or wrapped function"
    elif inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        kind = "coroutine or generator"
    if kind:
        raise UsageError(f"{role} must be a function that stands by itself at the top of a file, not a {kind}.")


def _statements(source: str, role: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError as error:
        raise UsageError(f"{role}: its file is not Python any more (line {error.lineno}).") from None


def _with_needs(start: ast.stmt, statements: list[ast.stmt], role: str) -> list[ast.stmt]:
    """The statement and all that it needs. Raises UsageError for a name that none binds."""
    code = {node: _compiled(node, role) for node in statements}
    bound = {
        node: {name for kind, name in _names(compiled, inside=False) if kind in _BOUND}
        for node, compiled in code.items()
    }
    needed: set[ast.stmt] = {
        node for node in statements if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    }
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node in needed:
            continue
        needed.add(node)
        if isinstance(node, ast.ImportFrom) and node.level:
            raise UsageError(f"{role} needs `{ast.unparse(node)}`, an import that works only inside its package.")
        if code[node].co_flags & inspect.CO_COROUTINE:
            raise UsageError(
                f"{role} needs `{ast.unparse(node).splitlines()[0]}`, which waits for an event loop: give the value in "
                "`instances`, or compute it without `await`."
            )
        for name in {name for kind, name in _names(code[node], inside=True) if kind in _READ} - _OF_EVERY_MODULE:
            binding = [other for other in statements if name in bound[other]]
            if not binding:
                raise UsageError(
                    f"{role} uses {name!r}, which nothing at the top of its file binds: import or define it there, in "
                    "a notebook in the same cell."
                )
            waiting.extend(binding)
    return [node for node in statements if node in needed]


def _compiled(statement: ast.stmt, role: str) -> CodeType:
    """A statement's code. A cell of a notebook may have `await` at its top."""
    try:
        return compile(
            ast.Module([statement], []), "<source>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
    except SyntaxError as error:
        raise UsageError(f"{role}: line {error.lineno} of its file is not Python: {error.msg}.") from None


def _names(code: CodeType, *, inside: bool) -> Iterator[tuple[str, str]]:
    """The instructions of a code object that read or bind a name of its module. `inside`: also those of the functions
    and classes in it."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _READ | _BOUND:
            yield instruction.opname, str(instruction.argval)
    for constant in cast("tuple[object, ...]", code.co_consts) if inside else ():
        if isinstance(constant, CodeType):
            instructions = list(_names(constant, inside=True))
            own = {name for kind, name in instructions if kind == "STORE_NAME"}  # bound by the body of a class
            yield from ((kind, name) for kind, name in instructions if not (kind == "LOAD_NAME" and name in own))


def _lines_of(statement: ast.stmt) -> range:
    """The lines of a statement, with its decorators."""
    decorators = getattr(statement, "decorator_list", ())
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return range(first, (statement.end_lineno or statement.lineno) + 1)


def _gap(number: int, numbers: list[int]) -> str:
    """Two empty lines where lines of the file were left out."""
    return "" if number + 1 in numbers else "\n\n"
