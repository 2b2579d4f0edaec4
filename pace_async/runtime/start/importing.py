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
from pace_async.peers.example import Example, Wanted
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
class Imported:
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
    named: str,
    target: Path | None,
    wanted: Wanted,
    try_seed: bool,
    *,
    install: bool = False,
    environment: Path | None = None,
) -> Imported:
    """`install`: packages that are missing here go into `environment`, or else into one beside the task. Raises
    UsageError for a project that is not known, a folder that is no such example, and a target that is there already,
    NotHere if the package that brings the example is missing, GaveUp if its packages cannot be installed."""
    importer = importer_of(peer)
    folder = importer.folder_of(named)
    name = name_of(target or folder)
    goal = target or Path(name)
    if goal.resolve().is_relative_to(folder.resolve()):
        where = "the example itself" if goal.resolve() == folder.resolve() else "inside the example"
        other = os.path.relpath(folder.resolve().parent / f"{name_of(folder)}_task")
        raise UsageError(f"{goal} is {where}, which stays as it is: name a new folder, --to {other}.")
    refuse_if_there(goal)
    draft = anyio.run(_read, peer, folder, name, wanted)
    lines = [*draft.example.taken, *_of_files(draft, wanted)]
    prefix = ""
    missing = missing_of(draft.example.packages)
    if missing and install:
        place = environment or goal.with_name(f"{goal.name}_environment")
        install_into(place, draft.example.packages)
        prefix = os.path.relpath(place.resolve(), goal.resolve())
        lines.append(f"environment: {prefix} has {', '.join(draft.example.packages)} (--install)")
    elif missing:
        lines.append(f"packages: {', '.join(missing)} not installed here: --install makes an environment with them")
    with unfinished_task(draft, importer, goal) as made:
        can_try = try_seed and (install or not missing)
        draft, bounds, stages, told = _tried(draft, made, prefix) if can_try else _untried(draft)
        write_settings(made, draft, bounds, stages, prefix)
    return Imported(name, goal, (*lines, *told), draft.example.left)


def import_all(
    peer: str, folder: Path, try_seed: bool, *, install: bool, say: Callable[[str, Imported | PaceError], None]
) -> None:
    """Import every example that the project has by name, each into its own folder below `folder`, and say each as soon
    as it is made, or why it is not. One that is there is left as it is. Raises UsageError if there are no names."""
    names = names_of(peer)
    for name in names:
        goal = folder / name_of(Path(name))
        if goal.exists():
            continue
        try:
            made = import_example(
                peer, name, goal, Wanted(), try_seed, install=install, environment=folder / ENVIRONMENT
            )
        except (UsageError, GaveUp) as error:
            say(name, error)
        else:
            say(name, made)


def names_of(peer: str) -> Sequence[str]:
    """The examples that a project has by name. Raises UsageError if there are none, NotHere if a package is missing."""
    names = importer_of(peer).names()
    if not names:
        raise UsageError(f"Examples of {peer} have no names: name the folder of one.")
    return names


def _of_files(draft: Draft, wanted: Wanted) -> Iterator[str]:
    """What to say of the seed program's text, and of the files that are copied."""
    if draft.seed_note:
        yield f"seed program: {draft.seed_note}"
    if draft.skipped:
        yield f"not copied: {', '.join(draft.skipped)}"
    if wanted.include:
        yield f"copied too: {', '.join(wanted.include)} (--include)"
    if named := draft.named:
        yield f"{draft.example.evaluator} names {', '.join(named)}, not copied: {_include(named)} takes them along"


def _untried(draft: Draft) -> tuple[Draft, Bounds, Stages, list[str]]:
    """(draft, bounds, stages, what to say) of a task whose seed program was not tried."""
    bounds = unknown_bounds(draft.example)
    said = f"bounds: {bounds[0]:g} to {bounds[1]:g}, because the seed program was not tried: set them in task.yaml"
    return draft, bounds, draft.example.stages, [said]


