"""Writes rows as a Parquet file, each column with a type.

Invariant: the types are fixed, so a file has the same columns and types for every run, also for one without rows. NULL
stays NULL. Times are timestamps in UTC. Metrics are a text of JSON, because their names differ between tasks.
"""

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import IO, Any

from pace_async.population.reading.stream import Kind

ROWS_AT_ONCE = 2000
"""Rows of a row group: as many are in memory."""

_CANDIDATES: Mapping[str, str] = {
    **dict.fromkeys(("candidate", "island", "parent"), "int64"),
    "outcome": "string",
    **dict.fromkeys(("score", "reward"), "double"),
    **dict.fromkeys(("mechanism", "idea", "experiment", "detail"), "string"),
    "seconds": "double",
    "memoised": "bool",
    **dict.fromkeys(("policy_version", "staleness"), "int64"),
    "cost_usd": "double",
    **dict.fromkeys(("metrics", "program_hash"), "string"),
    "at": "time",
}

TYPES: Mapping[Kind, Mapping[str, str]] = {
    "candidates": _CANDIDATES,
    "front": _CANDIDATES,
    "rollouts": {
        **dict.fromkeys(("lease", "island"), "int64"),
        **dict.fromkeys(("stage", "state", "reason"), "string"),
        **dict.fromkeys(("admitted_version", "deadline", "oldest_version", "group_number", "staleness"), "int64"),
        **dict.fromkeys(("reward", "group_reward", "advantage"), "double"),
        **dict.fromkeys(("trained_by", "advisor_calls", "prompt_tokens", "completion_tokens"), "int64"),
        **dict.fromkeys(("proposed", "assessed", "selected"), "string"),
        "cost_usd": "double",
        **dict.fromkeys(("opened_at", "closed_at"), "time"),
    },
    "ideas": {
        **dict.fromkeys(("island", "idea"), "int64"),
        "description": "string",
        **dict.fromkeys(("proposed_by", "proposals", "experiments"), "int64"),
        "best_score": "double",
    },
    "updates": {
        **dict.fromkeys(("group_number", "update_number"), "int64"),
        **dict.fromkeys(("state", "reason"), "string"),
        "alpha": "double",
        "rollouts": "int64",
        "mean_reward": "double",
        "max_staleness": "int64",
        **dict.fromkeys(("loss", "entropy", "grad_norm", "clip_fraction", "ess", "k3", "mean_ratio"), "double"),
        "seconds": "double",
        "version": "int64",
        "published_at": "time",
        "paused_seconds": "double",
        **dict.fromkeys(("metrics", "digest"), "string"),
        **dict.fromkeys(("shipped_at", "ended_at"), "time"),
    },
}
"""Name and type of every column, in the order of the other formats."""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _time(seconds: Any) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


_AS: Mapping[str, Callable[[Any], Any]] = {
    "int64": int,  # a server gives sums as decimals
    "double": float,
    "bool": bool,
    "string": _text,
    "time": _time,
}


def write_parquet(rows: Iterable[Mapping[str, Any]], kind: Kind, stream: IO[bytes]) -> int:
    """Write the rows. Returns their number. Raises OSError if the disk fails."""
    arrow: Any = importlib.import_module("pyarrow")  # has no types, and takes long to load
    parquet: Any = importlib.import_module("pyarrow.parquet")
    alias: Mapping[str, Any] = {"time": arrow.timestamp("us", tz="UTC")}
    schema = arrow.schema([(name, alias.get(type_, type_)) for name, type_ in TYPES[kind].items()])
    number, left = 0, iter(rows)
    with parquet.ParquetWriter(stream, schema) as writer:
        while group := [_typed(row, kind) for row in islice(left, ROWS_AT_ONCE)]:
            writer.write_batch(arrow.RecordBatch.from_pylist(group, schema=schema))
            number += len(group)
    return number


def _typed(row: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    return {name: None if row[name] is None else _AS[type_](row[name]) for name, type_ in TYPES[kind].items()}
