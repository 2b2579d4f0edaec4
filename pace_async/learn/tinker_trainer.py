"""A `learn.base.Trainer` whose weights are with a service (`providers.tinker.service`).

A step is the service's logprobs of the group, our coefficients of them, their gradient at the service, and one AdamW
step there. A version is a saved state and a snapshot under one name, which holds the version and the digest of its
group. A version's folder here holds one small file that says where both are.

Invariant: each version is one step from the saved state of the version before it, and is taken once. After any fault,
and in a new process, the group's name is looked for among what the earlier runs of the service have saved: it is
adopted if it is complete, else the last version's state is loaded and the step is taken again. What is repeated may
differ in its last bits, but then nothing of the first attempt was served. A run of the service makes one version and is
never trained again: SkyRL samples from what the run of a snapshot holds, and not from the snapshot itself. Holds no
weights. Imports no torch.
"""

import json
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from pace_async.durable import disk_fault, write_whole
from pace_async.errors import GaveUp, InfrastructureFault, PaceBug
from pace_async.learn.base import GROUP_UNREADABLE, RESTORED, Step
from pace_async.learn.coefficients import coefficients
from pace_async.learn.rebuild import SAVED
from pace_async.learn.settings import TrainerConfig
from pace_async.providers.tinker.paid import TokenMeter
from pace_async.providers.tinker.service import Adam, TrainingRun, TrainingService, VersionAddresses, WeightedCall
from pace_async.replay.group import Group
from pace_async.replay.groupfile import read_digested

RUNS = "service_runs"
"""The names of the service's runs that this run has had, one a line."""
GIVEN = "given"
"""In place of a digest in the name of version 0."""


@dataclass(frozen=True, slots=True)
class SavedVersion:
    """A version as the service has it. `steps` are AdamW's so far. `metrics` and `seconds` are those of its step."""

    version: int
    digest: str
    saved: VersionAddresses
    steps: int
    metrics: dict[str, float]
    seconds: float

    @classmethod
    def read(cls, folder: Path) -> "SavedVersion | None":
        """What a version's folder says. None if it is not there, or damaged."""
        try:
            document: dict[str, Any] = json.loads((folder / SAVED).read_text("utf-8"))
            saved = VersionAddresses(**document.pop("saved"))
            return cls(saved=saved, **document)
        except (OSError, ValueError, TypeError, KeyError):
            return None


