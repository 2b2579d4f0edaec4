"""The imports that Python source cannot work without, from its syntax tree. Nothing is imported."""

import ast
from collections.abc import Iterator, Sequence

_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


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
    return any(isinstance(one, ast.Name) and one.id in _CAUGHT for one in ast.walk(handler.type))
