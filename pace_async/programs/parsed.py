"""The syntax of a text that should be Python and need not be, and its imports. Nothing is run or imported."""

import ast
import warnings
from collections.abc import Iterator, Sequence

_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python's parser raises for a slip, a NUL, and nesting that is too deep."""


def parsed(text: str, name: str = "<unknown>") -> ast.Module:
    """The syntax tree of the text of a file. Raises one of NOT_PYTHON."""
    with warnings.catch_warnings():  # the text's own warnings are not shown
        warnings.simplefilter("ignore")
        return ast.parse(text, name)


def statements_of(text: str) -> list[ast.stmt]:
    """The statements of a text, none if it is not Python. Its evaluation says what is wrong with it."""
    try:
        return parsed(text).body
    except NOT_PYTHON:
        return []


def needed_imports(body: Sequence[ast.AST]) -> Iterator[str]:
    """The absolute imports of these nodes, with dots. Left out are those in a `try` that catches their failure, and
    those for type checkers."""
    for node in body:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module
            case ast.Try() if any(_catches(handler) for handler in node.handlers):
                yield from needed_imports([*node.orelse, *node.finalbody])
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from needed_imports(node.orelse)
            case _:
                yield from needed_imports(list(ast.iter_child_nodes(node)))


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _CAUGHT for node in ast.walk(handler.type))
