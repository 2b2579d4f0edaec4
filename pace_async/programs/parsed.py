"""The syntax of a text that should be Python and need not be. Nothing is run."""

import ast
import warnings

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
