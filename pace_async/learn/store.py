"""Versions and checkpoints on disk.

`versions/000007` holds version 7's weights, in a directory that transformers and an engine can load.
`checkpoints/000007` holds the weights and the optimizer's state, so training can restart from it. Each directory is
written whole or does not exist. Its completeness mark is the record of the step that made it. Version 0 is the given
model and is not copied.

Only imported in the learner's child process.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import safetensors
import safetensors.torch
import torch

from pace_async.learn.rebuild import OPTIMIZER, StepRecord, checkpoints_of, given_optimizer, made_in
from pace_async.learn.served_type import as_served, name_type, served_type
from pace_async.learn.shards import is_sharded, like, whole
from pace_async.learn.trainer import GroupTrainer
from pace_async.model_folder import companions
from pace_async.weights import COMPLETE, DIGESTS, damage, everything, is_complete, record_digests, write_atomically

_files = cast("Any", safetensors.torch)

VERSIONS_KEPT = 3
"""The newest versions: the new one, the served one, and one spare."""

CHECKPOINTS_KEPT = 2
"""The newest may be damaged, or one step ahead of the record and be replaced. The one before it is then used."""

_NOT_COPIED = (COMPLETE, DIGESTS)


class LearnerStore:
    """Folder of one learner. `model` is the directory of version 0."""

    def __init__(self, model: Path, out: Path) -> None:
        self.model, self._out = model, out
        self._versions, self._checkpoints = out / "versions", checkpoints_of(out)
        for folder in (self._versions, self._checkpoints):
            folder.mkdir(parents=True, exist_ok=True)
            for unfinished in folder.glob(".*.tmp"):
                shutil.rmtree(unfinished, ignore_errors=True)

    def weights(self, version: int) -> Path:
        """Directory of a version's weights. It need not exist."""
        return self._versions / f"{version:06d}" if version else self.model

    def checkpoint(self, version: int) -> Path:
        return self._checkpoints / f"{version:06d}"

    def versions(self) -> list[StepRecord]:
        """Records of the complete versions, oldest first."""
        return _records(self._versions)

    def checkpoints(self) -> list[StepRecord]:
        """Records of the complete checkpoints, oldest first."""
        return _records(self._checkpoints)

    def save_version(self, trainer: GroupTrainer, record: StepRecord) -> Path:
        """Write the version's weights, in the served type if the settings say so. Returns their directory. Raises
        OSError, and ValueError if a weight is NaN or infinite."""
        folder = self.weights(record.version)
        if any(other.version == record.version and other.digest != record.digest for other in self.versions()):
            _discard(folder)

        def write(to: Path) -> None:
            _save_weights(trainer, self.model, to, served=trainer.settings.served_type)
            record_digests(to)

        write_atomically(folder, write, json.dumps(asdict(record)))
        return folder

    def save_checkpoint(self, trainer: GroupTrainer, record: StepRecord) -> None:
        """Write weights and optimizer, in float32. Raises as `save_version` does."""

        def write(folder: Path) -> None:
            _save_weights(trainer, self.model, folder)
            with _disk_errors(folder):
                _files.save_file(optimizer_state(trainer), folder / OPTIMIZER)
            record_digests(folder)

        write_atomically(self.checkpoint(record.version), write, json.dumps(asdict(record)))

    def load_optimizer(self, trainer: GroupTrainer, version: int) -> None:
        """Load a version's optimizer state into a trainer that holds its weights: that of its checkpoint, and for
        version 0 the one with which the run began, if any."""
        if version or given_optimizer(self._out).exists():
            load_optimizer(trainer, self.checkpoint(version) if version else given_optimizer(self._out))

    def forget_after(self, version: int) -> None:
        """Remove every version and checkpoint later than `version`."""
        for folder in (self._versions, self._checkpoints):
            for entry in folder.iterdir():
                if entry.name.isdigit() and int(entry.name) > version:
                    _discard(entry)

    def prune(self, version: int, keeps: Sequence[int] = ()) -> None:
        """Remove old ones. Of those up to `version`, the newest few stay, and the checkpoints in `keeps`."""
        for folder, records, count in (
            (self._versions, self.versions(), VERSIONS_KEPT),
            (self._checkpoints, self.checkpoints(), CHECKPOINTS_KEPT),
        ):
            for record in [record for record in records if record.version <= version][:-count]:
                if folder == self._versions or record.version not in keeps:
                    _discard(folder / f"{record.version:06d}")

    @property
    def oldest_needed(self) -> int:
        """The oldest checkpoint that a restart may load, or 0 (the given model) while there are fewer than
        CHECKPOINTS_KEPT. A checkpoint kept for a restore may be older. A restore needs no group before it."""
        records = self.checkpoints()
        return records[-CHECKPOINTS_KEPT].version if len(records) >= CHECKPOINTS_KEPT else 0

    def is_sound(self, folder: Path) -> bool:
        """Whether a version or a checkpoint is complete and byte for byte as it was written. Removes it if not. Reads
        all of it."""
        if is_complete(folder) and _holds_tensors(folder) and damage(folder) is None:
            return True
        _discard(folder)
        return False