def _tried(draft: Draft, folder: Path, prefix: str) -> tuple[Draft, Bounds, Stages, list[str]]:
    """(draft, bounds, stages, what to say) of a task whose seed program is scored in its unfinished folder. A target
    that the seed program has reached is left out."""
    write_settings(folder, draft, unknown_bounds(draft.example), draft.example.stages, prefix)
    try:
        tried = anyio.run(_try, folder, draft.example.stages)
    except UsageError as error:  # this machine lacks something that an evaluation needs
        tried = SeedTrial(None, str(error).rstrip("."), {})
    bounds, said = guessed_bounds(tried, draft.example)
    told = [said]
    if tried.reported:
        told.append(f"seed program: its evaluator scores it {tried.score:g} and reports {tried.reported}")
    if tried.score == 0 and draft.skipped and not tried.reported:
        said = "seed program: it has the score 0, perhaps because files were left out"
        told.append(f"{said}: {_include(draft.named or draft.skipped)} takes them along")
    target = draft.example.target
    fitness = fitness_of(draft.example.direction, *bounds)
    if tried.score is not None and target is not None and fitness.reaches(tried.score, target):
        told.append(f"target: none, because the seed program scores {tried.score:g}, no worse than {target:g}")
        draft = replace(draft, example=replace(draft.example, target=None))
    stages, lowered = thresholds(draft.example.stages, tried)
    return draft, bounds, stages, [*told, *lowered]


async def _read(peer: str, folder: Path, name: str, wanted: Wanted) -> Draft:
    try:
        async with with_helpers(READ_S):
            return draft_of(await in_helper(read_example, peer, str(folder), name, wanted_json(wanted)), folder)
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
    found: dict[str, list[float]] = {}
    async with open_evaluator(task, settings, tier=await pick_tier(False)) as evaluator:
        full = await _scored(evaluator, task.program, FULL, 0)
        began = time.monotonic()
        for name, _ in stages if full.score is not None else ():
            scores = found.setdefault(name, [])
            while len(scores) < TRIES and (not scores or time.monotonic() - began < ALL_TRIES_S):
                one = await _scored(evaluator, task.program, name, len(scores))
                if one.score is None:
                    break
                scores.append(one.score)
    reported = reported_error(full.feedback) if full.score is not None else ""
    return SeedTrial(full.score, f"{full.outcome}{f': {full.detail}' if full.detail else ''}", found, reported)


async def _scored(evaluator: LocalEvaluator, program: str, stage: str, number: int) -> Evaluation:
    identity = EvaluationId("import", number, stage)
    return await evaluate(evaluator, EvaluationRequest.of(evaluator.task.spec, identity, program, 0))


def unknown_bounds(example: Example) -> Bounds:
    """Those of a task whose seed program has no score."""
    end = example.target if example.upper is None else example.upper
    if example.direction == "minimize":
        return (0.0, 1.0) if end is None else (end, end + max(1.0, abs(end)))
    return (0.0, 1.0) if end is None or end <= 0 else (0.0, end)


def guessed_bounds(tried: SeedTrial, example: Example) -> tuple[Bounds, str]:
    """(bounds, what to say). The seed program's score is the worse one. The better one is what the example names as the
    best, or leaves room, because a score beyond it earns no more."""
    score = tried.score
    if score is None:
        low, high = unknown_bounds(example)
        return (low, high), f"bounds: {low:g} to {high:g}, because the seed program has no score yet ({tried.why})"
    fitness = fitness_of(example.direction, 0.0, 1.0)
    worse = float(f"{score:.6g}")
    end, where = example.target if example.upper is None else example.upper, "the best that the example names"
    if end is None or fitness.reaches(worse, end):
        room = max(1.0, 3 * worse) - worse if fitness.merit(worse) >= 0 else max(1.0, 2 * abs(worse))
        end, where = worse + fitness.merit(room), "a guess"
        end = float(f"{end:.3g}") if fitness.better(float(f"{end:.3g}"), worse) else end
    bounds = (min(worse, end), max(worse, end))
    said = f"bounds: {bounds[0]:g} to {bounds[1]:g}, from the seed program's score to {where}"
    return bounds, said if where != "a guess" else f"{said}: set them to yours"


def thresholds(stages: Stages, tried: SeedTrial) -> tuple[Stages, list[str]]:
    """(stages with thresholds that the seed program passes, what to say)."""
    kept: list[tuple[str, float]] = []
    told: list[str] = []
    for name, threshold in stages:
        scores = tried.stages.get(name, [])
        passed = threshold
        if scores and min(scores) < threshold:
            lowest, highest = min(scores), max(scores)
            passed = float(f"{lowest - (highest - lowest) - 1e-3 * abs(lowest):.4g}")
            told.append(
                f"cascade: {name} has the threshold {passed:g} instead of {threshold:g}, because the seed program has "
                f"scores from {lowest:.4g} to {highest:.4g} there, and a program that a stage stops has no score here"
            )
        kept.append((name, passed))
    return tuple(kept), told
