"""The real evaluator: sandboxed candidate, trusted scorer, a few slots, a memo.

program ─► memo? ─► slot ─► sandbox (`launcher`) ─► `verdict` ─► scorer ─► Evaluation
"""

import os
import platform
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self

import anyio

from pace_async import config
from pace_async.apart import working_apart
from pace_async.compiling import compiled
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate import cgroup, leftovers
from pace_async.evaluate.base import SECRET_SEEDS, Evaluation
from pace_async.evaluate.cascade import cascaded
from pace_async.evaluate.doubt import doubt
from pace_async.evaluate.launcher import Launcher
from pace_async.evaluate.memo import Key, ScoreMemo
from pace_async.evaluate.scorer_log import scorer_log
from pace_async.evaluate.scorers import Scorers
from pace_async.evaluate.scoring import Bounds, EvaluatorFailed, Scorer
from pace_async.evaluate.selfcheck import pick_tier
from pace_async.evaluate.tiers import Limits, Tier
from pace_async.evaluate.turns import Turns
from pace_async.evaluate.verdict import judge, one_line
from pace_async.evaluate.warm import imports_of
from pace_async.evaluate.work import Work
from pace_async.program_files import parted
from pace_async.programs import LONGEST_PROGRAM
from pace_async.task import FULL, Setting, Task, TaskSpec, refuse_if_changed, settings_of

BACKOFF_S = 0.1
GROUPS_S = 30.0
"""How long the last processes of candidates, which are killed, may take to be gone: the machine may be busy."""
PACKAGE = Path(__file__).parent.parent


