"""Client of the learner's child processes, which may die and are then restarted. If it has several ranks, the death of
one counts as the death of the learner.

Invariant: the child's memory can be rebuilt from its checkpoints and from `history`, the files of the groups that made
versions 1…L, back to the oldest checkpoint. A new child receives `history` and rebuilds version L from its newest
checkpoint and the groups after it. So the same group may be passed again after any fault, and `history` does not grow
with the run. Holds no weights. Imports no torch.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

from pace_async.children import LOOKS, clean_environment, python_module
from pace_async.errors import GaveUp, InfrastructureFault, PaceBug, UsageError
from pace_async.learn.base import GROUP_UNREADABLE, Step
from pace_async.learn.memory import OUT_OF_MEMORY, further_remedies, halving_helps, remedy
from pace_async.learn.rank_processes import RankProcesses
from pace_async.learn.settings import TrainerConfig
from pace_async.replay.groupfile import read_digested
from pace_async.transfer import SharedBuffer, Table, Transfer

BEAT_S = 5.0
"""Seconds between heartbeats of a working child."""
REPLAY_DIFFERS = "replay_differs"
"""Fault kind: repeated training gave other weights than are served. The learner goes on."""
_BREAK_OFF_S = 30.0
"""Seconds that the child has after a transfer's deadline to abort it. A rendezvous inside NCCL cannot be aborted; the
child is then killed."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What the child may take. Deadlines are in seconds. `start_s`: it loads. `step_s`: one step and its writing, also
    when it is replayed. `hung_s`: the next heartbeat, also while it starts. `cards` has one card for each rank, as
    CUDA_VISIBLE_DEVICES names it. None: the first, "": the processor."""

    step_s: float = 600.0
    start_s: float = 300.0
    hung_s: float = 120.0
    cards: tuple[str | None, ...] = (None,)


USUAL = ChildLimits()


class ProcessLearner:
    """A `learn.base.Trainer`, a `learn.base.LogprobScorer`, a `publish.base.Sender` and a `publish.base.Sharer`.
    Entering the context starts the child without waiting for it. Leaving the context ends it.

    `model` is version 0's directory. Versions and checkpoints go under `out`, the child's output to `log`. `history`
    lists the files of the groups that made versions 1…L of this run, in order. The first ones may be missing."""

    def __init__(
        self,
        model: Path,
        out: Path,
        settings: TrainerConfig,
        history: Sequence[Path] = (),
        *,
        log: Path | None = None,
        limits: ChildLimits = USUAL,
    ) -> None:
        self._after = next((place for place, path in enumerate(history) if path.exists()), 0)
        self._history = deque(_absolute(path) for path in history[self._after :])
        self._limits, self._settings, self._smaller = limits, settings, False
        self._places = "--model", str(model.resolve()), "--out", str(out.resolve())
        environment = clean_environment(OMP_NUM_THREADS=str(settings.threads))
        log = log if log is not None else out / "learner.log"
        self._ranks = RankProcesses(self._command(), environment, limits.cards, log, limits.hung_s)
        self._turn = anyio.Lock()
        self._weights: Path | None = None
        self._scored: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], tuple[float, ...]] | None = None
        self._said_replayed = False
        self._share_ended: bool | None = None
        """How the sharing of a version ended, until the child learns it."""
        self.tell: Callable[[InfrastructureFault], Awaitable[None]] = _tell_nobody

    async def __aenter__(self) -> Self:
        await self._spawn()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ranks.close()

    @property
    def version(self) -> int:
        """L, as known on this side."""
        return self._after + len(self._history)

    async def ready(self) -> Path:
        """As `learn.base.Trainer.ready`. The folder of version 0 is the given model. Raises InfrastructureFault if the
        child died or did not answer in time."""
        async with self._turn:
            return await self._ready()

    async def train(self, group: Path) -> Step:
        """As `learn.base.Learner.train`. Also raises GaveUp if the version that the group trains cannot be rebuilt,
        UsageError if a call is longer than the settings allow, and PaceBug if the group does not train the current
        version."""
        path = _absolute(group)
        async with self._turn:
            await self._ready()
            answer = await self._ask({"train": str(path)}, self._limits.step_s)
            if "refused" in answer:
                _blame_setting(answer)
                if answer.get("unreadable"):
                    raise InfrastructureFault(GROUP_UNREADABLE, answer["refused"])
                raise PaceBug(f"the learner refused {path.name}: {answer['refused']}")
            weights = Path(answer["weights"]) if answer["weights"] is not None else None
            if answer["version"] == self.version + 1:
                self._history.append(path)
                self._weights = weights
            while self._after + 1 < answer["oldest"]:
                self._history.popleft()
                self._after += 1
            return Step(
                update=answer["update"],
                version=answer["version"],
                digest=answer["digest"],
                weights=weights,
                reason=answer["reason"],
                metrics=answer["metrics"],
                seconds=answer["seconds"],
                oldest_group=self._history[0] if self._history else path,
            )

    async def logprobs(
        self, version: int, prompt_ids: tuple[int, ...], completion_ids: tuple[int, ...]
    ) -> tuple[float, ...] | None:
        """As `learn.base.LogprobScorer.logprobs`. The last result is cached and returned at once, even during a
        step."""
        request = version, prompt_ids, completion_ids
        if self._scored is not None and self._scored[0] == request:
            return self._scored[1]
        async with self._turn:
            if version != self.version:
                return None
            await self._ready()
            answer = await self._ask({"prompt": prompt_ids, "completion": completion_ids}, self._limits.step_s)
            if "refused" in answer:
                raise PaceBug(f"the learner refused to score an answer: {answer['refused']}")
            scores = tuple(float(value) for value in answer["logprobs"])
            self._scored = request, scores
            return scores

    def can_send(self, version: int) -> bool:
        """As `publish.base.Sender.can_send`."""
        idle = self._weights is not None and not self._turn.locked()
        return idle and version == self.version and version > 0  # version 0 is in memory in another type than on disk

    async def send(self, transfer: Transfer) -> None:
        """As `publish.base.Sender.send`. Also raises UsageError if the model cannot be sent from memory."""
        async with self._turn:
            if self._weights is None:
                raise InfrastructureFault("learner_died", "it had ended before it could send")
            answer = await self._ask({"send": asdict(transfer)}, transfer.seconds + _BREAK_OFF_S)
            if "refused" in answer:
                _blame_setting(answer)
                raise InfrastructureFault("transfer_broken", answer["refused"])

    async def share(self, version: int, table: Table) -> SharedBuffer:
        """As `publish.base.Sharer.share`. Also raises UsageError if the model cannot be read from memory."""
        async with self._turn:
            if self._weights is None or version != self.version:
                raise InfrastructureFault("share_failed", f"the learner does not hold version {version} any more")
            answer = await self._ask({"share": asdict(table)}, self._limits.step_s)
            if "refused" in answer:
                _blame_setting(answer)
                raise InfrastructureFault("share_failed", answer["refused"])
            return SharedBuffer.from_json(answer["shared"])

    def end_share(self, *, closed: bool) -> None:
        """As `publish.base.Sharer.end_share`. The child learns it with its next request."""
        self._share_ended = closed

    async def wait_lost(self) -> InfrastructureFault:
        """As `learn.base.Trainer.wait_lost`. If the learner is lost during a request, that request reports it."""
        while True:
            await self._ranks.spawned.wait()
            running = self._ranks.running
            if not running:
                continue
            with anyio.move_on_after(self._limits.hung_s / LOOKS):
                await self._ranks.wait_any()
            async with self._turn:
                if self._ranks.running is not running:
                    continue
                if (dead := self._ranks.dead) is not None:
                    await self._retire()
                    return InfrastructureFault("learner_died", dead.last_words())
                if self._weights is not None:
                    try:
                        await self._ask({"ping": True}, 2 * self._limits.hung_s)
                    except InfrastructureFault as fault:
                        return fault

    async def _ready(self) -> Path:
        if not self._ranks.alive:
            await self._retire()
            await self._spawn()
        if self._weights is None:
            request = {"start": [str(path) for path in self._history], "after": self._after}
            answer = await self._ask(request, self._limits.start_s, self._limits.step_s)
            if "refused" in answer:
                _blame_setting(answer)
                raise GaveUp(
                    f"The learner cannot rebuild version {self.version}: {answer['refused']}. Restore the named "
                    "files from a copy and run `pace resume`; without a copy, begin a new run."
                )
            if answer["version"] != self.version:
                raise PaceBug(f"the learner is at version {answer['version']}, not {self.version}")
            if answer.get("replayed") is not None:
                await self._say_replayed(answer["replayed"])
            self._weights = Path(answer["weights"])
        return self._weights

    async def _say_replayed(self, replayed: dict[str, Any]) -> None:
        """Say once that repeated training gave other weights than are served."""
        if not self._said_replayed:
            self._said_replayed = True
            await self.tell(InfrastructureFault(REPLAY_DIFFERS, replay_in_words(self.version, replayed)))

    async def _spawn(self) -> None:
        self._weights, self._share_ended = None, None
        await self._ranks.spawn()

    async def _ask(self, request: dict[str, Any], deadline_s: float, renewed_s: float = 0.0) -> dict[str, Any]:
        """As `RankProcesses.ask`. After a fault the version has to be rebuilt."""
        if self._share_ended is not None:
            request, self._share_ended = {**request, "unshare": self._share_ended}, None
        try:
            return await self._ranks.ask(request, deadline_s, renewed_s)
        except InfrastructureFault as fault:
            self._weights = None
            if fault.kind != OUT_OF_MEMORY:
                raise
            raise self._short_of_memory(fault, request.get("train")) from None
        except BaseException:
            self._weights = None
            raise

    def _short_of_memory(self, fault: InfrastructureFault, group: str | None) -> InfrastructureFault | GaveUp:
        """The first time the next child takes passes of half the size, unless the longest call of the group fills one.
        The second time nothing would change."""
        size = self._settings.micro_tokens
        longest = None if group is None else _longest_call(Path(group))
        if self._smaller:
            return GaveUp(
                f"The learner ran out of memory again, with passes of half the size (learner.micro_tokens={size}; "
                f"{fault.detail}): {remedy(self._settings)}. `pace plan` counts what a step needs."
            )
        if not halving_helps(self._settings, longest):
            return GaveUp(
                f"The learner ran out of memory, and smaller passes do not help, because a call of {longest} tokens is "
                f"a pass of its own (learner.micro_tokens={size}; {fault.detail}): {remedy(self._settings)}. "
                f"{further_remedies(self._settings)} `pace plan` counts what a step needs."
            )
        self._settings, self._smaller = replace(self._settings, micro_tokens=max(1, size // 2)), True
        self._ranks.command = self._command()
        again = f"it tries once more with learner.micro_tokens={self._settings.micro_tokens} in place of {size}"
        return InfrastructureFault(OUT_OF_MEMORY, f"{fault.detail}; {again}")

    def _command(self) -> list[str]:
        beat_s = f"{min(BEAT_S, self._limits.hung_s / (2 * LOOKS)):g}"
        arguments = *self._places, "--config", self._settings.to_json(), "--beat-s", beat_s
        return list(python_module("pace_async.learn.process", *arguments))

    async def _retire(self) -> None:
        """Kill the child, if there is one."""
        self._weights = None
        await self._ranks.retire()


async def _tell_nobody(fault: InfrastructureFault) -> None:
    """Default where nothing is recorded."""


def replay_in_words(version: int, replayed: Mapping[str, Any]) -> str:
    """What a replay that was not exact means. `replayed` has the fields of `replayed.ReplayResult`."""
    steps = f"{replayed['steps']} steps were repeated to rebuild version {version}"
    if replayed["differed"] is None:
        return (
            f"{steps} on a device that does not repeat sums exactly, and the files of that version are gone: the "
            "learner goes on from the repeated weights"
        )
    return (
        f"{steps}, and {replayed['differed']:,} of {replayed['weights']:,} weights were not those that are served: the "
        "learner goes on from the served ones, with the repeated optimizer"
    )


def _blame_setting(answer: dict[str, Any]) -> None:
    if answer["setting"]:
        raise UsageError(f"{answer['refused']}.")


def _longest_call(group: Path) -> int | None:
    """Tokens of the longest call of a group's file, None if it cannot be read."""
    try:
        rollouts = read_digested(group)[0].rollouts
    except (OSError, ValueError):
        return None
    return max(
        (len(call.prompt_ids) + len(call.completion_ids) for each in rollouts for call in each.calls), default=None
    )


def _absolute(path: Path) -> Path:
    return path.resolve()
