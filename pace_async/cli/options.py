"""Flags to settings."""

from collections.abc import Mapping


def overrides_of(sets: list[str] | None, flags: Mapping[str, object] | None = None) -> dict[str, object]:
    """`--set a.b=c` as dotted keys with YAML values, then the flags that were given. Raises UsageError."""
    import yaml

    from pace_async.errors import UsageError

    found: dict[str, object] = {}
    for item in sets or []:
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set takes KEY=VALUE, such as learner.k=2, not {item!r}.")
        try:
            found[key.strip()] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise UsageError(f"--set {key}: {text!r} is not a YAML value.") from None
    found.update({key: value for key, value in (flags or {}).items() if value is not None})
    return found
