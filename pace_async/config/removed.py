"""Settings that are gone because they gained nothing that showed.

Invariant: a run or a file that states one at the value at which it did nothing is taken as if it did not, so that an
older run goes on. Any other value is refused in one sentence.
"""

from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import PydanticCustomError

from pace_async.config.choice import UNKNOWN_NAME

REMOVED: Mapping[str, Mapping[str, object]] = {
    "learner": {
        "other_ideas": 1.0,
        "ess_rate": False,
        "age_decay": 1.0,
        "mask": "none",
        "mask_low": 0.5,
        "mask_high": 2.0,
    }
}
"""By section: the value at which each did nothing."""


def without_removed(section: str, values: object) -> object:
    """What a section is given, without the settings that are gone. Raises PydanticCustomError for other values."""
    idle = REMOVED[section]
    if not isinstance(values, Mapping):
        return values
    settings = cast("Mapping[str, Any]", values)
    for name in settings.keys() & idle:
        if settings[name] != idle[name]:
            context = {"name": name, "value": str(settings[name])}
            raise PydanticCustomError(UNKNOWN_NAME, "{name} {value} is gone: it gained nothing that showed", context)
    return {name: value for name, value in settings.items() if name not in idle}
