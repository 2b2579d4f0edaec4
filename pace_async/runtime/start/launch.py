"""Starts a run from a configuration, and resumes a run from its folder.

All refusals come before anything is written: the task, the advisor, the implementer, the sandbox, and a seed program
that fails its own evaluator.
"""

import asyncio
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from pace_async.aims import text_of
from pace_async.config import Config
from pace_async.configure import dump
from pace_async.context.bill import NOTHING
from pace_async.context.templates import Templates
from pace_async.durable import write_whole
from pace_async.errors import GaveUp, InfrastructureFault, UsageError
from pace_async.evaluate.assemble import of_this_machine, refuse_unless_evaluated
from pace_async.evaluate.resources import resources_of
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.events import Evaluated, ImplementerChecked, RunHeader
from pace_async.implement.agent_checks import missing_logins
from pace_async.implement.assemble import (
    lacks_catalogue,
    only_edits,
    unused_block,
)
from pace_async.implement.notes_writer import refuse_unless_written
from pace_async.observe.watchers.choose import Chosen
from pace_async.population.lock import RunLock
from pace_async.population.reading.load import NoRun
from pace_async.population.store import Store
from pace_async.providers.keys import refuse_without_keys
from pace_async.providers.preflight import check_models, refuse_unless_ready
from pace_async.registry.displays import DISPLAYS
from pace_async.runtime.children.advisor_choice import refuse_noise
from pace_async.runtime.children.cards import taken_cards
from pace_async.runtime.children.external import refuse_unless_fit
from pace_async.runtime.run.core import default_horizon
from pace_async.runtime.run_index import remember_run
from pace_async.runtime.run_paths import ROWS_LOST, RunPaths, claimed, find_run_paths
from pace_async.runtime.start.asked import bill_of
from pace_async.runtime.start.assemble import RunResources, conduct, say, waiting
from pace_async.runtime.start.beginning import begun_with
from pace_async.runtime.start.learned_before import learned_before
from pace_async.runtime.start.lost_rows import accept_loss, refuse_if_lost
from pace_async.runtime.start.missing import refuse_unless_data
from pace_async.runtime.start.own_memory import own_memory
from pace_async.runtime.start.planning import refuse_unless_it_fits
from pace_async.runtime.start.rebuilding import refuse_unless_rebuilt
from pace_async.runtime.start.refusals import asking, limits_of, with_bounds
from pace_async.runtime.start.rescoring import refuse_unless_in_force
from pace_async.runtime.start.resolved import ResolvedRun, names_taken, refuse_unknown_stages, resolve_run
from pace_async.runtime.start.resuming import cut_off, nothing_left, resumed_config, setting_changes
from pace_async.runtime.start.seed_program import score_seed_program
from pace_async.runtime.start.signals import run_until_signal
from pace_async.runtime.start.unbegun import end_recorded, interrupted
from pace_async.task import Task, task_of_run

EXIT_CODES = {"done": 0, "stopped_by_budget": 3, "interrupted": 130}

Observers = tuple[str, Sequence[Chosen]]
"""The display, and the watchers that log the run."""

SLOW_S = 10.0


def start(config: Config, task: Task, run_dir: Path | None, observers: Observers) -> int:
    """Begin a run of a task, as `looking` gives it, and drive it to its end. Returns the exit code. Raises
    PaceError."""
    if lacks_catalogue(config.implementer.model, task) and task.spec.of_kind.hides_scorer:
        anyio.run(refuse_unless_data, config, task)  # missing data is reported before missing settings
    run = resolve_run(config, task, run_dir)
    try:
        return run_until_signal(_start, run, run_dir, observers)
    except KeyboardInterrupt:
        raise interrupted(run.paths) from None


def go_on(run: str | None, changes: Mapping[str, object], observers: Observers, *, despite_loss: bool = False) -> int:
    """Resume a run. `despite_loss`: also where committed rows were lost. Returns the exit code. Raises PaceError,
    RunLocked if another process drives it."""
    paths = find_run_paths(run)
    try:
        return run_until_signal(_go_on, paths, changes, observers, despite_loss)
    except KeyboardInterrupt:
        raise interrupted(paths) from None


