"""Trusted scorer of recommendations: ranks the whole catalogue by the scores given, ties as badly as may be.

A program is given what each user watched, in order and with times, but for the last item, and returns a score for every
user and every item. The items that were watched last stay here. Never shown to a candidate.
"""

import base64
import binascii
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from interactions import Split, read, split
from watching import watched

CUTS = (10, 50)
SIZES = {
    "real": {"history": 1_024, "width": 128, "blocks": 4},
    "synthetic": {"history": 48, "width": 32, "blocks": 2},
}


def instances(seed: int, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One instance: what was watched before, and how large the model is to be. Arrays are base64 of little-endian
    numbers: `lengths` (users,) and `items` of two bytes, `times` of four. Nothing of it tells the seed, from which
    synthetic data, with what is to be found, could be made again."""
    found = _split(seed, settings)
    return [
        {
            "catalogue": found.catalogue,
            "lengths": _text(found.length, "<u2"),
            "items": _text(found.item, "<u2"),
            "times": _text(found.time, "<u4"),
            "epochs": int(settings["epochs"]),
            **_sizes(settings),
        }
    ]


def score(
    instances: Sequence[object], outputs: Sequence[object], seed: int, settings: Mapping[str, Any]
) -> dict[str, float]:
    """{"score": mean of NDCG@10, HR@10 and MRR}, and what it is made of. Raises ValueError for scores that are not
    allowed. With one item to be found, NDCG is 1 / log2(1 + rank) within the cut and 0 beyond."""
    found = _split(seed, settings)
    if len(outputs) != 1:
        raise ValueError(f"scores for one instance were asked for and {len(outputs)} came")
    rank = _ranks(_scores(outputs[0], len(found.truth), found.catalogue), found.truth - 1)
    metrics = {f"ndcg_{cut}": float(np.mean(np.where(rank <= cut, 1 / np.log2(1 + rank), 0.0))) for cut in CUTS}
    metrics |= {f"hr_{cut}": float(np.mean(rank <= cut)) for cut in CUTS}
    metrics["mrr"] = float(np.mean(1 / rank))
    return {
        "score": (metrics["ndcg_10"] + metrics["hr_10"] + metrics["mrr"]) / 3,
        **metrics,
        "users": len(found.truth),
        "items": found.catalogue,
        "interactions": len(found.item),
    }


def _ranks(scores: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """(users,) places from 1 of the items to be found: after all that score no less."""
    given = np.take_along_axis(scores, truth[:, None], axis=1)
    return (scores >= given).sum(axis=1)


def _scores(output: object, users: int, items: int) -> np.ndarray:
    """(users, items) finite numbers, of which no user's are all one."""
    shape = f"{users} users and {items} items"
    if not isinstance(output, str):
        raise ValueError(f"scores of {shape} must be text, base64 of little-endian half-precision numbers")
    try:
        data = base64.b64decode(output, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the scores are no base64") from None
    if len(data) != 2 * users * items:
        raise ValueError(f"scores of {shape} are {2 * users * items} bytes and {len(data)} came")
    scores = np.frombuffer(data, "<f2").reshape(users, items)
    # Bits, not values: half precision is slow to compute with. All ones in the exponent: infinite, or no number.
    if (np.frombuffer(data, "<u2") & 0x7C00 == 0x7C00).any():
        raise ValueError("a score is no finite number")
    if (scores.max(axis=1) == scores.min(axis=1)).any():
        raise ValueError("the scores of all items are the same for a user")
    return scores


def _text(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode()


def _sizes(settings: Mapping[str, Any]) -> dict[str, int]:
    """Those of the data, where a setting is 0."""
    own = SIZES.get(settings["data"])
    if own is None:
        raise ValueError(f"data must be {' or '.join(SIZES)}, not {settings['data']!r}")
    return {name: int(settings[name]) or size for name, size in own.items()}


def _split(seed: int, settings: Mapping[str, Any]) -> Split:
    history = _sizes(settings)["history"]
    return _splits(seed, settings["data"], settings["path"], int(settings["users"]), history)


@functools.lru_cache(maxsize=4)
def _splits(seed: int, data: str, path: str, users: int, history: int) -> Split:
    log = watched(seed, users) if data == "synthetic" else _read(path)
    return split(log, history, users, seed)


@functools.lru_cache(maxsize=1)
def _read(path: str) -> Any:
    return read(Path(path))
