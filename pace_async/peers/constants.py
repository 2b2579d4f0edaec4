"""The constants of a Python file, from its syntax tree: texts, numbers, lists, and arguments of calls. Nothing is run.

A name that is not known stays unknown, and so does everything that needs it. So does a value that is too large or
nested too deep (`is_bounded`): a few lines can make one of any size.
"""

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pace_async.errors import UsageError
from pace_async.peers.example import is_bounded, text_of, tree_of


class _Unknown:
    """The value of what only a run could know."""


UNKNOWN = _Unknown()
_PLAIN = {"str": str, "int": int, "float": float, "bool": bool}
_METHODS = ("strip", "lstrip", "rstrip", "lower", "upper")


@dataclass(slots=True)
class Constants:
    """`names` are assigned constants. `calls` are the keyword arguments of each call, by the name that is called.
    `entries` are assignments such as `config["evo_config"]["task_sys_msg"] = TEXT` or `evo.task_sys_msg = TEXT`, by the
    last name. `options` are command-line options with their defaults. Unknown values are left out. `partial` are texts
    of which only a run knows parts, with the names of these in braces."""

    names: dict[str, Any] = field(default_factory=dict[str, Any])
    calls: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    entries: dict[str, Any] = field(default_factory=dict[str, Any])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    unknown: set[str] = field(default_factory=set[str])
    partial: dict[str, str] = field(default_factory=dict[str, str])

    def call(self, *names: str) -> dict[str, Any]:
        """The arguments of all calls of these names, the first of each."""
        merged: dict[str, Any] = {}
        for name in names:
            for arguments in self.calls.get(name, []):
                merged = {**arguments, **merged}
        return merged


def constants_of(path: Path, depth: int = 0) -> Constants:
    """Those of a file, and of files beside it that it imports names from. Raises UsageError."""
    tree = tree_of(path)
    constants = Constants()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and depth < 2:
            beside = path.parent / f"{node.module.replace('.', '/')}.py"
            if beside.is_file():
                constants.names.update(_imported(beside, node, depth))
        if isinstance(node, ast.Call) and _called(node) == "add_argument":
            _option(node, constants)
    constants.names.update({name: value for name, value in constants.options.items() if name not in constants.names})
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            value = _bounded_value(node.value, constants.names, path.parent)
            for target in node.targets:
                _assign(target, value, constants)
                if value is UNKNOWN and isinstance(target, ast.Name) and isinstance(node.value, ast.JoinedStr):
                    constants.partial[target.id] = _partial(node.value, constants.names, path.parent)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            _assign(node.target, _bounded_value(node.value, constants.names, path.parent), constants)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            arguments = {
                keyword.arg: _bounded_value(keyword.value, constants.names, path.parent)
                for keyword in node.keywords
                if keyword.arg is not None
            }
            known = {name: value for name, value in arguments.items() if value is not UNKNOWN}
            constants.unknown.update(f"{_called(node)}.{name}" for name in arguments if name not in known)
            constants.calls.setdefault(_called(node), []).append(known)
    return constants


def _imported(path: Path, node: ast.ImportFrom, depth: int) -> dict[str, Any]:
    try:
        names = constants_of(path, depth + 1).names
    except UsageError:
        return {}
    return {alias.asname or alias.name: names[alias.name] for alias in node.names if alias.name in names}


