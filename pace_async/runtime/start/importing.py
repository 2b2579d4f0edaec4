"""Makes a task from an example of another project: reads it, tries its seed program, writes the task.

It is read in a helper process with bounded time and memory, because an example is somebody else's.

The seed program is tried in the sandbox from a copy of the task, because two things cannot be read anywhere: between
which scores a search will move, and how low a stage scores the seed program. OpenEvolve gives a program that a stage
stops the stage's score. Here it has none, so a threshold that the seed program may miss is lowered.
"""

import json
import os
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import anyio

from pace_async.config import EvaluationConfig
from pace_async.durable import temporary_folder
from pace_async.errors import GaveUp, InfrastructureFault, UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, evaluate
from pace_async.evaluate.local import LocalEvaluator
from pace_async.evaluate.metrics import reported_error
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.peers.draft import READERS, draft_of, read_example
from pace_async.peers.example import Wanted
from pace_async.peers.write import Draft, name_of, refuse_if_there, write_task
from pace_async.programs.helpers import TooMuchWork, in_helper, with_helpers
from pace_async.task import FULL, load_task

READ_S = 10.0
"""Processor time in which an example is read."""
TRY_S = 60.0
"""Longest evaluation of the seed program."""
TRIES = 8
ALL_TRIES_S = 30.0
"""No further try of a stage begins after so long."""
UNKNOWN_BOUNDS = (0.0, 1.0)


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


def import_example(peer: str, folder: Path, target: Path | None, wanted: Wanted, try_seed: bool) -> Imported:
    """Raises UsageError for a project that is not known, a folder that is no such example, and a target that is there
    already."""
    if peer not in READERS:
        raise UsageError(f"Examples of {peer!r} cannot be imported: {' and '.join(READERS)} can.")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.")
    name = name_of(target or folder)
    goal = target or Path(name)
    if goal.resolve().is_relative_to(folder.resolve()):
        where = "the example itself" if goal.resolve() == folder.resolve() else "inside the example"
        other = os.path.relpath(folder.resolve().parent / f"{name_of(folder)}_task")
        raise UsageError(f"{goal} is {where}, which stays as it is: name a new folder, --to {other}.")
    refuse_if_there(goal)
    draft = anyio.run(_read, peer, folder, name, wanted)
    stages = draft.example.stages
    lines = [*draft.example.taken]
    if draft.seed_note:
        lines.append(f"seed program: {draft.seed_note}")
    if draft.skipped:
        lines.append(f"not copied: {', '.join(draft.skipped)}")
    if wanted.include:
        lines.append(f"copied too: {', '.join(wanted.include)} (--include)")
    named = draft.named
    if named:
        lines.append(
            f"{draft.example.evaluator} names {', '.join(named)}, not copied: {_include(named)} takes them along"
        )
    bounds = UNKNOWN_BOUNDS
    if try_seed:
        tried = anyio.run(_try, draft)
        bounds, said = guessed_bounds(tried)
        lines.append(said)
        if tried.reported:
            lines.append(f"seed program: its evaluator scores it {tried.score:g} and reports {tried.reported}")
        if tried.score == 0 and draft.skipped and not tried.reported:
            said = "seed program: it has the score 0, perhaps because files were left out"
            lines.append(f"{said}: {_include(named or draft.skipped)} takes them along")
        stages, told = thresholds(stages, tried)
        lines += told
    else:
        lines.append("bounds: 0 to 1, because the seed program was not tried: set them in task.yaml")
    write_task(draft, goal, bounds, stages)
    return Imported(name, goal, tuple(lines), draft.example.left)


async def _read(peer: str, folder: Path, name: str, wanted: Wanted) -> Draft:
    try:
        async with with_helpers(READ_S):
            said = json.dumps(asdict(wanted))
            return draft_of(await in_helper(read_example, peer, str(folder), name, said), peer, folder)
    except TooMuchWork as work:
        raise UsageError(f"{folder} cannot be imported: reading it {work.detail}.") from None
    except InfrastructureFault as fault:
        raise GaveUp(f"{folder} could not be read ({fault}): try again later.") from None


def _include(names: Sequence[str]) -> str:
    return " ".join(f"--include {shlex.quote(name)}" for name in names)


async def _try(draft: Draft) -> SeedTrial:
    """Score the seed program once, and in each stage several times."""
    with tempfile.TemporaryDirectory(prefix="pace-import-", dir=temporary_folder()) as place:
        folder = Path(place) / draft.name
        write_task(draft, folder, UNKNOWN_BOUNDS, draft.example.stages)
        task = load_task(str(folder))
        spec = task.spec.model_copy(update={"timeout_s": min(TRY_S, task.spec.timeout_s)})
        task = replace(task, spec=spec)
        settings = EvaluationConfig(warm=False, retries=0)
        found: dict[str, list[float]] = {}
        async with open_evaluator(task, settings, tier=await pick_tier(False)) as evaluator:
            full = await _scored(evaluator, task.program, FULL, 0)
            began = time.monotonic()
            for name, _ in draft.example.stages if full.score is not None else ():
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


def guessed_bounds(tried: SeedTrial) -> tuple[tuple[float, float], str]:
    """(bounds, what to say). The lower one is the seed program's score. The upper one leaves room, because a score
    beyond it earns no more."""
    score = tried.score
    if score is None:
        return UNKNOWN_BOUNDS, f"bounds: 0 to 1, because the seed program has no score yet ({tried.why})"
    lower = float(f"{score:.6g}")
    upper = max(1.0, 3 * lower) if lower >= 0 else lower + max(1.0, 2 * abs(lower))
    upper = float(f"{upper:.3g}") if float(f"{upper:.3g}") > lower else upper
    return (lower, upper), f"bounds: {lower:g} to {upper:g}, guessed from the seed program's score: set them to yours"


def thresholds(
    stages: tuple[tuple[str, float], ...], tried: SeedTrial
) -> tuple[tuple[tuple[str, float], ...], list[str]]:
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
