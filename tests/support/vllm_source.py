"""The source of a vLLM, read without importing it: its modules, classes, functions and fields.

`PACE_VLLM_SOURCE` names the folder `vllm` of an unpacked wheel. Without it the installed vLLM is read.
"""

import ast
import importlib.util
import os
from functools import cache
from pathlib import Path


def source_folder() -> Path | None:
    """None: there is no vLLM to read."""
    named = os.environ.get("PACE_VLLM_SOURCE")
    if named is not None:
        return Path(named)
    found = importlib.util.find_spec("vllm")
    places = None if found is None else found.submodule_search_locations
    return Path(places[0]) if places else None


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def module_file(folder: Path, module: str) -> Path:
    path = folder.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def defined(folder: Path, module: str, name: str) -> ast.stmt | None:
    """The class or function that a module gives under a name, also one that it imports from another module."""
    file = module_file(folder, module)
    if not file.is_file():
        return None
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ImportFrom) and any((one.asname or one.name) == name for one in node.names):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            whole = ".".join([*above, *filter(None, [node.module])])
            original = next(one.name for one in node.names if (one.asname or one.name) == name)
            if whole.startswith("vllm"):
                return defined(folder, whole, original)
    return None


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Names of its parameters, positional ones first, without `self` and `cls`."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [one.arg for one in given if one.arg not in ("self", "cls")]


def attributes(node: ast.ClassDef) -> set[str]:
    """Attributes that its methods set on the object."""
    stored = (one for one in ast.walk(node) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store))
    return {one.attr for one in stored if isinstance(one.value, ast.Name) and one.value.id == "self"}


def methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {one.name: one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def is_abstract(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "abstractmethod" for one in function.decorator_list)


def fields(folder: Path, module: str, node: ast.ClassDef) -> set[str]:
    """Names of a class's fields, those of its bases included, as far as they are vLLM's."""
    own = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    for base in node.bases:
        name = base.id if isinstance(base, ast.Name) else ""
        above = defined(folder, module, name) if name else None
        if isinstance(above, ast.ClassDef) and above is not node:
            own |= fields(folder, module, above)
    return own


def served_paths(folder: Path) -> set[tuple[str, str]]:
    """Method and path of every route of its HTTP servers."""
    found: set[tuple[str, str]] = set()
    for file in (folder / "entrypoints").rglob("*.py"):
        for node in ast.walk(parsed(file)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            first = node.args[0]
            if node.func.attr in ("get", "post") and isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.add((node.func.attr, first.value))
    return found
