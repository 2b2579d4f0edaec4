"""Helpers of ShinkaEvolve that evaluators import."""

import json
from pathlib import Path
from typing import Any


def load_results(results_dir: str) -> dict[str, Any]:
    """The two files of an evaluation, as {"correct": …, "metrics": …}. What is missing or broken is as after a
    failure."""
    results: dict[str, Any] = {"correct": {"correct": False}, "metrics": {}, "stdout_log": "", "stderr_log": ""}
    for name in ("correct", "metrics"):
        try:
            results[name] = json.loads((Path(results_dir) / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
    return results


def parse_time_to_seconds(time_str: str) -> int:
    """Seconds of a time as hh:mm:ss. Raises ValueError."""
    parts = [int(part) for part in time_str.split(":")]
    if len(parts) != 3:
        raise ValueError(f"a time is hh:mm:ss, and not {time_str!r}")
    return (parts[0] * 60 + parts[1]) * 60 + parts[2]
