"""The recorded trace of expert loads: which experts a serving engine used, step by step, summed to windows.

The file is JSON, {"load_history": [{"logical_expert_load": [layers][experts]}, ...]}, in whole numbers of tokens. It
has 234 MB, so records are parsed one at a time and only the windows are kept. Trusted: what stands here is read by the
scorer, never by a candidate.
"""

import functools
import hashlib
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

FILE = "expert-load.json"
SOURCE = "the dataset abmfy/eplb-openevolve on the Hugging Face hub"
SHA256 = ("d93580b3", "71ad")
"""How the digest of the file begins and ends."""
FEWEST = 2  # windows: one to place from, one to score on
_HISTORY = re.compile(r'"load_history"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_CHUNK = 1 << 22  # characters


@functools.lru_cache(maxsize=2)
def read_windows(path: Path, records: int, experts: int, sha256: tuple[str, str] = SHA256) -> tuple[np.ndarray, ...]:
    """Arrays (layers, experts) of tokens, each the sum of as many records, the last one of what is left. `path` is the
    file or the folder that holds it. Raises FileNotFoundError or ValueError in one sentence that says where to get it.
    """
    file = path / FILE if path.is_dir() else path
    get = (
        f"get {FILE} (234 MB) from {SOURCE} and name the folder that holds it by --set evaluation.settings.path=FOLDER"
    )
    if not file.is_file():
        raise FileNotFoundError(f"There is no trace of expert loads at {file}: {get}")
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    begins, ends = sha256
    if not (found.startswith(begins) and found.endswith(ends)):
        raise ValueError(
            f"{file} is another file than expected (sha256 {found[:8]}…{found[-4:]}, not {begins}…{ends}): {get}"
        )
    if records < 1:
        raise ValueError(f"a window has at least one record, not {records}")
    with file.open(encoding="utf-8") as text:
        loads = (_load(number, record, experts) for number, record in enumerate(_records(text)))
        windows = tuple(_summed(loads, records))
    if len(windows) < FEWEST:
        raise ValueError(f"{file} has {len(windows)} windows of {records} records; {FEWEST} are needed")
    return windows


def _summed(loads: Iterator[np.ndarray], records: int) -> Iterator[np.ndarray]:
    for first in loads:
        window = first.copy()
        for load in islice(loads, records - 1):
            if load.shape != window.shape:
                raise ValueError(f"records of {len(window)} and of {len(load)} layers stand in one trace")
            window += load
        yield window


def _load(number: int, record: Any, experts: int) -> np.ndarray:
    """(layers, experts) of one record."""
    try:
        load = np.array(record["logical_expert_load"])
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"record {number} of the trace has no table logical_expert_load") from None
    if load.ndim != 2 or load.shape[1] != experts or load.dtype.kind != "i" or load.min(initial=0) < 0:
        raise ValueError(f"record {number} of the trace is no table of whole numbers, {experts} in each layer")
    return load


def _records(stream: TextIO) -> Iterator[Any]:
    """The items of the list "load_history", one at a time. Raises ValueError for a text that ends before the list."""
    text, at, decoder = "", -1, json.JSONDecoder()
    while at < 0:
        text += _more(stream)
        found = _HISTORY.search(text)
        at = found.end() if found else -1
    while True:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if text.startswith("]", at):
            return
        try:
            record, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:  # it does not end in what has been read
            text, at = text[at:] + _more(stream), 0
            continue
        yield record


def _more(stream: TextIO) -> str:
    chunk = stream.read(_CHUNK)
    if not chunk:
        raise ValueError('the trace ends before its list "load_history" does')
    return chunk
