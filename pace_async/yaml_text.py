"""YAML as a person writes it: strict where a slip would go unnoticed, with one sentence for each mistake."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from pace_async.errors import UsageError


class _NoDuplicates(yaml.SafeLoader):
    """Refuses a repeated key in a mapping."""


def _mapping(loader: _NoDuplicates, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = cast("Any", loader.construct_object(key_node, deep=True))  # pyright: ignore[reportUnknownMemberType]
        if isinstance(key, (dict, list)):
            raise UsageError(f"A list or mapping cannot be a key (line {key_node.start_mark.line + 1}).")
        if key in seen:
            raise UsageError(f"Key {key!r} stands twice (line {key_node.start_mark.line + 1}): keep one.")
        seen[key] = loader.construct_object(value_node, deep=True)  # pyright: ignore[reportUnknownMemberType]
    return seen


_NoDuplicates.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_mapping(file: Path) -> dict[str, Any]:
    """The mapping in a file. An empty file gives an empty one. Raises UsageError, in one sentence."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.") from None
    try:
        raw: Any = yaml.load(text, Loader=_NoDuplicates)
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not valid YAML: {str(error).splitlines()[0]}.") from None
    except RecursionError:
        raise UsageError(f"{file} is not valid YAML: it is nested too deep.") from None
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise UsageError(f"{file} must be a mapping of settings.")
    return cast("dict[str, Any]", raw)


def value_of(text: str, what: str) -> object:
    """A setting's value, written as YAML by a person. `what` names the setting. Raises UsageError."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        raise UsageError(f"{what}: {text!r} is not a YAML value.") from None


_WANTED = {
    "string_type": "must be a word or a text",
    "model_type": "must be a mapping of fields",
    "model_attributes_type": "must be a mapping of fields",
    "dict_type": "must be a mapping of fields",
    "tuple_type": "must be a list",
    "too_short": "needs at least one entry",
    "missing": "is missing",
}
NAME_PATTERN = r"^[a-z][a-z0-9_]*$"


def mistake(found: Mapping[str, Any], whole: str) -> str:
    """What is wrong with a value, in words: one entry of a ValidationError's `errors()`. `whole` is what the file as a
    whole is called."""
    where = ".".join(str(part) for part in found["loc"] if part not in ("str", "int", "float")) or whole
    if found["type"] == "string_pattern_mismatch" and found["ctx"]["pattern"] == NAME_PATTERN:
        rule = "must be small letters, digits and _, and begin with a letter, as in my_name"
        return f"{where}: {str(found['input'])[:80]!r} {rule}"
    if found["type"] in _WANTED:
        return f"{where} {_WANTED[found['type']]}"
    return f"{where}: {found['msg'].removeprefix('Value error, ')}"
