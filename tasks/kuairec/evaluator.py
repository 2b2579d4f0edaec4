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
from interactions import Split, of_cores, read, split
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
    seen = _seen(found) if _is_published(settings) else None
    rank = _ranks(_scores(outputs[0], len(found.truth), found.catalogue), found.truth - 1, seen)
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


def _ranks(scores: np.ndarray, truth: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
    """(users,) places from 1 of the items to be found: after all that score no less. `seen` (users, items) are left
    out, but for the item to be found."""
    given = np.take_along_axis(scores, truth[:, None], axis=1)
    ahead = scores >= given
    if seen is not None:
        ahead &= ~seen
        np.put_along_axis(ahead, truth[:, None], values=True, axis=1)
    return ahead.sum(axis=1)


def _seen(found: Split) -> np.ndarray:
    """(users, items) whether an item stands in the history that is given of the user."""
    seen = np.zeros((len(found.length), found.catalogue), dtype=bool)
    seen[np.repeat(np.arange(len(found.length)), found.length), found.item - 1] = True
    return seen


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


def _is_published(settings: Mapping[str, Any]) -> bool:
    if settings["protocol"] not in ("whole", "published"):
        raise ValueError(f"protocol must be whole or published, not {settings['protocol']!r}")
    return settings["protocol"] == "published"


def _split(seed: int, settings: Mapping[str, Any]) -> Split:
    history, published = _sizes(settings)["history"], _is_published(settings)
    return _splits(seed, settings["data"], settings["path"], int(settings["users"]), history, published)


@functools.lru_cache(maxsize=4)
def _splits(seed: int, data: str, path: str, users: int, history: int, published: bool) -> Split:
    log = watched(seed, users) if data == "synthetic" else _read(path)
    return split(of_cores(log) if published else log, history, users, seed)


@functools.lru_cache(maxsize=1)
def _read(path: str) -> Any:
    return read(Path(path))