def _option(node: ast.Call, constants: Constants) -> None:
    """An option of the command line, with its default."""
    names = [
        argument.value
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    default = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
    if names and isinstance(default, ast.Constant):
        constants.options[names[-1].lstrip("-").replace("-", "_")] = default.value


def _assign(target: ast.expr, value: Any, constants: Constants) -> None:
    if value is UNKNOWN:
        return
    match target:
        case ast.Name():
            constants.names.setdefault(target.id, value)
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            constants.entries[name] = value
        case ast.Attribute():
            constants.entries[target.attr] = value
        case _:
            pass


def _bounded_value(node: ast.expr, names: Mapping[str, Any], folder: Path) -> Any:
    """As `value_of`, of a bounded value."""
    try:
        value = value_of(node, names, folder)
        return value if is_bounded(value) else UNKNOWN
    except (RecursionError, ArithmeticError, ValueError):
        return UNKNOWN


def value_of(node: ast.expr, names: Mapping[str, Any], folder: Path) -> Any:
    """The value of an expression of constants, UNKNOWN for any other. A file of the folder whose text is read is its
    text."""
    match node:
        case ast.Constant():
            return node.value if is_bounded(node.value) else UNKNOWN
        case ast.Name():
            return names.get(node.id, UNKNOWN)
        case ast.List() | ast.Tuple():
            return _all([value_of(part, names, folder) for part in node.elts])
        case ast.Dict():
            return _mapping(node, names, folder)
        case ast.JoinedStr():
            parts = _all([value_of(part, names, folder) for part in node.values])
            return UNKNOWN if parts is UNKNOWN else "".join(map(str, cast("list[Any]", parts)))
        case ast.FormattedValue():
            return value_of(node.value, names, folder) if node.format_spec is None else UNKNOWN
        case ast.BinOp(op=ast.Add() | ast.Mult() | ast.Div()):
            return _combined(node, names, folder)
        case ast.UnaryOp(op=ast.USub()):
            value = value_of(node.operand, names, folder)
            return -value if isinstance(value, int | float) else UNKNOWN
        case ast.Call():
            return _call(node, names, folder)
        case _:
            return UNKNOWN


def _partial(node: ast.JoinedStr, names: Mapping[str, Any], folder: Path) -> str:
    """The text with `{expression}` where its value is unknown."""
    parts: list[str] = []
    for part in node.values:
        value = _bounded_value(part, names, folder)
        unknown = f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else ""
        parts.append(unknown if value is UNKNOWN else str(value))
    return "".join(parts)


def _all(values: list[Any]) -> Any:
    return UNKNOWN if any(value is UNKNOWN for value in values) else values


def _mapping(node: ast.Dict, names: Mapping[str, Any], folder: Path) -> Any:
    entries: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        known = value_of(key, names, folder) if key is not None else UNKNOWN
        if isinstance(known, str | int):
            entries[known] = value_of(value, names, folder)
    return {key: value for key, value in entries.items() if value is not UNKNOWN}


def _combined(node: ast.BinOp, names: Mapping[str, Any], folder: Path) -> Any:
    left: Any = value_of(node.left, names, folder)
    right: Any = value_of(node.right, names, folder)
    if isinstance(node.op, ast.Div):  # a path: what counts is its last part
        return right
    if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return left + right if is_bounded(left) and is_bounded(right) else UNKNOWN
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return UNKNOWN
    combined = left + right if isinstance(node.op, ast.Add) else left * right
    return combined if is_bounded(combined) else UNKNOWN


def _call(node: ast.Call, names: Mapping[str, Any], folder: Path) -> Any:
    name = _called(node)
    if name in ("read_text", "read"):
        return _text_of_file(node, names, folder)
    if name in _METHODS and isinstance(node.func, ast.Attribute) and not node.args:
        value = value_of(node.func.value, names, folder)
        return getattr(value, name)() if isinstance(value, str) else UNKNOWN
    arguments = [value_of(argument, names, folder) for argument in node.args]
    if name == "dict" and not arguments:
        pairs = {
            argument.arg: value_of(argument.value, names, folder)
            for argument in node.keywords
            if argument.arg is not None
        }
        return {key: value for key, value in pairs.items() if value is not UNKNOWN}
    if name in ("dedent", "cleandoc") and arguments and isinstance(arguments[0], str):
        return textwrap.dedent(arguments[0])
    if name in ("join", "Path", "str", "abspath", "resolve") and arguments and isinstance(arguments[-1], str):
        return arguments[-1]
    if name in _PLAIN and len(arguments) == 1 and isinstance(arguments[0], int | float):
        return _PLAIN[name](arguments[0])
    return UNKNOWN


def _text_of_file(node: ast.Call, names: Mapping[str, Any], folder: Path) -> Any:
    """The text of the last file of the folder that stands in `Path("x.txt").read_text()` or `open("x.txt").read()`."""
    for part in ast.walk(node.func):
        value = value_of(part, names, folder) if isinstance(part, ast.Constant | ast.Name) else UNKNOWN
        if isinstance(value, str) and value and Path(value).suffix and len(value) < 200:
            file = (folder / value).resolve()
            if file.is_relative_to(folder.resolve()) and file.is_file():
                return text_of(file)
    return UNKNOWN


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name():
            return node.func.id
        case ast.Attribute():
            return node.func.attr
        case _:
            return ""
