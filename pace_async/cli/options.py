"""Turns flags into settings, and a dataclass of flags into a command."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from pace_async.registry.displays import DISPLAYS

if TYPE_CHECKING:
    from pace_async.fitness import Direction
    from pace_async.registry.base import Registry

CONFIG_OPTION: list[Path] | None = typer.Option(
    None, "--config", help="YAML file of settings. Later files override earlier ones.", metavar="FILE"
)


def known_in(registry: "Registry[Any]") -> Callable[[str | None], str | None]:
    """A callback that refuses a name outside the registry, like a flag with fixed choices."""

    def check_name(name: str | None) -> str | None:
        if name is not None and name not in registry:
            raise typer.BadParameter(registry.unknown(name))
        return name

    return check_name


DISPLAY_OPTION = typer.Option(
    "auto",
    "--display",
    help=f"How progress is shown. {DISPLAYS.described()}",
    metavar=DISPLAYS.metavar(),
    callback=known_in(DISPLAYS),
)


def command_of(function: Callable[..., None]) -> Callable[..., None]:
    """The function as a command. One that takes a dataclass as `flags` gets the fields as its flags, in their order. A
    field is declared as the parameter of any command is."""
    flags = function.__annotations__.get("flags")
    if flags is None:
        return function
    types = get_type_hints(flags, include_extras=True)

    def parameter(field: Field[Any]) -> Parameter:
        return Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])

    def command(**given: Any) -> None:
        function(flags(**given))

    command.__doc__ = function.__doc__
    command.__signature__ = Signature([parameter(field) for field in fields(flags)])
    return command


def overrides_of(sets: list[str] | None, flags: Mapping[str, object] | None = None) -> dict[str, object]:
    """`--set a.b=c` as dotted keys with YAML values, then the flags that were given. Raises UsageError."""
    from pace_async.errors import UsageError
    from pace_async.yaml_text import value_of

    overrides: dict[str, object] = {}
    for item in sets or []:
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set takes KEY=VALUE, such as learner.k=2, not {item!r}.")
        overrides[key.strip()] = value_of(text, f"--set {key.strip()}")
    overrides.update({key: value for key, value in (flags or {}).items() if value is not None})
    return overrides


def minutes(text: str) -> float:
    """The value of a flag that takes minutes. Raises BadParameter, with the number that was meant."""
    from pace_async.config.limits import why_no_minutes

    if (message := why_no_minutes(text)) is not None:
        raise typer.BadParameter(message)
    return float(text)


def one_of(flags: Mapping[str, bool], values: Sequence[object]) -> object:
    """The value of the one given flag, None if there is none. Raises UsageError for several."""
    from pace_async.errors import UsageError

    given = [name for name, was_given in flags.items() if was_given]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other: give one.")
    return next((value for was_given, value in zip(flags.values(), values, strict=True) if was_given), None)


def direction_of(*, minimize: bool, maximize: bool, ask: bool = False) -> "Direction":
    """The direction of a score, said by a flag, or by the user if it is to `ask`. Raises UsageError."""
    from pace_async.errors import UsageError

    if one_of({"--minimize": minimize, "--maximize": maximize}, (True, True)):
        return "minimize" if minimize else "maximize"
    if not ask:
        raise UsageError("Say whether a lower score is better (--minimize) or a higher one (--maximize).")
    return "maximize" if typer.confirm("Is a higher score better?") else "minimize"


def settings_of_evaluator(sets: list[str] | None) -> dict[str, object]:
    """`--set NAME=VALUE` as settings of a task's evaluator. The full key of a run's setting works too."""
    prefix = "evaluation.settings."
    return {f"{prefix}{name.removeprefix(prefix)}": value for name, value in overrides_of(sets).items()}
