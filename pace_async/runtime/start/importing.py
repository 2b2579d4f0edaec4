"""Makes a task from an example of another project: reads it, tries its seed program, writes the task.

It is read in a helper process with bounded time and memory, because an example is somebody else's.

The seed program is tried in the sandbox in the unfinished folder of the task, because two things cannot be read
anywhere: between which scores a search will move, and how low a stage scores the seed program. OpenEvolve gives a
program that a stage stops the stage's score. Here it has none, so a threshold that the seed program may miss is
lowered.
"""

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from pace_async.config import EvaluationConfig
from pace_async.errors import GaveUp, InfrastructureFault, PaceError, UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, evaluate
from pace_async.evaluate.local import LocalEvaluator
from pace_async.evaluate.metrics import reported_error
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.fitness import fitness_of
from pace_async.peers.draft import draft_of, read_example, wanted_json
from pace_async.peers.example import Example, ImportOptions
from pace_async.peers.importers import importer_of
from pace_async.peers.packages import missing_of
from pace_async.peers.write import (
    Bounds,
    Draft,
    Stages,
    name_of,
    refuse_if_there,
    unfinished_task,
    write_settings,
)
from pace_async.programs.helpers import TooMuchWork, in_helper, with_helpers
from pace_async.runtime.start.task_environment import install_into
from pace_async.task import FULL, load_task

READ_S = 10.0
"""Processor time in which an example is read."""
TRY_S = 60.0
"""Longest evaluation of a command task's seed program. The limit of a process task is that of its tests together."""
TRIES = 8
ENVIRONMENT = "environment"
"""The folder of the environment that all tasks of one import share."""
ALL_TRIES_S = 30.0
"""No further try of a stage begins after so long."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """`lines` say what was made of what, `left` what has no counterpart."""

    name: str
    folder: Path
    lines: tuple[str, ...]
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeedTrial:
    """`score` is None if the seed program has none, and `why` says so. `stages` are the scores of each stage.
    `reported` is an error that the evaluator caught and scored."""

    score: float | None
    why: str
    stages: Mapping[str, list[float]]
    reported: str = ""


def import_example(
    peer: str,
    example: str,
    target: Path | None,
    options: ImportOptions,
    try_seed: bool,
    *,
    install: bool = False,
    environment: Path | None = None,
) -> ImportResult:
    """`install`: packages that are missing here go into `environment`, or else into one beside the task. Raises
    UsageError for a project that is not known, a folder that is no such example, and a target that is there already,
    NotHere if the package that brings the example is missing, GaveUp if its packages cannot be installed."""
    importer = importer_of(peer)
    folder = importer.folder_of(example)
    name = name_of(target or folder)
    goal = target or Path(name)
    if goal.resolve().is_relative_to(folder.resolve()):
        where = "the example itself" if goal.resolve() == folder.resolve() else "inside the example"
        other = os.path.relpath(folder.resolve().parent / f"{name_of(folder)}_task")
        raise UsageError(f"{goal} is {where}, which stays as it is: name a new folder, --to {other}.")
    refuse_if_there(goal)
    draft = anyio.run(_draft_from, peer, folder, name, options)
    lines = [*draft.example.taken, *_of_files(draft, options)]
    prefix = ""
    missing = missing_of(draft.example.packages)
    if missing and install:
        place = environment or goal.with_name(f"{goal.name}_environment")
        install_into(place, draft.example.packages)
        prefix = os.path.relpath(place.resolve(), goal.resolve())
        lines.append(f"environment: {prefix} has {', '.join(draft.example.packages)} (--install)")
    elif missing:
        lines.append(f"packages: {', '.join(missing)} not installed here: --install makes an environment with them")
    with unfinished_task(draft, importer, goal) as task_folder:
        can_try = try_seed and (install or not missing)
        draft, bounds, stages, remarks = _after_trial(draft, task_folder, prefix) if can_try else _untried(draft)
        write_settings(task_folder, draft, bounds, stages, prefix)
    return ImportResult(name, goal, (*lines, *remarks), draft.example.left)


def import_all(
    peer: str, folder: Path, try_seed: bool, *, install: bool, say: Callable[[str, ImportResult | PaceError], None]
) -> None:
    """Import every example that the project has by name, each into its own folder below `folder`, and say each as soon
    as it is made, or why it is not. One that is there is left as it is. Raises UsageError if there are no names."""
    names = names_of(peer)
    for name in names:
        goal = folder / name_of(Path(name))
        if goal.exists():
            continue
        try:
            imported = import_example(
                peer, name, goal, ImportOptions(), try_seed, install=install, environment=folder / ENVIRONMENT
            )
        except (UsageError, GaveUp) as error:
            say(name, error)
        else:
            say(name, imported)


def names_of(peer: str) -> Sequence[str]:
    """The examples that a project has by name. Raises UsageError if there are none, NotHere if a package is missing."""
    names = importer_of(peer).names()
    if not names:
        raise UsageError(f"Examples of {peer} have no names: name the folder of one.")
    return names


def _of_files(draft: Draft, options: ImportOptions) -> Iterator[str]:
    """What to say of the seed program's text, and of the files that are copied."""
    if draft.seed_note:
        yield f"seed program: {draft.seed_note}"
    if draft.skipped:
        yield f"not copied: {', '.join(draft.skipped)}"
    if options.include:
        yield f"copied too: {', '.join(options.include)} (--include)"
    if files := draft.named:
        yield f"{draft.example.evaluator} names {', '.join(files)}, not copied: {_include(files)} takes them along"


