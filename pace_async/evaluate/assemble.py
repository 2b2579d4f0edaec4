"""Makes an evaluator from the configuration. Only this module knows all of its parts."""

import platform
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

import anyio

from pace_async import config
from pace_async.errors import UsageError
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Evaluator, Limits
from pace_async.evaluate.builds import Builds
from pace_async.evaluate.cascade import cascaded
from pace_async.evaluate.commands import Commands
from pace_async.evaluate.local import LocalEvaluator, Parts
from pace_async.evaluate.memo import ScoreMemo
from pace_async.evaluate.practice import refuse_unless_apart, refuse_unless_confined
from pace_async.evaluate.resources import NO_RUN, OfRun, Resources, refuse_if_timed, resources_of
from pace_async.evaluate.sandbox import cgroup, leftovers
from pace_async.evaluate.sandbox.launch import CandidateRunner
from pace_async.evaluate.sandbox.selfcheck import pick_tier, refuse_unless_owned, unproven
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.evaluate.sandbox.toolchain import find_toolchain
from pace_async.evaluate.sandbox.warm import imports_of
from pace_async.evaluate.scorer.scorer_client import Bounds, Scorer, Scorers
from pace_async.evaluate.scorer.scorer_log import scorer_log
from pace_async.programs.helpers import with_helpers
from pace_async.registry.evaluators import EVALUATORS
from pace_async.task import Setting, Task, TaskSpec, refuse_if_changed, settings_of

GROUPS_S = 30.0
"""How long the last processes of candidates, which are killed, may take to end: the machine may be busy."""
PACKAGE = Path(__file__).parent.parent

Say = Callable[[str, str], Awaitable[None]]
"""Called with the kind and the detail of what makes evaluations slower: `warm_parent`, `score_memo`, `scorer_died`,
`scorer_timeout`, `scorer_memory`, `scorer_crashed`."""


class OpensEvaluator(Protocol):
    """The code of an entry of the registry of evaluators."""

    def __call__(
        self,
        task: Task,
        evaluation: config.EvaluationConfig,
        *,
        tier: Tier | None = None,
        log: Path | None = None,
        say: Say | None = None,
        run: OfRun = NO_RUN,
    ) -> AbstractAsyncContextManager[Evaluator]:
        """See `open_evaluator`."""
        ...


def of_this_machine(evaluation: config.EvaluationConfig) -> config.EvaluationConfig:
    """The settings for what this machine evaluates: one program at a time, where the others run elsewhere."""
    return evaluation.model_copy(update={"slots": 1}) if EVALUATORS[evaluation.evaluators].elsewhere else evaluation


async def refuse_unless_evaluated(evaluation: config.EvaluationConfig, spec: TaskSpec | None) -> None:
    """Raises UsageError if the evaluator of this configuration could not evaluate anything, or has no room for an
    evaluation of this task. None for a run that goes on, which may have reserved its room."""
    if check := EVALUATORS[evaluation.evaluators].check:
        await check()(evaluation, spec)


@asynccontextmanager
async def open_evaluator(
    task: Task,
    evaluation: config.EvaluationConfig,
    *,
    tier: Tier | None = None,
    log: Path | None = None,
    say: Say | None = None,
    run: OfRun = NO_RUN,
) -> AsyncGenerator[LocalEvaluator]:
    """The evaluator of a configuration. `tier` is a sandbox tier that was proven already. Without one, the best tier
    that proves itself on this machine is used. `log` receives the output of the task's evaluator. Without one, the
    output is kept only for the note of an error. Nothing on this machine carries the name of the run. Raises UsageError
    if no tier is proven, if the machine lacks a resource of the task, if the task's evaluator cannot be loaded, or if
    practice or an early end is asked for and not possible."""
    granted = resources_of(task, evaluation, run.taken)
    chosen = tier if tier is not None else await pick_tier(evaluation.unsafe_no_sandbox)
    refuse_unless_confined(task, evaluation, chosen)
    refuse_unless_noisy(task, evaluation)
    if granted.models:
        await refuse_unless_owned(chosen, [slot.limits(Limits.of(task.spec)) for slot in granted.slots])
    hierarchy = cgroup.find()
    leftovers.sweep(*(hierarchy.folders if hierarchy else ()))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(groups_removed)
        own = stack.enter_context(scorer_log())
        await stack.enter_async_context(with_helpers())
        memo = await _opened_memo(stack, task, evaluation, say)
        own_setting = f"{_setting(chosen, evaluation.settings)} {granted.identity}".strip()
        if not task.spec.of_kind.hides_scorer:
            commands, used = await _of_command(stack, task, granted)
            runner = CandidateRunner(chosen, (PACKAGE,))
            parts = Parts(runner, None, memo, f"{own_setting} {used}", say=say, commands=commands)
            yield await stack.enter_async_context(LocalEvaluator(task, evaluation, _with(granted, parts)))
            return
        scorers = await stack.enter_async_context(_scorers(task, evaluation, log or own))
        refuse_unless_reporting(task, evaluation, scorers)
        if scorers.timed and task.spec.deterministic:
            raise UsageError(f"Task {task.name!r}: score takes `seconds`, so task.yaml must say deterministic: false.")
        if scorers.timed:
            refuse_if_timed(task)
        await refuse_unless_apart(task, evaluation, scorers)
        runner = CandidateRunner(chosen, (PACKAGE, task.folder), partial(say, "warm_parent") if say else None)
        # Not if time is scored: the kernel updates a running process's clock only at intervals, and counts the copying
        # of pages as work of the fork. Then each candidate starts cold, in the same state.
        # Nor for a process task, whose programs have no common imports.
        if evaluation.warm and not scorers.timed and not task.spec.of_kind.is_built and not granted.start_cold:
            stack.push_async_callback(runner.close)
            modules = {name.removesuffix(".py") for name in task.spec.files}
            await runner.warm_up([name for name in imports_of(task.program) if name not in modules], unproven)
        setting, builds = own_setting, None
        if task.spec.of_kind.is_built:
            toolchain = find_toolchain(task, granted.environment)
            _refuse_without_a_clock(task, chosen, scorers.timed)
            builds = stack.enter_context(Builds(task.spec, toolchain))
            setting = f"{setting} {toolchain.identity}"
        parts = Parts(runner, scorers, memo, setting, builds, say)
        yield await stack.enter_async_context(LocalEvaluator(task, evaluation, _with(granted, parts)))


