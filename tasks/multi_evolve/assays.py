"""Assays: variants of one protein with a measured score, split by how many mutations they carry.

A variant is written as its mutations with colons between them ("V39A:D40C": residue, position, residue), the wild type
as nothing. Wild type, singles and doubles are for training; three mutations and more are to be predicted. Trusted: what
stands here is read by the scorer, never by a candidate.
"""

import csv
import hashlib
import io
import math
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

TRAINED = 2  # mutations of a variant for training, at most
FEWEST = 20  # variants to predict, below which an assay says nothing
SOURCE = "https://doi.org/10.5281/zenodo.17620759"
TWELVE = (
    "CAPSD_AAV2S_Sinai_2021",
    "D7PM05_CLYGR_Somermeyer_2022",
    "F7YBW8_MESOW_Aakre_2015",
    "GFP_AEQVI_Sarkisyan_2016",
    "HIS7_YEAST_Pokusaeva_2019",
    "PHOT_CHLRE_Chen_2023",
    "Q65J43_BACLD_g4_Thomas_2025",
    "Q6WV13_9MAXI_Somermeyer_2022",
    "Q8WTC7_9CNID_Somermeyer_2022",
    "SPG1_STRSG_Wu_2016",
    "TRPB1_THEMA_Tm9D8_Johnston_2024",
    "VH14_Li_2023",
)
LITE = (
    "F7YBW8_MESOW_Aakre_2015",
    "Q65J43_BACLD_g4_Thomas_2025",
    "D7PM05_CLYGR_Somermeyer_2022",
    "GFP_AEQVI_Sarkisyan_2016",
    "VH14_Li_2023",
)
"""The five that the authors' public code takes by default."""
COUNTS = {5: "five", 12: "twelve"}
DEEPEST = 10  # mutations of a variant to predict, at most, where their split is taken
GB1_FILE = "four_mutations_full_data.csv.zip"
GB1_SHA256 = "85692d808dcd3ae54fa2ac31f4e590858d4582369b6c7b05df299b9b6c383bff"
GB1_SITES = (("V", 39), ("D", 40), ("G", 41), ("V", 54))

_MUTATION = re.compile(r"[A-Z][0-9]+[A-Z*]")


@dataclass(frozen=True, slots=True)
class Measured:
    """Variants with their scores, and the sequence of the wild type where the file tells it."""

    rows: list[tuple[str, float]]
    sequence: str | None = None


@dataclass(frozen=True, slots=True)
class Assay:
    """`train` and `test` are variants, sorted by name, so that their order says nothing of their scores."""

    name: str
    train: tuple[str, ...]
    scores: tuple[float, ...]
    test: tuple[str, ...]
    truth: np.ndarray
    sequence: str | None = None


def split(name: str, rows: Iterable[tuple[str, float]], most: int, seed: int, sequence: str | None = None) -> Assay:
    """By number of mutations. Of more than `most` variants to predict, that many are drawn by `seed`; 0 keeps all.
    Raises ValueError if one part is missing, or a variant stands there twice."""
    whole = sorted(rows)
    names = [variant for variant, _ in whole]
    twice = next((a for a, b in pairwise(names) if a == b), None)
    if twice is not None:
        raise ValueError(f"{name} has the variant {twice or 'wild type'!r} twice")
    train = [row for row in whole if _order(row[0]) <= TRAINED]
    test = [row for row in whole if _order(row[0]) > TRAINED]
    if len(train) < FEWEST or len(test) < FEWEST:
        raise ValueError(
            f"{name} has {len(train)} variants of at most two mutations and {len(test)} of more; each part needs "
            f"{FEWEST}"
        )
    if most and len(test) > most:
        kept = np.sort(np.random.default_rng([seed, most]).choice(len(test), most, replace=False))
        test = [test[k] for k in kept]
    truth = np.array([score for _, score in test])
    if truth.min() == truth.max():
        raise ValueError(f"{name} scores every variant to predict alike")
    trained, scores = zip(*train, strict=True)
    return Assay(name, trained, scores, tuple(variant for variant, _ in test), truth, sequence)