class ProcessEvaluator:
    """Implements `evaluate.base.Evaluator` on this machine. Use as an async context manager, in one task group's
    life: it owns the scorers and the warm parent. `log` receives what the task's evaluator prints; `say` is told of
    what makes evaluations slower, `say_memo` of a score memo that cannot be used."""

    def __init__(
        self,
        task: Task,
        evaluation: config.Evaluation,
        tier: Tier,
        log: Path,
        say: Callable[[str], Awaitable[None]] | None = None,
        say_memo: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self.task, self.tier = task, tier
        self._retries = evaluation.retries
        self._slots = anyio.CapacityLimiter(evaluation.slots)
        self._memo = ScoreMemo(evaluation.memo, say_memo) if task.spec.deterministic else None
        settings = settings_of(task.spec, evaluation.settings)
        stages = tuple(stage.name for stage in task.spec.cascade)
        self._turns = Turns()
        self._share = min(1.0, len(os.sched_getaffinity(0)) / evaluation.slots)
        most = min(evaluation.scorers, evaluation.slots)
        bounds = Bounds.of(evaluation.scorer_memory_mb, most, task.spec.output_values)

        def scorer() -> Scorer:
            vouch = partial(refuse_if_changed, task)
            return Scorer(task.folder / task.spec.evaluator, log, bounds, settings, stages, vouch)

        self._scorers = Scorers(scorer, most, self._turns)
        self._stage_limits = {stage.name: stage.timeout_s for stage in task.spec.cascade}
        self._stack = AsyncExitStack()
        spec = task.spec
        limits = Limits(spec.timeout_s, spec.memory_mb, int(spec.output_mb * (1 << 20)))
        self._launcher = Launcher(tier, limits, (PACKAGE, task.folder), say)
        self._warm = evaluation.warm
        self._setting = _setting(tier, evaluation.settings)

    async def __aenter__(self) -> Self:
        hierarchy = cgroup.find()
        leftovers.sweep(*(hierarchy.folders if hierarchy else ()))
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(working_apart())
            if self._memo is not None:
                await self._memo.open()
                stack.push_async_callback(self._memo.close)
            await stack.enter_async_context(self._scorers)
            if self._scorers.timed and self.task.spec.deterministic:
                raise UsageError(
                    f"Task {self.task.name!r}: score takes `seconds`, so task.yaml must say deterministic: false."
                )
            # The kernel brings a running process's clock up to date only now and then, and what a fork has yet to copy
            # counts as its work: where time is scored, each candidate begins alike, from nothing.
            if self._warm and not self._scorers.timed:
                stack.push_async_callback(self._launcher.close)
                own = {name.removesuffix(".py") for name in self.task.spec.files}
                await self._launcher.warm_up([name for name in imports_of(self.task.program) if name not in own])
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        await groups_removed()

    @property
    def is_warm(self) -> bool:
        """Whether the next candidate will be forked from a warm parent."""
        return self._launcher.is_warm

    async def refuse_unless_fresh(self) -> None:
        """Raises UsageError if the task's evaluator cannot make the instances of a secret seed, which has 129 bits."""
        await self._scorers.instances(SECRET_SEEDS)

    async def evaluate(self, program: str, seed: int, stage: str = FULL) -> Evaluation:
        """Score one program, in one stage. Waits for a free slot; `seconds` does not count that wait."""
        if len(program) > LONGEST_PROGRAM:
            return Evaluation("candidate_error", None, 0.0, f"the program is longer than {LONGEST_PROGRAM} characters")
        if complaint := _refused(program, self.task.spec):
            return Evaluation("candidate_error", None, 0.0, complaint)
        try:
            found = await compiled(program)
        except InfrastructureFault as fault:
            return Evaluation("infrastructure_error", None, 0.0, one_line(str(fault)))
        if found.too_much:
            return Evaluation("candidate_error", None, 0.0, found.fault)
        if self._memo is None or seed >= SECRET_SEEDS:
            return await self._tried(program, seed, stage)
        key = Key(self.task.digest, seed, found.digest, self._setting_of(stage))
        result = await self._memo.get(key)
        if result is None:
            result = await self._tried(program, seed, stage)
            await self._memo.put(key, result)
        return result

    async def _tried(self, program: str, seed: int, stage: str) -> Evaluation:
        """Again where the machine failed."""
        result = await self._try(program, seed, stage)
        for attempt in range(self._retries):
            if result.outcome != "infrastructure_error":
                break
            await anyio.sleep(BACKOFF_S * 2**attempt)
            result = await self._try(program, seed, stage)
        return result

    def _work(self, program: str, instances: Sequence[str], limit: float | None) -> Work:
        spec = self.task.spec
        (_, first), *others = parted(program) if spec.files else (("", program),)
        return Work(first, spec.entry, instances, timed=self._scorers.timed, timeout_s=limit, files=dict(others))

    def _setting_of(self, stage: str) -> str:
        return self._setting if stage == FULL else f"stage={stage} {self._setting}"

    async def _try(self, program: str, seed: int, stage: str) -> Evaluation:
        began, seconds = time.monotonic(), 0.0
        try:
            instances = await self._scorers.instances(seed, stage)
            async with self._slots, self._turns.together():
                began = time.monotonic()
                work = self._work(program, instances, self._stage_limits.get(stage))
                ended = await self._launcher.launch(work)
            if (doubted := doubt(ended, self._share)) is not None:
                async with self._turns.alone():
                    began = time.monotonic()
                    ended = await self._launcher.launch(work)
                if doubt(ended, 1.0) not in (None, doubted):
                    raise InfrastructureFault("evaluation_disturbed", "it was starved once and killed once")
            seconds, verdict = ended.seconds, judge(ended)
            if verdict.outcome != "ok":
                return Evaluation(verdict.outcome, None, seconds, verdict.detail)
            overhead = min(ended.echoes, default=0.0)
            calls = [max(0.0, call - overhead) for call in ended.calls]
            scored = await self._scorers.score(seed, verdict.outputs, calls, overhead, stage)
        except InfrastructureFault as fault:
            error = one_line(fault.detail) if isinstance(fault, EvaluatorFailed) else ""
            took, detail = seconds or time.monotonic() - began, one_line(str(fault))
            return Evaluation("infrastructure_error", None, took, detail, evaluator_error=error)
        if scored.score is None:
            detail, error = one_line(scored.invalid), one_line(scored.raised)
            return Evaluation("invalid_score", None, seconds, detail, evaluator_error=error)
        return Evaluation("ok", scored.score, seconds, "", scored.metrics)


async def groups_removed() -> None:
    """Return once no control group of an evaluation is left, or after GROUPS_S: the kernel does not say when the last
    process of one is gone."""
    with anyio.move_on_after(GROUPS_S, shield=True):
        wait_s = 0.01
        while not cgroup.all_removed():
            await anyio.sleep(wait_s)
            wait_s = min(2 * wait_s, 0.5)


@asynccontextmanager
async def open_evaluator(
    task: Task, evaluation: config.Evaluation, log: Path | None
) -> AsyncGenerator[ProcessEvaluator]:
    """An evaluator with the best tier that this machine proves. Raises UsageError if it proves none, or if the task's
    evaluator cannot be loaded. Without `log` what the task's evaluator prints is thrown away."""
    tier = await pick_tier(evaluation.unsafe_no_sandbox)
    with scorer_log() as own:
        async with ProcessEvaluator(task, evaluation, tier, log or own) as evaluator:
            yield evaluator


async def evaluate_file(
    task: Task, program_text: str, evaluation: config.Evaluation, log: Path | None = None
) -> Evaluation:
    """Score one program exactly as a run would, but cold: for one, a warm parent would cost more than it saves. `log`
    receives what the task's evaluator prints."""
    cold = evaluation.model_copy(update={"warm": False})
    async with open_evaluator(task, cold, log) as evaluator:
        return await cascaded(evaluator, task.spec, program_text, evaluation.seed)


def _refused(program: str, spec: TaskSpec) -> str:
    """Why a program of several files is none of this task's, if so. One without any names is its first file alone."""
    names = [name for name, _ in parted(program)] if spec.files else [""]
    known = (spec.program, *spec.files)
    if names == [""] or (names[0] == spec.program and len(set(names)) == len(names) and set(names) <= set(known)):
        return ""
    return f"a program of this task consists of {', '.join(known)}, each once; this one of {', '.join(names)}"


def _setting(tier: Tier, settings: Mapping[str, Setting]) -> str:
    """What a score hangs on besides task, seed and program."""
    chosen = [f"{name}={settings[name]!r}" for name in sorted(settings)]
    parts = [*chosen, tier.name, platform.machine(), f"python-{platform.python_version()}"]
    for package in ("numpy", "scipy", "torch"):
        try:
            parts.append(f"{package}-{version(package)}")
        except PackageNotFoundError:
            continue
    return " ".join(parts)
