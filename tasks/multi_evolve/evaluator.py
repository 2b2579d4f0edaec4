"""Trusted scorer of predicted fitness: .7 · Pearson correlation + .3 · precision at five, averaged over assays.

A program is given variants of at most two mutations with their scores and, without scores, variants of three and more.
What is measured of those stays here. Never shown to a candidate.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from assays import LITE, Assay, Measured, of_measured_singles, read_assays, read_gb1, split
from landscape import SHAPES, rows

CORRELATION, PRECISION = 0.7, 0.3
TOP = 5  # items, or per cent of the variants to predict
STILL = 1e-9  # spread of predictions, as a share of their size, below which they are all one


def instances(seed: int, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One instance for each assay: training variants and their scores, the variants to predict, and as `target_seq` the
    wild type's sequence where the files tell it."""
    return [
        {"train": assay.train, "scores": assay.scores, "test": assay.test}
        | ({} if assay.sequence is None else {"target_seq": assay.sequence})
        for assay in _assays(seed, **_chosen(settings))
    ]


def practice(seed: int, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Assays of other landscapes, which score nothing."""
    return instances(seed, settings)


def score(
    instances: Sequence[object], outputs: Sequence[object], seed: int, settings: Mapping[str, Any]
) -> dict[str, float]:
    """{"score": ...} and what it is made of. Raises ValueError for predictions that are not allowed. `top_is_per_cent`
    says which reading of precision at five counted; both are given."""
    assays = _assays(seed, **_chosen(settings))
    if not len(outputs) == len(instances) == len(assays):
        raise ValueError(f"predictions for {len(assays)} assays were asked for and {len(outputs)} came")
    predicted = [_predictions(assay, output) for assay, output in zip(assays, outputs, strict=True)]
    pearson = [_pearson(found, assay.truth) for found, assay in zip(predicted, assays, strict=True)]
    five = [_precision(found, assay.truth, TOP) for found, assay in zip(predicted, assays, strict=True)]
    share = [
        _precision(found, assay.truth, math.ceil(len(assay.truth) * TOP / 100))
        for found, assay in zip(predicted, assays, strict=True)
    ]
    per_cent = _reads_per_cent(settings)
    precision = share if per_cent else five
    each = [CORRELATION * r + PRECISION * p for r, p in zip(pearson, precision, strict=True)]
    return {
        "score": float(np.mean(each)),
        "pearson": float(np.mean(pearson)),
        "precision_five_per_cent": float(np.mean(share)),
        "precision_five_items": float(np.mean(five)),
        "top_is_per_cent": float(per_cent),
        "assays": len(assays),
        "sequences": sum(assay.sequence is not None for assay in assays),
        "predicted": sum(len(assay.truth) for assay in assays),
        **{f"{assay.name}": one for assay, one in zip(assays, each, strict=True)},
    }


def _reads_per_cent(settings: Mapping[str, Any]) -> bool:
    if settings["top"] not in ("percent", "items"):
        raise ValueError(f"top must be percent or items, not {settings['top']!r}")
    return settings["top"] == "percent"


def _predictions(assay: Assay, output: object) -> np.ndarray:
    """(variants to predict,) finite numbers that are not all one."""
    if not isinstance(output, list) or len(output) != len(assay.test):
        raise ValueError(f"{assay.name}: a list of {len(assay.test)} predictions was asked for")
    if not all(type(value) in (int, float) and math.isfinite(value) for value in output):
        raise ValueError(f"{assay.name}: a prediction is no finite number")
    found = np.array(output, dtype=float)
    with np.errstate(over="ignore"):
        spread, size = float(np.ptp(found)), float(np.abs(found).max())
    if not math.isfinite(spread) or spread <= STILL * size:
        raise ValueError(f"{assay.name}: the predictions are all the same")
    return found / size


def _pearson(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.corrcoef(found, truth)[0, 1])


def _precision(found: np.ndarray, truth: np.ndarray, count: int) -> float:
    """Share of the `count` best predicted that are among the `count` best measured. Among variants that are predicted
    alike the worse count first, so a tie gains nothing; variants measured as well as the last of the best are best."""
    best = np.lexsort((truth, -found))[:count]
    return float((truth[best] >= np.sort(truth)[-count]).mean())


def _chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    _reads_per_cent(settings)
    data, protocol = str(settings["data"]), settings["protocol"]
    if protocol not in ("whole", "published"):
        raise ValueError(f"protocol must be whole or published, not {protocol!r}")
    published = protocol == "published" or data == "lite"
    return {"data": data, "path": str(settings["path"]), "most": int(settings["most"]), "published": published}


@functools.lru_cache(maxsize=4)
def _assays(seed: int, data: str, path: str, most: int, published: bool) -> tuple[Assay, ...]:
    match data:
        case "synthetic":
            found = {shape.name: Measured(rows(shape, seed)) for shape in SHAPES}
        case "gb1":
            found = {"gb1": Measured(read_gb1(Path(path)))}
        case "twelve":
            found = read_assays(Path(path))
        case "lite":
            found = read_assays(Path(path), LITE)
        case _:
            raise ValueError(f"data must be synthetic, gb1, lite or twelve, not {data!r}")
    kept = of_measured_singles if published else list
    return tuple(split(name, kept(one.rows), most, seed, one.sequence) for name, one in found.items())
