"""YAML as a person writes it: strict where a slip would go unnoticed, with one sentence for each mistake."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from pace_async.errors import UsageError

_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]{1,3})?"
    r"|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]{1,3}"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
"""Numbers as people and JSON write them, 1e-3 too, which YAML 1.1 reads as a text. More digits in the exponent give no
number: 695e0514 is a revision."""
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)")
"""Whole numbers. 1:30 is a text, as in YAML 1.2, and not ninety."""
_NUMBERS = (("tag:yaml.org,2002:float", _FLOAT), ("tag:yaml.org,2002:int", _INT))


MOST_PARTS = 1_000_000
"""Values in a text, with every alias written out."""


class _Slip(yaml.YAMLError):
    """A mistake that YAML itself allows, in one sentence."""


class _Loader(yaml.SafeLoader):
    """Refuses a repeated key in a mapping, and reads numbers as people write them. Refuses aliases that a few lines
    make into a huge value, or into one that holds itself, before it makes any."""

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None and _written_out(node, {}) > MOST_PARTS:
            raise _Slip(f"Its aliases make more than {MOST_PARTS:,} values, or one that holds itself: write less.")
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping, without the deviations of YAML 1.1. `<<` takes over what another mapping has."""
        keys = set[Any]()
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Slip(f"A list or mapping cannot be a key (line {line}).")
            construct: Callable[..., object] = cast("Any", self).construct_object
            key = construct(key_node, deep=True) if key_node.tag != _MERGE else _MERGE
            if key in keys:
                name = "<<" if key is _MERGE else key
                raise _Slip(f"Key {name!r} stands twice (line {line}): keep one.")
            keys.add(key)
        return super().construct_mapping(node, deep=deep)


def _written_out(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node holds, with every alias written out. Each node is looked at once."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = MOST_PARTS + 1  # what it counts where it holds itself
        parts: list[Any] = node.value
        inner = (part for pair in parts for part in pair) if isinstance(node, yaml.MappingNode) else iter(parts)
        known[id(node)] = 1 + sum(_written_out(part, known) for part in inner)
    return known[id(node)]


class Dumper(yaml.SafeDumper):
    """Writes what the loader reads back: a text that looks like a number is quoted."""


_MERGE = "tag:yaml.org,2002:merge"


def _resolvers() -> dict[Any, list[tuple[str, re.Pattern[str]]]]:
    """By first character: (tag, pattern), with the numbers' patterns in place of YAML 1.1's."""
    tags = {tag for tag, _ in _NUMBERS}
    theirs: dict[Any, list[tuple[str, re.Pattern[str]]]] = yaml.SafeLoader.yaml_implicit_resolvers
    resolvers = {
        first: [resolver for resolver in patterns if resolver[0] not in tags] for first, patterns in theirs.items()
    }
    for tag, pattern in _NUMBERS:
        for first in "-+.0123456789":
            resolvers.setdefault(first, []).append((tag, re.compile(rf"(?:{pattern.pattern})$")))
    return resolvers


_Loader.yaml_implicit_resolvers = Dumper.yaml_implicit_resolvers = _resolvers()


def parsed(text: str) -> Any:
    """The value of a YAML text. Raises ValueError, whose text is one sentence."""
    try:
        return yaml.load(text, Loader=_Loader)
    except _Slip as slip:
        raise ValueError(str(slip)) from None
    except yaml.YAMLError as error:
        raise ValueError(f"It is not valid YAML: {' '.join(str(error).split())[:300]}.") from None
    except RecursionError:
        raise ValueError("It is not valid YAML: it is nested too deep.") from None
    # The library lets out what Python says of a number, a date or a tag that is none.
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
        raise ValueError(f"It is not valid YAML: {str(error)[:300]}.") from None


def read_yaml(file: Path) -> Any:
    """The value in a file. Raises UsageError, in one sentence."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.") from None
    try:
        return parsed(text)
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from None


def read_mapping(file: Path, noun: str = "settings") -> dict[str, Any]:
    """The mapping in a file. An empty file gives an empty one. `noun` names the values. Raises UsageError, in one
    sentence."""
    raw = read_yaml(file)
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise UsageError(f"{file} must be a mapping of {noun}.")
    return {str(key): value for key, value in raw.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def value_of(text: str, setting: str) -> object:
    """A setting's value, written as YAML by a person. `setting` is its name. Raises UsageError."""
    try:
        return parsed(text)
    except ValueError as error:
        twice = f": {error}" if "stands twice" in str(error) else "."
        raise UsageError(f"{setting}: {text!r} is not a YAML value{twice}") from None


def dumped(value: object, dumper: type[yaml.SafeDumper] = Dumper, width: int | None = None) -> str:
    """YAML that reads back as the same value, in the order of the keys."""
    return yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=width)  # pyright: ignore[reportArgumentType]


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


def mistake(error: Mapping[str, Any], whole: str) -> str:
    """What is wrong with a value, in words: one entry of a ValidationError's `errors()`. `whole` is what the file as a
    whole is called."""
    where = ".".join(str(part) for part in error["loc"] if part not in ("str", "int", "float")) or whole
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == NAME_PATTERN:
        rule = "must be small letters, digits and _, and begin with a letter, as in my_name"
        return f"{where}: {str(error['input'])[:80]!r} {rule}"
    if error["type"] in _WANTED:
        return f"{where} {_WANTED[error['type']]}"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"
