"""Times and memory as Slurm's `--time` and `--mem` take them. Pure."""

import math
import re
from typing import Any

_TIME = re.compile(r"(?:(?P<days>\d{1,9})-)?(?P<parts>\d{1,9}(?::\d{1,9}){0,2})")
_MEMORY = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>[KMGT]?)(?:i?B)?", re.IGNORECASE)
_MOST = 1e9
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}


def seconds(value: Any, *, on_slurm: bool) -> float | None:
    """Seconds of `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M` or `D-H:M:S`. A number alone is minutes on Slurm, else seconds.
    None for no limit (0, UNLIMITED) and for what is no time."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) * (60 if on_slurm else 1) or None if 0 <= value < _MOST else None
    match = _TIME.fullmatch(str(value or "").strip())
    if match is None:
        return None
    parts = [int(part) for part in match["parts"].split(":")]
    if match["days"] is not None:
        hours, minutes, rest = (*parts, 0, 0)[:3]
        return float(int(match["days"]) * 86_400 + hours * 3600 + minutes * 60 + rest) or None
    if len(parts) == 1:
        return float(parts[0] * (60 if on_slurm else 1)) or None
    total = 0
    for part in parts:
        total = total * 60 + part
    return float(total) or None


def megabytes(value: Any) -> int | None:
    """MiB of a number with K, M, G or T behind it, with or without B. A number alone is MiB. None for no limit (0) and
    for what is no size."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _MEMORY.fullmatch(str(value).strip())
    return math.ceil(float(match["number"]) * _MIB[match["unit"].upper()]) or None if match is not None else None