def _untried(draft: Draft) -> tuple[Draft, Bounds, Stages, list[str]]:
    """(draft, bounds, stages, what to say) of a task whose seed program was not tried."""
    bounds = unknown_bounds(draft.example)
    remark = f"bounds: {bounds[0]:g} to {bounds[1]:g}, because the seed program was not tried: set them in task.yaml"
    return draft, bounds, draft.example.stages, [remark]


def _after_trial(draft: Draft, folder: Path, prefix: str) -> tuple[Draft, Bounds, Stages, list[str]]:
    """(draft, bounds, stages, what to say) of a task whose seed program is scored in its unfinished folder. A target
    that the seed program has reached is left out."""
    write_settings(folder, draft, unknown_bounds(draft.example), draft.example.stages, prefix)
    try:
        trial = anyio.run(_try, folder, draft.example.stages)
    except UsageError as error:  # this machine lacks something that an evaluation needs
        trial = SeedTrial(None, str(error).rstrip("."), {})
    bounds, remark = guessed_bounds(trial, draft.example)
    remarks = [remark]
    if trial.reported:
        remarks.append(f"seed program: its evaluator scores it {trial.score:g} and reports {trial.reported}")
    if trial.score == 0 and draft.skipped and not trial.reported:
        remark = "seed program: it has the score 0, perhaps because files were left out"
        remarks.append(f"{remark}: {_include(draft.named or draft.skipped)} takes them along")
    target = draft.example.target
    fitness = fitness_of(draft.example.direction, *bounds)
    if trial.score is not None and target is not None and fitness.reaches(trial.score, target):
        remarks.append(f"target: none, because the seed program scores {trial.score:g}, no worse than {target:g}")
        draft = replace(draft, example=replace(draft.example, target=None))
    stages, lowered = thresholds(draft.example.stages, trial)
    return draft, bounds, stages, [*remarks, *lowered]


async def _draft_from(peer: str, folder: Path, name: str, options: ImportOptions) -> Draft:
    try:
        async with with_helpers(READ_S):
            return draft_of(await in_helper(read_example, peer, str(folder), name, wanted_json(options)), folder)
    except TooMuchWork as work:
        raise UsageError(f"{folder} cannot be imported: reading it {work.detail}.") from None
    except InfrastructureFault as fault:
        raise GaveUp(f"{folder} could not be read ({fault}): try again later.") from None


