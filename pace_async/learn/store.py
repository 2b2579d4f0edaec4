"""Versions and checkpoints on disk.

`versions/000007` holds version 7's weights: a directory that transformers and an engine load. `checkpoints/000007`
holds the same and the optimizer's state: a place to start again from. Each was written whole or is not there, and its
completeness mark is the record of the step that made it. Version 0 is the model as given, and is not copied.

Only imported in the learner's child process.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import safetensors
import safetensors.torch
import torch

from pace_async.learn.trainer import GroupTrainer
from pace_async.weights import COMPLETE, DIGESTS, contents, damage, is_complete, record_digests, write_atomically

_files = cast("Any", safetensors.torch)

VERSIONS_KEPT = 3
"""The newest versions: the one just made, the one that is served, one to spare."""

CHECKPOINTS_KEPT = 2
"""The newest may be one step ahead of the record and give way to another, or be damaged; the one before it is not."""

_OPTIMIZER = "optimizer.safetensors"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json")
_NOT_COPIED = ("config.json", "generation_config.json", COMPLETE, DIGESTS)


@dataclass(frozen=True, slots=True)
class Made:
    """The record of the step that made a version out of the version before it."""

    version: int
    digest: str
    metrics: Mapping[str, float]
    seconds: float


class Store:
    """The folder of one learner. `model` is the directory of version 0."""

    def __init__(self, model: Path, out: Path) -> None:
        self.model = model
        self._versions, self._checkpoints = out / "versions", out / "checkpoints"
        for folder in (self._versions, self._checkpoints):
            folder.mkdir(parents=True, exist_ok=True)
            for unfinished in folder.glob(".*.tmp"):
                shutil.rmtree(unfinished, ignore_errors=True)

    def weights(self, version: int) -> Path:
        """Directory of a version's weights, whether or not it is there."""
        return self._versions / f"{version:06d}" if version else self.model

    def checkpoint(self, version: int) -> Path:
        return self._checkpoints / f"{version:06d}"

    def versions(self) -> list[Made]:
        """What made each complete version, oldest first."""
        return _records(self._versions)

    def checkpoints(self) -> list[Made]:
        """What made each complete checkpoint, oldest first."""
        return _records(self._checkpoints)

    def save_version(self, trainer: GroupTrainer, made: Made) -> Path:
        """Write the version's weights and return where they are. Raises OSError, ValueError if a weight is NaN or
        infinite."""
        folder = self.weights(made.version)
        if any(other.version == made.version and other.digest != made.digest for other in self.versions()):
            _discard(folder)

        def write(to: Path) -> None:
            _save_weights(trainer, self.model, to)
            record_digests(to)

        write_atomically(folder, write, json.dumps(asdict(made)))
        return folder

    def save_checkpoint(self, trainer: GroupTrainer, made: Made) -> None:
        """Write weights and optimizer. Raises as `save_version` does."""

        def write(folder: Path) -> None:
            _save_weights(trainer, self.model, folder)
            with _disk_errors(folder):
                _files.save_file(optimizer_state(trainer), folder / _OPTIMIZER)
            record_digests(folder)

        write_atomically(self.checkpoint(made.version), write, json.dumps(asdict(made)))

    def load_optimizer(self, trainer: GroupTrainer, version: int) -> None:
        """Put a checkpoint's optimizer state into a trainer that was loaded from its weights."""
        saved: dict[str, torch.Tensor] = _files.load_file(self.checkpoint(version) / _OPTIMIZER)
        for name, weight in trainer.policy.named_parameters():
            state = {
                key: saved[f"{name}/{key}"].to(weight.device if key != "step" else "cpu", copy=True)
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"{name}/{key}" in saved
            }
            if state:
                trainer.adamw.state[weight] = state

    def forget_after(self, version: int) -> None:
        """Remove every version and checkpoint later than `version`."""
        for folder in (self._versions, self._checkpoints):
            for entry in folder.iterdir():
                if entry.name.isdigit() and int(entry.name) > version:
                    _discard(entry)

    def prune(self, version: int, keeps: Sequence[int] = ()) -> None:
        """Remove the old ones: of those up to `version` the newest few stay, and the checkpoints of `keeps`."""
        for folder, records, kept in (
            (self._versions, self.versions(), VERSIONS_KEPT),
            (self._checkpoints, self.checkpoints(), CHECKPOINTS_KEPT),
        ):
            for made in [made for made in records if made.version <= version][:-kept]:
                if folder == self._versions or made.version not in keeps:
                    _discard(folder / f"{made.version:06d}")

    @property
    def oldest_needed(self) -> int:
        """The oldest checkpoint that a restart may load; 0, the model as given, while there is none to spare. One that
        is kept to go back to may be older: no group before it is needed for that."""
        records = self.checkpoints()
        return records[-CHECKPOINTS_KEPT].version if len(records) >= CHECKPOINTS_KEPT else 0

    def is_sound(self, folder: Path) -> bool:
        """Whether a version or a checkpoint is complete and holds what was written, byte for byte; one that does not is
        removed. Reads all of it."""
        if is_complete(folder) and _holds_tensors(folder) and damage(folder) is None:
            return True
        _discard(folder)
        return False


def _holds_tensors(folder: Path) -> bool:
    """Whether the tensors lie where the headers say, and there are some."""
    try:
        held = contents(folder)
        return bool(held) and all(tensor.start + tensor.length <= tensor.file.stat().st_size for tensor in held)
    except (OSError, ValueError):
        return False


def optimizer_state(trainer: GroupTrainer) -> dict[str, torch.Tensor]:
    """AdamW's tensors, named `parameter/exp_avg` and so on; empty before the first step."""
    states = cast("Mapping[torch.Tensor, Mapping[str, torch.Tensor]]", trainer.adamw.state)
    return {
        f"{name}/{key}": value.contiguous()
        for name, weight in trainer.policy.named_parameters()
        for key, value in states.get(weight, {}).items()
    }


def _records(folder: Path) -> list[Made]:
    found: list[Made] = []
    for entry in sorted(folder.iterdir()):
        if entry.name.isdigit() and is_complete(entry):
            try:
                record = cast("dict[str, Any]", json.loads((entry / COMPLETE).read_text()))
                found.append(Made(**record))
            except (ValueError, TypeError):
                _discard(entry)  # its mark was changed by a disk, not by us
    return sorted(found, key=lambda made: made.version)


def _save_weights(trainer: GroupTrainer, model: Path, folder: Path) -> None:
    for name, weight in trainer.policy.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise ValueError(f"weight {name} is not finite and is not written")
    with _disk_errors(folder):
        cast("Any", trainer.policy).save_pretrained(folder)
    if trainer.settings.lora_rank is not None:  # adapters alone were written
        return
    for file in model.iterdir():
        if file.is_file() and file.name not in _NOT_COPIED and not file.name.endswith(_WEIGHTS):
            shutil.copyfile(file, folder / file.name)


@contextlib.contextmanager
def _disk_errors(folder: Path) -> Generator[None]:
    """Errors of the disk as OSError: safetensors names their number in words only."""
    try:
        yield
    except safetensors.SafetensorError as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(folder)) from error


def _discard(folder: Path) -> None:
    """Its mark goes first, so that what is left of a removal cut short is never taken for complete."""
    (folder / COMPLETE).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
