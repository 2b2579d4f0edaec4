"""The line of versions: each made from the one before by one group, exactly once.

Invariant: the trainer holds the weights that the recorded groups 1…L make out of the model as given, in order. A group
that made a version makes no second one, however often it is delivered and whenever this process dies: what is lost is
rebuilt from the record of groups, starting at the newest checkpoint that belongs to it.
Not a judge of what is worth training on: it trains what it is given, once.

Only imported in the learner's child process.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pace_async.learn.base import RESTORED
from pace_async.learn.settings import Settings
from pace_async.learn.store import Made, Store
from pace_async.learn.trainer import GroupTrainer, Taken, TooLong, load_trainer
from pace_async.replay.group import Group
from pace_async.replay.groupfile import read_digested


class Refused(ValueError):
    """A group or a history that cannot be right. Nothing was changed. `setting` is true where a setting is to blame,
    `unreadable` where a group's file is damaged or gone."""

    def __init__(self, why: str, *, setting: bool = False, unreadable: bool = False) -> None:
        super().__init__(why)
        self.setting, self.unreadable = setting, unreadable


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a group, as `learn.base.Step` has it. No version before `oldest` will be rebuilt again."""

    update: int
    version: int
    digest: str
    weights: str | None
    reason: str
    metrics: dict[str, float]
    seconds: float
    oldest: int = field(compare=False)


class Lineage:
    """The versions that `settings` make of `model`, kept under `out`."""

    def __init__(self, model: Path, out: Path, settings: Settings) -> None:
        self.settings = settings
        self.version = 0
        self._out = out
        self._store = Store(model, out)
        self._trainer: GroupTrainer | None = None

    def start(
        self,
        groups: Sequence[Path],
        replayed: Callable[[int], None] = lambda version: None,
        *,
        after: int = 0,
        loaded: Callable[[int], None] = lambda version: None,
    ) -> Path:
        """Become the version that the groups made, `groups[i]` making version `after` + i + 1: load the newest
        sound checkpoint among them, call `loaded` with its version, and train the groups after it again, calling
        `replayed` after each. The groups that made versions 1…`after` are gone. Returns the directory of the version's
        weights. A checkpoint one step ahead of the record stays, for the group that made it may be delivered again;
        what lies further ahead is removed. Raises Refused if a group file that is needed cannot be used."""
        wanted = after + len(groups)
        belonging = [made for made in reversed(self._store.checkpoints()) if _belongs(made, groups, after)]
        made = next((made for made in belonging if self._sound(made)), None)
        if made is None and after > 0:
            raise Refused(f"no checkpoint of version {after} or later is left, and the groups before it are gone")
        self._load(made.version if made is not None else 0)
        loaded(self.version)
        while self.version < wanted:
            group, digest = self._read(groups[self.version - after])
            began = time.perf_counter()
            taken = self._take(group)
            if taken.reason:
                raise Refused(f"group {group.number} once made version {self.version + 1}, but now {taken.reason}")
            self.version += 1
            made = Made(self.version, digest, taken.metrics, time.perf_counter() - began)
            if _is_kept(group) and not any(other.version == self.version for other in self._store.checkpoints()):
                self._store.save_checkpoint(self.trainer, made)
            replayed(self.version)
        self._store.forget_after(wanted + 1)
        if made is not None:
            kept = any(record.digest == made.digest for record in self._store.versions())
            if not (kept and self._store.is_sound(self._store.weights(wanted))):
                self._store.save_version(self.trainer, made)
        return self._store.weights(wanted)

    def train(self, path: Path) -> Outcome:
        """Train the group once, or tell what it made before. Raises Refused if the file cannot be used or does not
        train the present version; OSError if the disk fails, and then this object must not be used again."""
        began = time.perf_counter()
        group, digest = self._read(path)
        for made in self._store.versions():
            if made.digest == digest and made.version <= self.version:
                return self._outcome(made)
        if group.update != self.version:
            raise Refused(f"group {group.number} trains version {group.update}, but the learner is at {self.version}")
        for made in self._store.checkpoints():
            if made.digest == digest and made.version == self.version + 1 and self._sound(made):
                self._load(made.version)
                self._store.save_version(self.trainer, made)
                return self._outcome(made)
        self._store.forget_after(self.version)
        taken = self._take(group)
        if taken.reason:
            oldest = self._store.oldest_needed
            return Outcome(group.update, group.update, digest, None, taken.reason, taken.metrics, taken.seconds, oldest)
        self.version += 1
        made = Made(self.version, digest, taken.metrics, time.perf_counter() - began)
        self._store.save_version(self.trainer, made)
        if self.version % self.settings.checkpoint_every == 0 or _is_kept(group):
            self._store.save_checkpoint(self.trainer, made)
        self._store.prune(self.version, group.keeps)
        return self._outcome(made)

    @property
    def trainer(self) -> GroupTrainer:
        if self._trainer is None:
            raise Refused("the learner was not started")
        return self._trainer

    def _take(self, group: Group) -> Taken:
        """Make the next version in memory: by a step, or out of an earlier version."""
        return self._step(group) if group.restores is None else self._restore(group.restores)

    def _restore(self, good: int) -> Taken:
        """Take the weights and the optimizer of version `good`; those of version 0 where its checkpoint is damaged."""
        began, now = time.perf_counter(), self.version
        made = next((made for made in self._store.checkpoints() if made.version == good), None)
        if made is None or not self._sound(made):
            good = 0
        self._load(good)
        self.version = now
        return Taken("", {RESTORED: float(good)}, time.perf_counter() - began)

    def _step(self, group: Group) -> Taken:
        try:
            return self.trainer.step(group)
        except TooLong as refusal:
            raise Refused(str(refusal), setting=True) from None

    def _sound(self, made: Made) -> bool:
        return self._store.is_sound(self._store.checkpoint(made.version))

    def _load(self, version: int) -> None:
        self._trainer = None  # the old one's memory first
        source = self._store.checkpoint(version) if version else self._store.model
        self._trainer = load_trainer(source, self.settings, self._out, self._store.model)
        if version:
            self._store.load_optimizer(self._trainer, version)
        self.version = version

    def _read(self, path: Path) -> tuple[Group, str]:
        try:
            return read_digested(path)
        except (OSError, ValueError) as error:
            raise Refused(str(error), unreadable=True) from None

    def _outcome(self, made: Made) -> Outcome:
        weights = str(self._store.weights(made.version))
        oldest = self._store.oldest_needed
        return Outcome(
            made.version - 1, made.version, made.digest, weights, "", dict(made.metrics), made.seconds, oldest
        )


def _is_kept(group: Group) -> bool:
    """Whether the version that the group makes needs a checkpoint wherever the sparse ones lie."""
    return group.restores is not None or group.update + 1 in group.keeps


def _belongs(made: Made, groups: Sequence[Path], after: int) -> bool:
    """Whether a checkpoint was made by this history. A group file that is gone is not held against it."""
    if not after <= made.version <= after + len(groups):
        return False
    if made.version == after:
        return True
    path = groups[made.version - after - 1]
    try:
        return not path.exists() or read_digested(path)[1] == made.digest
    except ValueError:
        return True
