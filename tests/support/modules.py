"""Python files as modules."""

import importlib.util
from typing import Any


def load(path: Any, name: str) -> Any:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