async def _start(run: ResolvedRun, run_dir: Path | None, observers: Observers) -> int:
    """`run_dir` is the folder that was asked for."""
    config, task, paths, display = run.config, run.task, run.paths, observers[0]
    await refuse_unless_fit(config, all_up=True)
    await refuse_unless_evaluated(config.evaluation, task.spec)
    for no_login in missing_logins(config.implementer):
        announce(display, no_login)
    announce(display, "proving the sandbox, and scoring the seed program in it")
    tier = await pick_tier(config.evaluation.unsafe_no_sandbox)
    checks = await _check_models(config)  # a wrong key is found before an evaluation that may take an hour
    with told_when_slow(display):
        seed_program = await score_seed_program(config, task, tier)
    config, task = with_bounds(config, task, next(fact.score for fact in seed_program if isinstance(fact, Evaluated)))
    announce(display, f"advisor {run.advisor}")
    if run.learned is not None:
        announce(display, f"begins with {run.learned.in_words}")
    if run.programs:
        limit = f", of {config.stop.candidates} candidates in all" if config.stop.candidates is not None else ""
        announce(display, f"given programs are evaluated first: {len(run.programs)}{limit}")
    if (
        not task.spec.of_kind.hides_scorer
        and not only_edits(config.implementer.model)
        and (reason := unused_block(task))
    ):
        announce(display, f"{reason}, so what is written there may be ignored")
    if (costs := await anyio.to_thread.run_sync(bill_of, config, task)) != NOTHING:
        announce(display, costs)
    if run_dir is None:  # the checks took seconds: another run may have taken the name
        paths = claimed(paths, await anyio.to_thread.run_sync(names_taken, config))
    with RunLock(paths.folder) as lock:
        async with Store.open(config.population.url or paths.file) as store:
            store.be_patient(config.faults.patience_s, waiting(lock))
            if config.population.url is not None:
                with _writing("run it again"):
                    paths.point_to(str(store.place))  # before the run exists there
            if run.before is not None:  # before the run exists, which then needs the other one never again
                await anyio.to_thread.run_sync(run.before.copy, paths.advisor)
                await anyio.to_thread.run_sync(run.before.copy_optimizer, paths.learner)
            await store.create_run(header_of(config, task, paths.name, tier), programs=run.programs)
            async with end_recorded(store):
                await store.commit(*seed_program, *([run.learned] if run.learned is not None else []), *checks)
                state = await _conduct(config, task, paths, tier, store, lock, observers)
    return EXIT_CODES[state]


async def _go_on(paths: RunPaths, changes: Mapping[str, object], observers: Observers, despite_loss: bool) -> int:
    where, name = paths.population
    with RunLock(paths.folder) as lock:
        async with Store.open(where, create=False) as store:
            try:
                standing = await store.standing(name)
            except NoRun:
                if left := paths.left_by_run:
                    raise UsageError(
                        f"{paths.folder} holds no run, and yet what a run left there ({left}): {ROWS_LOST} or begin a "
                        "new run in another folder."
                    ) from None
                raise UsageError(
                    f"The start of {paths.folder} was cut off before its run was written, and nothing was lost: "
                    f"`pace run TASK --run-dir {paths.folder}` begins it."
                ) from None
            if not despite_loss:
                await refuse_if_lost(store, paths, standing.header.objective)
            config = resumed_config(standing, changes)
            store.be_patient(config.faults.patience_s, waiting(lock))
            task = limits_of(config, task_of_run(standing.header))
            refuse_unless_in_force(standing, task, paths.folder)
            if (finished := nothing_left(standing, config)) is not None:
                await say([f"{paths.folder} is finished: {finished}"])
                return 0
            await refuse_unless_rebuilt(store, config.learner.objective, paths)
            refuse_unknown_stages(config, task)
            if config.implementer.model != standing.header.implementer:
                refuse_noise(config, task)
            refuse_unless_written(config)
            resources_of(task, of_this_machine(config.evaluation), taken_cards(config))
            await anyio.to_thread.run_sync(refuse_unless_it_fits, config, paths.folder)
            await refuse_unless_fit(config, all_up=False)
            await refuse_unless_evaluated(config.evaluation, None)
            tier = await pick_tier(config.evaluation.unsafe_no_sandbox)
            checks = await _check_models(config)
            own = ()
            if standing.best is None:  # it was killed before its seed program was written
                learned = learned_before(config, task)
                scored = await score_seed_program(config, begun_with(config.search, task)[0], tier)
                own = (*scored, *([learned] if learned is not None else []))
            async with end_recorded(store):
                with _writing(f"`pace resume {paths.folder} --despite-loss` goes on with it"):
                    await accept_loss(store, paths)
                await store.commit(*own, *checks, *setting_changes(standing, config), *cut_off(standing))
                state = await _conduct(config, task, paths, tier, store, lock, observers)
    return EXIT_CODES[state]