def _include(names: Sequence[str]) -> str:
    return " ".join(f"--include {shlex.quote(name)}" for name in names)


async def _try(folder: Path, stages: Stages) -> SeedTrial:
    """Score the seed program once, and in each stage several times."""
    task = load_task(str(folder))
    own = task.spec.timeout_s
    spec = task.spec.model_copy(update={"timeout_s": own if task.spec.of_kind.is_built else min(TRY_S, own)})
    task = replace(task, spec=spec)
    settings = EvaluationConfig(warm=False, retries=0)
    stage_scores: dict[str, list[float]] = {}
    async with open_evaluator(task, settings, tier=await pick_tier(False)) as evaluator:
        full = await _evaluation_of(evaluator, task.program, FULL, 0)
        began = time.monotonic()
        for name, _ in stages if full.score is not None else ():
            scores = stage_scores.setdefault(name, [])
            while len(scores) < TRIES and (not scores or time.monotonic() - began < ALL_TRIES_S):
                evaluation = await _evaluation_of(evaluator, task.program, name, len(scores))
                if evaluation.score is None:
                    break
                scores.append(evaluation.score)
    reported = reported_error(full.feedback) if full.score is not None else ""
    return SeedTrial(full.score, f"{full.outcome}{f': {full.detail}' if full.detail else ''}", stage_scores, reported)


async def _evaluation_of(evaluator: LocalEvaluator, program: str, stage: str, number: int) -> Evaluation:
    identity = EvaluationId("import", number, stage)
    return await evaluate(evaluator, EvaluationRequest.of(evaluator.task.spec, identity, program, 0))


def unknown_bounds(example: Example) -> Bounds:
    """Those of a task whose seed program has no score."""
    end = example.target if example.upper is None else example.upper
    if example.direction == "minimize":
        return (0.0, 1.0) if end is None else (end, end + max(1.0, abs(end)))
    return (0.0, 1.0) if end is None or end <= 0 else (0.0, end)


def guessed_bounds(trial: SeedTrial, example: Example) -> tuple[Bounds, str]:
    """(bounds, what to say). The seed program's score is the worse one. The better one is what the example names as the
    best, or leaves room, because a score beyond it earns no more."""
    score = trial.score
    if score is None:
        low, high = unknown_bounds(example)
        return (low, high), f"bounds: {low:g} to {high:g}, because the seed program has no score yet ({trial.why})"
    fitness = fitness_of(example.direction, 0.0, 1.0)
    worse = float(f"{score:.6g}")
    end, where = example.target if example.upper is None else example.upper, "the best that the example names"
    if end is None or fitness.reaches(worse, end):
        room = max(1.0, 3 * worse) - worse if fitness.merit(worse) >= 0 else max(1.0, 2 * abs(worse))
        end, where = worse + fitness.merit(room), "a guess"
        end = float(f"{end:.3g}") if fitness.better(float(f"{end:.3g}"), worse) else end
    bounds = (min(worse, end), max(worse, end))
    remark = f"bounds: {bounds[0]:g} to {bounds[1]:g}, from the seed program's score to {where}"
    return bounds, remark if where != "a guess" else f"{remark}: set them to yours"


def thresholds(stages: Stages, trial: SeedTrial) -> tuple[Stages, list[str]]:
    """(stages with thresholds that the seed program passes, what to say)."""
    new_stages: list[tuple[str, float]] = []
    remarks: list[str] = []
    for name, threshold in stages:
        scores = trial.stages.get(name, [])
        passed = threshold
        if scores and min(scores) < threshold:
            lowest, highest = min(scores), max(scores)
            passed = float(f"{lowest - (highest - lowest) - 1e-3 * abs(lowest):.4g}")
            remarks.append(
                f"cascade: {name} has the threshold {passed:g} instead of {threshold:g}, because the seed program has "
                f"scores from {lowest:.4g} to {highest:.4g} there, and a program that a stage stops has no score here"
            )
        new_stages.append((name, passed))
    return tuple(new_stages), remarks