class TinkerTrainer:
    """A `learn.base.Trainer`. `versions` is L, the number of versions after 0 that the run has. Versions go under
    `out`. `meter` pays for tokens."""

    def __init__(
        self,
        service: TrainingService,
        out: Path,
        settings: TrainerConfig,
        meter: TokenMeter,
        *,
        versions: int = 0,
    ) -> None:
        self._service, self._out, self._settings, self._meter = service, out, settings, meter
        self._version = versions
        self._attempted = True
        """Whether an attempt at the next step may have saved something."""
        self._turn = anyio.Lock()
        self.tell: Callable[[InfrastructureFault], Awaitable[None]] = _tell_nobody

    async def ready(self) -> Path:
        """As `learn.base.Trainer.ready`. Version 0 is made where there is none."""
        async with self._turn:
            if self._version == 0 and SavedVersion.read(self._folder(0)) is None:
                await self._make_first_version()
            self._current()
            return self._folder(self._version)

    async def train(self, group: Path) -> Step:
        """As `learn.base.Learner.train`. Also raises GaveUp if the version that the group trains is lost, BudgetReached
        if the step does not fit the budget, and PaceBug if the group does not train the current version."""
        try:
            content, digest = await anyio.to_thread.run_sync(read_digested, group)
        except (OSError, ValueError) as error:
            raise InfrastructureFault(GROUP_UNREADABLE, str(error)) from None
        await self.ready()
        async with self._turn:
            saved_version = SavedVersion.read(self._folder(content.update + 1))
            if saved_version is not None and saved_version.digest == digest:
                self._version = max(self._version, saved_version.version)
                return self._step(content, saved_version, group)
            if content.update != self._version:
                raise PaceBug(f"{group.name} trains version {content.update}, and the service has {self._version}")
            began = time.perf_counter()
            reason, saved_version = await self._trained(content, digest, began)
            self._attempted = False
            if saved_version is None:
                seconds = time.perf_counter() - began
                return Step(content.update, content.update, digest, None, reason[0], reason[1], seconds, group)
            self._write(saved_version)
            self._version = saved_version.version
            return self._step(content, saved_version, group)

    async def wait_lost(self) -> InfrastructureFault:
        """Never returns: a service that is lost is noticed by the next request."""
        await anyio.sleep_forever()
        raise AssertionError

    async def _trained(
        self, group: Group, digest: str, began: float
    ) -> tuple[tuple[str, dict[str, float]], SavedVersion | None]:
        """The next version, or why there is none and the metrics of what was not taken."""
        name = name_of(group.update + 1, digest)
        before = self._source(group)
        metrics = {RESTORED: float(before.version)} if group.restores is not None else dict[str, float]()
        steps = before.steps + (group.restores is None)
        if self._attempted and (saved := await self._adopted(name)) is not None:
            return ("", {}), SavedVersion(group.update + 1, digest, saved, steps, metrics, 0.0)
        self._attempted = True
        if all(rollout.advantage == 0 for rollout in group.rollouts) and group.restores is None:
            return ("every advantage is 0", {}), None
        training = await self._begin_training(before.saved.state)
        if group.restores is None:
            reason, metrics = await self._stepped(training, group, steps)
            if reason:
                return (reason, metrics), None
        saved = await training.save(name)
        return ("", {}), SavedVersion(group.update + 1, digest, saved, steps, metrics, time.perf_counter() - began)

    async def _stepped(self, training: TrainingRun, group: Group, steps: int) -> tuple[str, dict[str, float]]:
        """Take the step. Returns why it was not taken, or "", and its metrics."""
        settings = self._settings
        calls = [call for rollout in group.rollouts for call in rollout.calls]
        tokens = sum(len(call.prompt_ids) + len(call.completion_ids) for call in calls)
        async with self._meter.training(max(group.leases), tokens) as had:
            logprobs = await training.logprobs([(call.prompt_ids, call.completion_ids) for call in calls])
            had.first = tokens
            result = await anyio.to_thread.run_sync(coefficients, group, logprobs, settings)
            metrics = {"loss": result.loss, **result.metrics}
            if not result.reason:
                await training.add_gradient(
                    [
                        WeightedCall(call.prompt_ids, call.completion_ids, values, tuple(slope.tolist()))
                        for call, values, slope in zip(calls, logprobs, result.calls, strict=True)
                    ]
                )
                had.second = tokens
                rate = settings.learning_rate * group.rate
                share = min(1.0, steps / settings.warmup) if settings.warmup else 1.0
                measured = await training.step(
                    Adam(rate * share, settings.betas, settings.weight_decay, settings.max_grad_norm)
                )
                norms = [value for key, value in measured.items() if key.endswith("grad_norm")]
                if not all(map(math.isfinite, norms)):
                    raise InfrastructureFault("bad_answer", "the service's step had a gradient that is not finite")
                metrics |= {"grad_norm": norms[0]} if norms else {}
        return result.reason, {key: value for key, value in metrics.items() if math.isfinite(value)}

    def _source(self, group: Group) -> SavedVersion:
        """The version that the next one is made of. One to go back to that is lost is version 0 instead."""
        if group.restores is None:
            return self._current()
        return SavedVersion.read(self._folder(group.restores)) or self._of(0)

    def _current(self) -> SavedVersion:
        return self._of(self._version)

    def _of(self, version: int) -> SavedVersion:
        saved_version = SavedVersion.read(self._folder(version))
        if saved_version is None:
            raise GaveUp(
                f"Where the service has version {version} is not known any more: restore {self._folder(version)} from "
                "a copy and run `pace resume`; without a copy, begin a new run."
            )
        return saved_version

    async def _make_first_version(self) -> None:
        """Make version 0: adapters that change nothing yet."""
        training = await self._begin_training(None)
        saved = await training.save(name_of(0, GIVEN))
        self._write(SavedVersion(0, GIVEN, saved, 0, {}, 0.0))

    async def _begin_training(self, state: str | None) -> TrainingRun:
        """A run of the service, whose name is on the disk before anything can be saved in it."""
        rank = self._settings.lora_rank
        if rank is None:
            raise PaceBug("a service trains adapters, and the settings name no rank")
        training = await self._service.begin(rank, state)
        names = "\n".join([*self._runs(), training.name, ""])
        await anyio.to_thread.run_sync(write_whole, self._out / RUNS, names)
        return training

    def _runs(self) -> list[str]:
        try:
            return (self._out / RUNS).read_text("utf-8").split()
        except FileNotFoundError:
            self._out.mkdir(parents=True, exist_ok=True)
            return []

    async def _adopted(self, name: str) -> VersionAddresses | None:
        """What an earlier attempt at this step has saved. None if there is no complete one."""
        last = self._current().saved.state
        for run in reversed(self._runs()):
            if f"//{run}/" in last:
                return None  # the runs before it made earlier versions
            if (saved := await self._service.saved(run, name)) is not None:
                return saved
        return None

    def _write(self, saved_version: SavedVersion) -> None:
        folder = self._folder(saved_version.version)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_fault(error, folder) from error
        write_whole(folder / SAVED, json.dumps(asdict(saved_version)))

    def _folder(self, version: int) -> Path:
        return self._out / "versions" / f"{version:06d}"

    def _step(self, group: Group, saved_version: SavedVersion, path: Path) -> Step:
        weights = self._folder(saved_version.version)
        return Step(
            group.update,
            saved_version.version,
            saved_version.digest,
            weights,
            "",
            saved_version.metrics,
            saved_version.seconds,
            path,
        )


def name_of(version: int, digest: str) -> str:
    """The name under which the service saves a version. It has letters, digits, - and _ only."""
    return f"pace-v{version}-{digest[:32]}"


async def _tell_nobody(fault: InfrastructureFault) -> None:
    """Default where nothing is recorded."""