async def _conduct(
    config: Config, task: Task, paths: RunPaths, tier: Tier, store: Store, lock: RunLock, observers: Observers
) -> str:
    """Write the settings into the folder, and drive the run, which `store` has chosen, to its end."""
    with _writing(f"`pace resume {paths.folder}` goes on with it"):
        write_whole(paths.config, dump(config))
    remember_run(paths.folder)
    record = await store.load(paths.population[1])
    if (seed := record.run_state.seed_program) is not None:
        task = replace(task, program=seed.program)
    with own_memory(config.faults.runtime_memory_mb):
        return await conduct(RunResources(config, task, paths, tier, store, record, lock), *observers)


@contextmanager
def _writing(then: str) -> Generator[None]:
    """Raises GaveUp if the disk fails. `then` says what to do when it has room again."""
    try:
        yield
    except InfrastructureFault as fault:
        raise GaveUp(f"The run could not begin ({fault}): see to the disk, then {then}.") from None


def announce(display: str, doing: str) -> None:
    """Say on standard error what the start does, unless nothing is displayed."""
    if DISPLAYS[display].announces:
        from pace_async.observe.formatting import clean

        sys.stderr.write(f"pace: {clean(doing)}\n")
        sys.stderr.flush()


@contextmanager
def told_when_slow(display: str, seconds: float = SLOW_S) -> Generator[None]:
    """Print once that the evaluator has not answered, if it takes so long. Needs an event loop."""
    message = f"the evaluator has not answered for {seconds:.0f} s"
    timer = asyncio.get_running_loop().call_later(seconds, announce, display, message)
    try:
        yield
    finally:
        timer.cancel()


async def _check_models(config: Config) -> tuple[ImplementerChecked, ...]:
    """The cost of the checks. Raises UsageError or GaveUp if the run cannot begin. Nothing is written before."""
    callers = asking(config)
    for caller, models, provider in callers:
        refuse_without_keys(models, provider.api_base, os.environ, caller)
    facts: list[ImplementerChecked] = []
    for caller, models, provider in callers:
        checks = await check_models(models, provider, caller)
        refuse_unless_ready(checks, config.stop)
        facts += [checked.fact for checked in checks if checked.fact is not None]
    return tuple(facts)


def header_of(config: Config, task: Task, name: str, tier: Tier) -> RunHeader:
    """The header of the run."""
    bounds, pool = task.spec.bounds, config.search.remembers == "pool"
    return RunHeader(
        name=name,
        task=task.name,
        task_digest=task.digest,
        seed=config.seed,
        objective=config.learner.objective,
        advisor=config.advisor.model,
        engine=config.advisor.served_by,
        implementer=config.implementer.model,
        sandbox=tier.name,
        threads=config.search.threads,
        group_size=config.learner.group_size,
        max_staleness=config.bound,
        horizon=config.learner.horizon or default_horizon(config.stop, config.learner.group_size),
        lower=bounds.lower,
        upper=bounds.upper,
        direction=task.spec.direction,
        config=config.model_dump(mode="json"),
        trust=task.spec.of_kind.trust,
        prompts_digest=None if pool else Templates.of(config.prompts, task.folder).digest,
        task_folder=str(task.folder),
        task_suffix=task.suffix,
        noisy=not task.spec.deterministic,
        aims=text_of(task.spec.fitness.aims),
    )