def _holds_tensors(folder: Path) -> bool:
    """Whether there are tensors, and every file is long enough for its header."""
    try:
        tensors = everything(folder)
        return bool(tensors) and all(tensor.start + tensor.length <= tensor.file.stat().st_size for tensor in tensors)
    except (OSError, ValueError):
        return False


def load_optimizer(trainer: GroupTrainer, checkpoint: Path) -> None:
    """As `LearnerStore.load_optimizer`, from the checkpoint in this folder. Every rank keeps its part."""
    saved: dict[str, torch.Tensor] = _files.load_file(checkpoint / OPTIMIZER)
    fused = bool(trainer.adamw.param_groups[0].get("fused"))  # it reads the number of its steps on the card
    for name, weight in trainer.policy.named_parameters():
        state: dict[str, torch.Tensor] = {}
        for key in ("step", "exp_avg", "exp_avg_sq"):
            value = saved.get(f"{name}/{key}")
            if value is not None and key == "step":
                state[key] = value.to(weight.device if fused else "cpu", copy=True)
            elif value is not None:
                state[key] = like(value, weight)
        if state:
            trainer.adamw.state[weight] = state


def optimizer_state(trainer: GroupTrainer) -> dict[str, torch.Tensor]:
    """AdamW's tensors, named `parameter/exp_avg` and so on. Empty before the first step, and on every rank but the
    first. Needs all ranks."""
    trainer.ranks.call("optimizer")
    states = cast("Mapping[torch.Tensor, Mapping[str, torch.Tensor]]", trainer.adamw.state)
    state: dict[str, torch.Tensor] = {}
    for name, weight in trainer.policy.named_parameters():
        for key, value in states.get(weight, {}).items():
            gathered = whole(value)
            if trainer.ranks.first:
                state[f"{name}/{key}"] = gathered.cpu().contiguous() if gathered is not value else value.contiguous()
    return state


def whole_weights(trainer: GroupTrainer, *, on_card: bool = False) -> dict[str, torch.Tensor]:
    """The policy's state, as one process would have it. Gathered weights are in host memory, unless `on_card`, and the
    names of a tied weight share one tensor. Empty on every rank but the first. Needs all ranks."""
    state = cast("dict[str, torch.Tensor]", trainer.policy.state_dict())
    if not is_sharded(trainer.policy):
        return state
    trainer.ranks.call("weights")
    names: dict[torch.Tensor, list[str]] = {}
    for name, weight in trainer.policy.named_parameters(remove_duplicate=False):
        names.setdefault(weight, []).append(name)
    for weight, tied in names.items():
        gathered = whole(weight.detach())
        if trainer.ranks.first:
            tensor = gathered if on_card else gathered.cpu()
            state |= dict.fromkeys(tied, tensor)
    return state if trainer.ranks.first else {}


def _records(folder: Path) -> list[StepRecord]:
    records: list[StepRecord] = []
    for entry in sorted(folder.iterdir()):
        try:
            record = made_in(entry)
        except ValueError:
            _discard(entry)
            continue
        if record is not None:
            records.append(record)
    return sorted(records, key=lambda record: record.version)


def _save_weights(trainer: GroupTrainer, model: Path, folder: Path, *, served: bool = False) -> None:
    policy, adapters = cast("Any", trainer.policy), trainer.settings.lora_rank is not None
    state = whole_weights(trainer) if served or is_sharded(policy) else None
    if served and state is not None:
        state = as_served(policy, state, model, adapters=adapters)
    for name, weight in state.items() if state is not None else trainer.policy.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise ValueError(f"weight {name} is not finite and is not written")
    with _disk_errors(folder), _without_generation_config(policy):
        policy.save_pretrained(folder, state_dict=state)
    if adapters:  # only they were written
        return
    if served:
        name_type(folder, served_type(model))
    for file in companions(model):
        if file.name not in _NOT_COPIED:
            shutil.copyfile(file, folder / file.name)


@contextlib.contextmanager
def _without_generation_config(policy: Any) -> Generator[None]:
    """The policy writes no generation_config.json inside the context. That of the given model is copied as it is:
    transformers refuses to write some that it reads."""
    policy.can_generate = lambda: False
    try:
        yield
    finally:
        del policy.can_generate


@contextlib.contextmanager
def _disk_errors(folder: Path) -> Generator[None]:
    """Turn disk errors into OSError. safetensors gives their number only in its message."""
    try:
        yield
    except safetensors.SafetensorError as error:
        match = re.search(r"\(os error (\d+)\)", str(error))
        if match is None:
            raise
        number = int(match[1])
        raise OSError(number, os.strerror(number), str(folder)) from error


def _discard(folder: Path) -> None:
    """Remove a folder, its mark first, so that the rest of an interrupted removal never looks complete."""
    (folder / COMPLETE).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