def refuse_unless_reporting(task: Task, evaluation: config.EvaluationConfig, scorers: Scorers) -> None:
    """Raises UsageError if evaluations are to end early, and the task's scorer gives no values while they run."""
    if evaluation.prune != "none" and not scorers.reports:
        raise UsageError(
            f"evaluation.prune is {evaluation.prune}, and {task.spec.evaluator} of task {task.name!r} has no function "
            "so_far(instances, outputs), which scores the first outputs alone: leave evaluation.prune at none."
        )


def refuse_unless_noisy(task: Task, evaluation: config.EvaluationConfig) -> None:
    """Raises UsageError if scores are to be measured again that would be the same."""
    if evaluation.repeats and task.spec.deterministic:
        raise UsageError(
            f"evaluation.repeats is {evaluation.repeats}, and equal programs of task {task.name!r} get equal scores: "
            "leave it at 0, or write `deterministic: false` into its task.yaml if they do not."
        )


def _with(granted: Resources, parts: Parts) -> Parts:
    return replace(parts, slots=granted.slots, variables=granted.environment.variables)


async def _of_command(stack: AsyncExitStack, task: Task, granted: Resources) -> tuple[Commands, str]:
    """The evaluations of a command task, and the identity of what they use. No folder of the task is hidden from its
    programs."""
    toolchain = find_toolchain(task, granted.environment)
    try:
        commands = stack.enter_context(await anyio.to_thread.run_sync(Commands, task, toolchain))
    except OSError as error:
        raise UsageError(f"Cannot copy the folder of task {task.name!r} for its evaluations: {error}.") from None
    return commands, toolchain.identity


async def evaluate_file(
    task: Task, program: str, evaluation: config.EvaluationConfig, log: Path | None = None
) -> Evaluation:
    """Score one program exactly as a run would, but cold, because for one program a warm parent costs more than it
    saves. `log` receives the output of the task's evaluator."""
    cold = evaluation.model_copy(update={"warm": False, "slots": 1})
    request = EvaluationRequest.of(task.spec, EvaluationId("eval", 0), program, evaluation.seed)
    async with open_evaluator(task, cold, log=log) as evaluator:
        return await cascaded(evaluator, task.spec, request)


async def groups_removed() -> None:
    """Return once no control group of an evaluation is left, or after GROUPS_S. The kernel does not notify when the
    last process of a group has ended."""
    with anyio.move_on_after(GROUPS_S, shield=True):
        wait_s = 0.01
        while not cgroup.all_removed():
            await anyio.sleep(wait_s)
            wait_s = min(2 * wait_s, 0.5)


def _scorers(task: Task, evaluation: config.EvaluationConfig, log: Path) -> Scorers:
    most = min(evaluation.scorers, evaluation.slots)
    bounds = Bounds.of(evaluation.scorer_memory_mb, most, task.spec.output_values)
    settings = settings_of(task.spec, evaluation.settings)
    stages = tuple(stage.name for stage in task.spec.cascade)
    vouch = partial(refuse_if_changed, task)
    return Scorers(lambda: Scorer(task.folder / task.spec.evaluator, log, bounds, settings, stages, vouch), most)


async def _opened_memo(
    stack: AsyncExitStack, task: Task, evaluation: config.EvaluationConfig, say: Say | None
) -> ScoreMemo | None:
    """The memo, or None if a score may differ the next time."""
    if not task.spec.deterministic:
        return None
    memo = ScoreMemo(evaluation.memo, partial(say, "score_memo") if say else None)
    await memo.open()
    stack.push_async_callback(memo.close)
    return memo


def _refuse_without_a_clock(task: Task, tier: Tier, timed: bool) -> None:
    """Raises UsageError if a score would depend on a time that cannot be measured."""
    language = task.spec.written_in
    if timed and language.needs_threads and not (tier.isolates and cgroup.find() is not None):
        raise UsageError(
            f"Task {task.name!r} scores time, and a {language.title} program has threads or processes, whose time "
            "only a control group can count, and pace cannot make one on this machine (pace doctor)."
        )


def _setting(tier: Tier, settings: Mapping[str, Setting]) -> str:
    """The environment part of the score memo's key."""
    chosen = [f"{name}={settings[name]!r}" for name in sorted(settings)]
    parts = [*chosen, tier.name, platform.machine(), f"python-{platform.python_version()}"]
    for package in ("numpy", "scipy", "torch"):
        try:
            parts.append(f"{package}-{version(package)}")
        except PackageNotFoundError:
            continue
    return " ".join(parts)
