"""What a rebuild of a version needs on the disk, and whether it is there.

`checkpoints/000007` under the learner's folder holds the weights and the optimizer's state of version 7, with the
record of the step that made it in its completeness mark. Invariant: a version can be rebuilt from a checkpoint of its
own history, or from the given model, if every group file after that is there. A version that a service has saved needs
neither: `versions/000007` says where it is. Imports no torch.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pace_async.replay.groupfile import read_digested
from pace_async.weights import COMPLETE, is_complete


@dataclass(frozen=True, slots=True)
class StepRecord:
    """Record of the step that made a version from the one before it. `digest` is that of its group."""

    version: int
    digest: str
    metrics: Mapping[str, float]
    seconds: float


OPTIMIZER = "optimizer.safetensors"
"""The file of a checkpoint with the optimizer's state."""


def given_optimizer(out: Path) -> Path:
    """The folder with the optimizer's state with which a run began, if it is not a fresh one."""
    return out / "given"


def made_in(folder: Path) -> StepRecord | None:
    """The record of a complete version or checkpoint, None for another folder. Raises ValueError if the disk changed
    the record."""
    if not folder.name.isdigit() or not is_complete(folder):
        return None
    try:
        record = cast("dict[str, Any]", json.loads((folder / COMPLETE).read_text()))
        return StepRecord(**record)
    except TypeError as error:
        raise ValueError(f"{folder / COMPLETE} is damaged: {error}") from None


SAVED = "tinker.json"
"""The file of a version whose weights are with a service, with the digest of its group."""


def checkpoints_of(out: Path) -> Path:
    """The folder of the checkpoints of the learner that writes under `out`."""
    return out / "checkpoints"


def lost_group(out: Path, groups: Sequence[tuple[Path, str]]) -> tuple[int, Path] | None:
    """The newest version whose group file a rebuild of the last version lacks, and that file. None if all is there.
    `groups[i]` made version i + 1: its file, and its digest in the record. A checkpoint, a version of a service or a
    file of another digest is of another history."""
    for version in range(len(groups), 0, -1):
        path, digest = groups[version - 1]
        if digest in (_checkpoint_digest(out, version), _digest_at_service(out, version)):
            return None
        if _file_digest(path) != digest:
            return version, path
    return None


def _checkpoint_digest(out: Path, version: int) -> str | None:
    try:
        record = made_in(checkpoints_of(out) / f"{version:06d}")
    except ValueError:
        return None
    return record.digest if record is not None else None


def _digest_at_service(out: Path, version: int) -> str | None:
    try:
        return str(json.loads((out / "versions" / f"{version:06d}" / SAVED).read_text("utf-8"))["digest"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _file_digest(path: Path) -> str | None:
    try:
        return read_digested(path)[1]
    except (OSError, ValueError):
        return None
