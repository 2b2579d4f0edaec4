"""Settings of a run from flags, environment and files, and the sentences about wrong ones.

In this order: flag, `--set`, environment (`PACE_ROOM__KEY`), file, default. An unknown key is refused with the nearest
known one.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from pace_async.config import Config
from pace_async.config.choice import UNKNOWN_NAME
from pace_async.config.section import MAY_CHANGE, OnResume, Section
from pace_async.errors import UsageError
from pace_async.outside import LARGEST_SEED, MOST_COUNTED, why_refused
from pace_async.yaml_text import dumped, read_mapping, value_of

MAY_HOLD_A_SECRET = (
    "population.url",
    "implementer.api_base",
    "implementer.options",
    "implementer.command",
    "advisor.api_base",
    "advisor.options",
)
"""Settings that are refused where they hold a secret, which the refusal must not repeat."""

_SEEDS = ("seed", "evaluation.seed")


def resolve(
    file: Path | Sequence[Path] | None = None,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """The configuration of a run. `overrides` maps dotted keys to values and wins over the environment, which wins over
    the files. A later file wins over an earlier one. Raises UsageError in one sentence."""
    tree: dict[str, Any] = {}
    for path in [file] if isinstance(file, Path) else file or ():
        tree = _laid_over(tree, read_mapping(path))
    for name, text in sorted((environment if environment is not None else os.environ).items()):
        if name.startswith("PACE_") and "__" in name:
            dotted = name.removeprefix("PACE_").lower().replace("__", ".")
            _put(tree, dotted, value_of(text, f"variable {name}"), f"variable {name}")
    for key, value in (overrides or {}).items():
        _put(tree, key, value, f"setting {key!r}")
    config = recorded(tree)
    for key, value in flat(config.model_dump()).items():
        if reason := why_refused(value, LARGEST_SEED if key in _SEEDS else MOST_COUNTED):
            raise UsageError(f"{key}: {reason}.")
    return _with_whole_paths(config)


def recorded(settings: Mapping[str, object]) -> Config:
    """The configuration that these settings are, as a run's row has them. Raises UsageError in one sentence."""
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        raise UsageError(_sentence(error)) from None


def _with_whole_paths(config: Config) -> Config:
    """The configuration with the baseline's file as a whole path, and each word of the implementer's command that names
    a file here: the command works in a folder of its own, and a resume may be given elsewhere."""
    if config.baseline and Path(config.baseline).suffix and _names_a_file(config.baseline, 1):
        config = config.model_copy(update={"baseline": str(Path.cwd() / config.baseline)})
    if config.prompts.folder is not None:
        whole_folder = str(Path.cwd() / config.prompts.folder)
        config = config.model_copy(update={"prompts": config.prompts.model_copy(update={"folder": whole_folder})})
    command = config.implementer.command
    whole = tuple(str(Path.cwd() / word) if _names_a_file(word, n) else word for n, word in enumerate(command))
    if whole == command:
        return config
    return config.model_copy(update={"implementer": config.implementer.model_copy(update={"command": whole})})


def _names_a_file(word: str, place: int) -> bool:
    """Whether a word of a command names a file by a path from here. The first word alone is looked up on the PATH."""
    if not word or len(word) > 1024 or "\0" in word or Path(word).is_absolute() or (place == 0 and "/" not in word):
        return False
    try:
        return Path(word).is_file()
    except OSError:
        return False


def mistakes(file: Path) -> list[str]:
    """The mistakes in a file of settings, one sentence for each, empty if there are none. The environment is not
    read."""
    try:
        Config.model_validate(read_mapping(file))
    except UsageError as error:
        return [str(error)]
    except ValidationError as error:
        return [_about(mistake) for mistake in error.errors()]
    return []


def known_keys() -> list[str]:
    """Every dotted key, in the order of the file."""
    return list(on_resume())


@cache
def on_resume() -> Mapping[str, OnResume]:
    """Whether each setting may change when a run goes on, by dotted key, in the order of the file."""
    return dict(_on_resume(Config, ""))


def that_may_change() -> tuple[list[str], dict[str, list[str]]]:
    """The rooms of which every setting may change when a run goes on, and the settings of the other rooms that may. One
    that may only be raised is in neither."""
    rooms = dict[str, dict[str, OnResume]]()
    for key, rule in on_resume().items():
        room, _, name = key.partition(".")
        rooms.setdefault(room, {})[name] = rule
    free = {room: [name for name, rule in names.items() if rule == MAY_CHANGE] for room, names in rooms.items()}
    whole = [room for room, names in free.items() if len(names) == len(rooms[room])]
    return whole, {room: names for room, names in free.items() if names and room not in whole}


def _on_resume(section: type[Section], prefix: str) -> Iterator[tuple[str, OnResume]]:
    for name, info in section.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _on_resume(inner, f"{prefix}{name}.")
        else:
            own = (item for item in info.metadata if isinstance(item, OnResume))
            yield prefix + name, next(own, section.on_resume)


def flat(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A configuration by dotted key. A setting that is a mapping itself stays whole."""
    settings, values = known_keys(), dict[str, object]()
    for name, value in tree.items():
        if isinstance(value, Mapping) and prefix + name not in settings:
            values |= flat(cast("Mapping[str, object]", value), f"{prefix}{name}.")
        else:
            values[prefix + name] = value
    return values


def dump(config: Config) -> str:
    """The configuration as YAML that `resolve` reads back."""
    return dumped(config.model_dump(mode="json"))


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both merged key by key. Where both have a key, `above` wins, unless both values are mappings."""
    both = [key for key in below if isinstance(below[key], dict) and isinstance(above.get(key), dict)]
    return {**below, **above, **{key: _laid_over(below[key], above[key]) for key in both}}


def _put(tree: dict[str, Any], dotted: str, value: object, source: str) -> None:
    *rooms, key = dotted.split(".")
    node: Any = tree
    for room in rooms:
        node = cast("dict[str, Any]", node).setdefault(room, {})
        if not isinstance(node, dict):
            raise UsageError(f"{source}: {room!r} is a value, not a group of settings.")
    node[key] = value


def _sentence(error: ValidationError) -> str:
    return _about(min(error.errors(), key=lambda mistake: mistake["type"] != "extra_forbidden"))


def _about(mistake: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in mistake["loc"])
    if mistake["type"] == "extra_forbidden":
        near = get_close_matches(where, [*Config.model_fields, *known_keys()], n=1, cutoff=0.5)
        return f"Unknown setting {where!r}" + (f": did you mean {near[0]!r}?" if near else "; see `pace config show`.")
    message = mistake["msg"].removeprefix("Value error, ")
    if where in MAY_HOLD_A_SECRET:
        return f"{where}: {message}."
    if mistake["type"] == UNKNOWN_NAME:
        return f"{where}: {message}."
    return f"{where}: {message} (got {mistake['input']!r})." if where else f"{message}."
