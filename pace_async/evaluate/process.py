"""The real evaluator: sandboxed candidate, trusted scorer, a few slots, a memo.

program ─► memo? ─► slot ─► sandbox (`launcher`) ─► `verdict` ─► scorer ─► Evaluation
"""

import platform
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self

import anyio

from pace_async import config
from pace_async.errors import InfrastructureFault, UsageError
from pace_async.evaluate import cgroup, leftovers
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.launcher import Launcher
from pace_async.evaluate.memo import Key, ScoreMemo
from pace_async.evaluate.scoring import Scorer
from pace_async.evaluate.selfcheck import pick_tier
from pace_async.evaluate.tiers import Limits, Tier
from pace_async.evaluate.verdict import judge, one_line
from pace_async.evaluate.warm import imports_of
from pace_async.evaluate.work import Work
from pace_async.programs import program_hash
from pace_async.task import Setting, Task, settings_of

BACKOFF_S = 0.1
LAST_TRIES = 6
LONGEST_PROGRAM = 1 << 20
PACKAGE = Path(__file__).parent.parent


class ProcessEvaluator:
    """Implements `evaluate.base.Evaluator` on this machine. Use as an async context manager, in one task group's
    life: it owns the scorer and the warm parent. `log` receives what the task's evaluator prints; `say` is told of what
    makes evaluations slower."""

    def __init__(
        self,
        task: Task,
        evaluation: config.Evaluation,
        tier: Tier,
        log: Path,
        say: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self.task, self.tier = task, tier
        self._retries = evaluation.retries
        self._slots = anyio.CapacityLimiter(evaluation.slots)
        self._memo = ScoreMemo(evaluation.memo) if task.spec.deterministic else None
        settings = settings_of(task.spec, evaluation.settings)
        self._scorer = Scorer(task.folder / task.spec.evaluator, log, settings=settings)
        self._stack = AsyncExitStack()
        spec = task.spec
        limits = Limits(spec.timeout_s, spec.memory_mb, int(spec.output_mb * (1 << 20)))
        self._launcher = Launcher(tier, limits, (PACKAGE, task.folder), say)
        self._warm = evaluation.warm
        self._setting = _setting(tier, evaluation.settings)

    async def __aenter__(self) -> Self:
        hierarchy = cgroup.find()
        leftovers.sweep(*((hierarchy.memory, hierarchy.pids) if hierarchy else ()))
        async with AsyncExitStack() as stack:
            if self._memo is not None:
                await self._memo.open()
                stack.push_async_callback(self._memo.close)
            await stack.enter_async_context(self._scorer)
            if self._scorer.timed and self.task.spec.deterministic:
                raise UsageError(
                    f"Task {self.task.name!r}: score takes `seconds`, so task.yaml must say deterministic: false."
                )
            # The kernel brings a running process's clock up to date only now and then, and what a fork has yet to copy
            # counts as its work: where time is scored, each candidate begins alike, from nothing.
            if self._warm and not self._scorer.timed:
                stack.push_async_callback(self._launcher.close)
                await self._launcher.warm_up(imports_of(self.task.program))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        with anyio.CancelScope(shield=True):
            for attempt in range(LAST_TRIES):  # the kernel does not say when the last control groups are empty
                if cgroup.discard():
                    break
                await anyio.sleep(0.01 * 2**attempt)

    @property
    def is_warm(self) -> bool:
        """Whether the next candidate will be forked from a warm parent."""
        return self._launcher.is_warm

    async def evaluate(self, program: str, seed: int) -> Evaluation:
        """Score one program. Waits for a free slot; `seconds` does not count that wait."""
        if len(program) > LONGEST_PROGRAM:
            return Evaluation("candidate_error", None, 0.0, f"the program is longer than {LONGEST_PROGRAM} characters")
        key = Key(self.task.digest, seed, program_hash(program), self._setting)
        if self._memo is not None and (known := await self._memo.get(key)) is not None:
            return known
        result = await self._try(program, seed)
        for attempt in range(self._retries):
            if result.outcome != "infrastructure_error":
                break
            await anyio.sleep(BACKOFF_S * 2**attempt)
            result = await self._try(program, seed)
        if self._memo is not None:
            await self._memo.put(key, result)
        return result

    async def _try(self, program: str, seed: int) -> Evaluation:
        began, seconds = time.monotonic(), 0.0
        try:
            instances = await self._scorer.instances(seed)
            async with self._slots:
                began = time.monotonic()
                work = Work(program, self.task.spec.entry, instances, timed=self._scorer.timed)
                ended = await self._launcher.launch(work)
            seconds, verdict = ended.seconds, judge(ended)
            if verdict.outcome != "ok":
                return Evaluation(verdict.outcome, None, seconds, verdict.detail)
            overhead = min(ended.echoes, default=0.0)
            calls = [max(0.0, call - overhead) for call in ended.calls]
            scored = await self._scorer.score(seed, verdict.outputs, calls, overhead)
        except InfrastructureFault as fault:
            return Evaluation("infrastructure_error", None, seconds or time.monotonic() - began, one_line(str(fault)))
        if scored.score is None:
            return Evaluation("invalid_score", None, seconds, one_line(scored.invalid))
        return Evaluation("ok", scored.score, seconds, "", scored.metrics)


@asynccontextmanager
async def open_evaluator(
    task: Task, evaluation: config.Evaluation, log: Path | None
) -> AsyncGenerator[ProcessEvaluator]:
    """An evaluator with the best tier that this machine proves. Raises UsageError if it proves none, or if the task's
    evaluator cannot be loaded. Without `log` what the task's evaluator prints is thrown away."""
    tier = await pick_tier(evaluation.unsafe_no_sandbox)
    with tempfile.TemporaryDirectory(prefix=leftovers.prefix()) as folder:
        async with ProcessEvaluator(task, evaluation, tier, log or Path(folder) / "scorer.log") as evaluator:
            yield evaluator


async def evaluate_file(task: Task, program_text: str, evaluation: config.Evaluation) -> Evaluation:
    """Score one program exactly as a run would, but cold: for one, a warm parent would cost more than it saves."""
    cold = evaluation.model_copy(update={"warm": False})
    async with open_evaluator(task, cold, None) as evaluator:
        return await evaluator.evaluate(program_text, evaluation.seed)


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
