"""Lineage: each version is made from the one before by one group, exactly once.

Invariant: the trainer holds the weights that the recorded groups 1…L make of the given model, in order. A group makes
at most one version, however often it is delivered and whenever this process dies. Lost state is rebuilt from the record
of groups, starting at the newest checkpoint of that record.
It does not judge groups: it trains each one once.

Only imported in the learner's child process.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pace_async.learn.base import RESTORED
from pace_async.learn.head import OwnHead
from pace_async.learn.lengths import TooLong
from pace_async.learn.ranks import ALONE, Ranks
from pace_async.learn.rebuild import StepRecord
from pace_async.learn.released import free_released
from pace_async.learn.replayed import ReplayResult, continue_from, repeats
from pace_async.learn.settings import TrainerConfig
from pace_async.learn.steady import RandomPasses
from pace_async.learn.store import LearnerStore
from pace_async.learn.trainer import GroupTrainer, StepResult, load_trainer
from pace_async.replay.group import Group
from pace_async.replay.groupfile import read_digested
from pace_async.row_positions import DependsOnNeighbours


class GroupRefused(ValueError):
    """A group or a history is invalid. Nothing was changed. `setting` is true if a setting is the cause, `unreadable`
    if a group's file is damaged or missing."""

    def __init__(self, reason: str, *, setting: bool = False, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.setting, self.unreadable = setting, unreadable


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a group: see `learn.base.Step`. No version before `oldest` will be rebuilt again."""

    update: int
    version: int
    digest: str
    weights: str | None
    reason: str
    metrics: dict[str, float]
    seconds: float
    oldest: int = field(compare=False)


class Lineage:
    """The versions that training with `settings` makes of `model`, stored under `out`. Rank 0 has it. The other
    `ranks` follow."""

    def __init__(self, model: Path, out: Path, settings: TrainerConfig, ranks: Ranks = ALONE) -> None:
        self.settings, self._ranks = settings, ranks
        self.version = 0
        self._out = out
        self._store = LearnerStore(model, out)
        self._trainer: GroupTrainer | None = None
        self._repeats: bool | None = None
        self.replayed: ReplayResult | None = None
        """How the last start repeated steps. None: it repeated none."""

    def start(
        self,
        groups: Sequence[Path],
        replayed: Callable[[int], None] = lambda version: None,
        *,
        after: int = 0,
        loaded: Callable[[int], None] = lambda version: None,
    ) -> Path:
        """Rebuild the version that the groups made. `groups[i]` made version `after` + i + 1. The groups that made
        versions 1…`after` are gone.

        Loads the newest sound checkpoint among these versions and calls `loaded` with its version. Then trains the
        later groups again and calls `replayed` after each. A checkpoint one step ahead of the record stays, because
        its group may be delivered again. Later ones are removed. Where repeated training gave other weights than the
        files of the version, the files count (`learn.replayed`). Returns the directory of the version's weights. Raises
        GroupRefused if a necessary group file cannot be used."""
        target = after + len(groups)
        belonging = [step for step in reversed(self._store.checkpoints()) if _belongs(step, groups, after)]
        step = next((step for step in belonging if self._sound(step)), None)
        if step is None and after > 0:
            raise GroupRefused(f"no checkpoint of version {after} or later is left, and the groups before it are gone")
        self._load(step.version if step is not None else 0)
        loaded(self.version)
        began_at, self._repeats = self.version, self._tested()
        while self.version < target:
            path = groups[self.version - after]
            group, digest = self._read_group(path)
            began = time.perf_counter()
            result = self._take(group, path, digest)
            if result.reason:
                raise GroupRefused(
                    f"group {group.number} once made version {self.version + 1}, but now {result.reason}"
                )
            self.version += 1
            step = StepRecord(self.version, digest, result.metrics, time.perf_counter() - began)
            if _is_kept(group) and not any(other.version == self.version for other in self._store.checkpoints()):
                self._store.save_checkpoint(self.trainer, step)
            replayed(self.version)
        self._store.forget_after(target + 1)
        if step is not None:
            is_stored = any(record.digest == step.digest for record in self._store.versions())
            sound = is_stored and self._store.is_sound(self._store.weights(target))
            self.replayed = self._compared(target, target - began_at, sound=sound) if target > began_at else None
            if not sound:
                self._store.save_version(self.trainer, step)
        return self._store.weights(target)

    def train(self, path: Path) -> Outcome:
        """Train the group, or return its earlier result. Raises GroupRefused if the file cannot be used or does not
        train the current version. Raises OSError if the disk fails. Do not use this object after that."""
        began = time.perf_counter()
        group, digest = self._read_group(path)
        for record in self._store.versions():
            if record.digest == digest and record.version <= self.version:
                return self._outcome(record)
        if group.update != self.version:
            raise GroupRefused(
                f"group {group.number} trains version {group.update}, but the learner is at {self.version}"
            )
        for record in self._store.checkpoints():
            if record.digest == digest and record.version == self.version + 1 and self._sound(record):
                self._load(record.version)
                self._store.save_version(self.trainer, record)
                return self._outcome(record)
        self._store.forget_after(self.version)
        result = self._take(group, path, digest)
        if result.reason:
            oldest = self._store.oldest_needed
            return Outcome(
                group.update, group.update, digest, None, result.reason, result.metrics, result.seconds, oldest
            )
        self.version += 1
        record = StepRecord(self.version, digest, result.metrics, time.perf_counter() - began)
        self._store.save_version(self.trainer, record)
        if self.version % self.settings.checkpoint_every == 0 or _is_kept(group):
            self._store.save_checkpoint(self.trainer, record)
        self._store.prune(self.version, group.keeps)
        return self._outcome(record)

    @property
    def trainer(self) -> GroupTrainer:
        if self._trainer is None:
            raise GroupRefused("the learner was not started")
        return self._trainer

    def _tested(self) -> bool | None:
        """Whether the device repeats a gradient exactly, which is also logged. None on a CPU, which always does."""
        device = self.trainer.accelerator.device.type
        if device == "cpu":
            return None
        same = repeats(self.trainer)
        print(f"{device} gives the same gradient twice: {'yes' if same else 'no'}", file=sys.stderr)
        return same

    def _compared(self, version: int, steps: int, *, sound: bool) -> ReplayResult:
        """Go on from the files of the version, if they are there."""
        if not sound:
            return ReplayResult(steps, 0, None, self._repeats)
        differed, total = continue_from(self.trainer, self._store.weights(version))
        return ReplayResult(steps, total, differed, self._repeats)

    def _take(self, group: Group, path: Path, digest: str) -> StepResult:
        """Make the next version in memory, by a step or from an earlier version."""
        return self._step(group, path, digest) if group.restores is None else self._restore(group.restores)

    def _restore(self, good: int) -> StepResult:
        """Load weights and optimizer of version `good`, or of version 0 if its checkpoint is damaged or missing."""
        began, now = time.perf_counter(), self.version
        record = next((record for record in self._store.checkpoints() if record.version == good), None)
        if record is None or not self._sound(record):
            good = 0
        self._load(good)
        self.version = now
        return StepResult("", {RESTORED: float(good)}, time.perf_counter() - began)

    def _step(self, group: Group, path: Path, digest: str) -> StepResult:
        self._ranks.call("step", str(path), digest)
        try:
            return self.trainer.step(group)
        except TooLong as refusal:
            raise GroupRefused(str(refusal), setting=True) from None

    def _sound(self, record: StepRecord) -> bool:
        return self._store.is_sound(self._store.checkpoint(record.version))

    def _load(self, version: int) -> None:
        self._trainer = None
        free_released()  # of the old trainer, before the new one needs the room
        source = self._store.checkpoint(version) if version else self._store.model
        self._ranks.call("load", str(source))
        try:
            self._trainer = load_trainer(source, self.settings, self._out, self._store.model, ranks=self._ranks)
        except (DependsOnNeighbours, OwnHead, RandomPasses) as refusal:
            raise GroupRefused(f"{self._store.model}: {refusal}", setting=True) from None
        self._store.load_optimizer(self._trainer, version)
        self.version = version

    def _read_group(self, path: Path) -> tuple[Group, str]:
        try:
            return read_digested(path)
        except (OSError, ValueError) as error:
            raise GroupRefused(str(error), unreadable=True) from None

    def _outcome(self, record: StepRecord) -> Outcome:
        weights = str(self._store.weights(record.version))
        oldest = self._store.oldest_needed
        return Outcome(
            record.version - 1, record.version, record.digest, weights, "", dict(record.metrics), record.seconds, oldest
        )


def _is_kept(group: Group) -> bool:
    """Whether the group's version needs a checkpoint regardless of `checkpoint_every`."""
    return group.restores is not None or group.update + 1 in group.keeps


def _belongs(record: StepRecord, groups: Sequence[Path], after: int) -> bool:
    """Whether this history made the checkpoint. A missing or damaged group file does not count against it."""
    if not after <= record.version <= after + len(groups):
        return False
    if record.version == after:
        return True
    path = groups[record.version - after - 1]
    try:
        return not path.exists() or read_digested(path)[1] == record.digest
    except ValueError:
        return True