def of_measured_singles(rows: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """The variants of at most DEEPEST mutations each of which is measured as a single one too: the authors' split."""
    whole = list(rows)
    singles = {variant for variant, _ in whole if _order(variant) == 1}
    return [
        (variant, score)
        for variant, score in whole
        if _order(variant) <= DEEPEST and (not variant or singles.issuperset(variant.split(":")))
    ]


def read_gb1(path: Path) -> list[tuple[str, float]]:
    """Variants of GB1 with their fitness, from the file of four_mutations_full_data or the folder that holds it.
    Raises FileNotFoundError or ValueError in one sentence that says where to get it."""
    file = path / GB1_FILE if path.is_dir() else path
    get = (
        f"get {GB1_FILE} of the FLIP benchmark (Wu et al. 2016, https://doi.org/10.7554/eLife.16965) and name the "
        "folder that holds it by --set evaluation.settings.path=FOLDER"
    )
    if not file.is_file():
        raise FileNotFoundError(f"There is no GB1 data at {file}: {get}")
    if (found := hashlib.sha256(file.read_bytes()).hexdigest()) != GB1_SHA256:
        raise ValueError(f"{file} is another file than expected (sha256 {found[:8]}…, not {GB1_SHA256[:8]}…): {get}")
    with zipfile.ZipFile(file) as archive, archive.open(archive.namelist()[0]) as table:
        rows = csv.DictReader(io.TextIOWrapper(table, "utf-8"))
        return [(_mutated(row["Variants"]), float(row["Fitness"])) for row in rows]


def read_assays(folder: Path, names: tuple[str, ...] = TWELVE) -> dict[str, Measured]:
    """These assays by name. Raises FileNotFoundError or ValueError in one sentence that says what is
    missing and where to get it."""
    missing = [name for name in names if not (folder / f"{name}.csv").is_file()]
    if missing:
        files = ", ".join(f"{name}.csv" for name in missing)
        raise FileNotFoundError(
            f"{folder} lacks {len(missing)} of the {COUNTS[len(names)]} assays ({files}): get them from {SOURCE} and "
            "name the folder that holds them by --set evaluation.settings.path=FOLDER"
        )
    return {name: _read_assay(folder / f"{name}.csv") for name in names}


def _read_assay(file: Path) -> Measured:
    """Columns `mutant` ("A1B:C2D", or WT) and `DMS_score`, and `target_seq` or `mutated_sequence` if there is one."""
    with file.open(newline="", encoding="utf-8") as table:
        rows = csv.DictReader(table)
        if lacking := {"mutant", "DMS_score"} - set(rows.fieldnames or ()):
            raise ValueError(f"{file} has no column {' and no column '.join(sorted(lacking))}: get it from {SOURCE}")
        measured, sequence = list[tuple[str, float]](), None
        for row in rows:
            measured.append(_checked(file, rows.line_num, row["mutant"], row["DMS_score"]))
            sequence = sequence or row.get("target_seq") or wild_type(measured[-1][0], row.get("mutated_sequence"))
        return Measured(measured, sequence)


def wild_type(variant: str, mutated: str | None) -> str | None:
    """The sequence without the mutations of a variant. None if it does not have them at their positions, from 1."""
    residues = list(mutated or "")
    for mutation in variant.split(":") if variant else ():
        wild, place, residue = mutation[0], int(mutation[1:-1]) - 1, mutation[-1]
        if not 0 <= place < len(residues) or residues[place] != residue:
            return None
        residues[place] = wild
    return "".join(residues) or None


def _checked(file: Path, line: int, mutant: str | None, score: str | None) -> tuple[str, float]:
    variant = "" if mutant in ("WT", "wt", "", None) else mutant
    if variant and not all(map(_MUTATION.fullmatch, variant.split(":"))):
        raise ValueError(f"{file}, line {line}: {variant!r} is no mutant like A1B:C2D")
    try:
        value = float(score or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{file}, line {line}: {score!r} is no score")
    return variant, value


def _mutated(residues: str) -> str:
    """Four residues of GB1 as the mutations that make them."""
    sites = zip(GB1_SITES, residues, strict=True)
    return ":".join(f"{wild}{place}{residue}" for (wild, place), residue in sites if residue != wild)


def _order(variant: str) -> int:
    return variant.count(":") + 1 if variant else 0
