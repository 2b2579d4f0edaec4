"""Checks a task: its files, its seed program, its bounds, its evaluator with programs that cheat, fail or hang, and its
catalogue.

Invariant: everything runs as in a run (sandbox, scorer, limits), except that no score is remembered and a hanging
program gets seconds instead of the task's whole limit. A check never raises for a problem: it fails, with a remedy. Not
a proof: an evaluator can be cheated in ways that no list of programs contains. To add a program for every task, add it
to `adversarial_programs`. For one task, put it into the task's folder `cheats`, where each must score no better than
the seed program.
"""

import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from pace_async.aims import Aim
from pace_async.config import Config, EvaluationConfig
from pace_async.errors import CandidateFault, UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, evaluate
from pace_async.evaluate.local import LocalEvaluator
from pace_async.evaluate.metrics import reported_error
from pace_async.evaluate.pruning import Bar
from pace_async.evaluate.resources import Resources, resources_of
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.evaluate.sandbox.toolchain import lacks_tools
from pace_async.evaluate.scorer.scorer_log import printed, scorer_log
from pace_async.fitness import Fitness, fitness_of
from pace_async.implement.assemble import MOVE_MARKS, unused_block
from pace_async.implement.catalogue import Mechanism, MechanismEdit, apply_edit, load_catalogue
from pace_async.observe.formatting import SHARED_MEANS
from pace_async.outside import sound_file
from pace_async.programs.compiled import compiled, program_hash
from pace_async.programs.languages import PYTHON, Language
from pace_async.programs.text import assignments
from pace_async.runtime.children.advisor_choice import with_advisor
from pace_async.runtime.children.catalogue_reading import read_by
from pace_async.runtime.start.adversarial_programs import CHEATS, ENDLESS, STRICT, Cheat
from pace_async.runtime.start.first_outputs_check import first_outputs_checked
from pace_async.runtime.start.modules import missing_modules, missing_requirements, networked_modules
from pace_async.runtime.start.practice_check import practice_checked
from pace_async.task import CHEATS as CHEATS_FOLDER
from pace_async.task import FULL, PRACTICE, CascadeStage, Setting, Task, bounds_from, editable, load_task

HANG_S = 3.0
ENTRY = "answer"
"""The function of a Python program that is tried on the evaluator of a process task."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the result. `remedy` is empty if there is nothing to do. `printed` is the output of the task's
    evaluator with its traceback, if its own error made the check fail. `warns`: it passes, and a run says it too."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    printed: str = ""
    warns: bool = False


async def examine(name: str, seed: int, say: Callable[[Check], None], chosen: Mapping[str, Setting]) -> None:
    """Report every check in order, each as soon as it is known. Checks that are pointless after a failure are left out.
    `chosen` are settings that override those of the check. Raises UsageError if this machine has no sandbox, and for a
    setting that the task does not have."""
    try:
        task = load_task(name)
    except UsageError as error:
        say(Check("loads", False, str(error), "fix the file that it names; docs/tasks.md has the fields"))
        return
    changed = {**task.spec.offline_settings, **chosen}
    text = ", ".join(f"{name}={value}" for name, value in changed.items())
    say(Check("loads", True, f"{task.folder}{' with ' if text else ''}{text}"))
    task = replace(task, spec=task.spec.under(changed))
    kind = task.spec.of_kind
    if reason := unused_block(task):
        text = f"{reason}: what a model writes there is ignored"
        say(Check("the block can matter", not kind.hides_scorer, text, MOVE_MARKS, warns=not kind.hides_scorer))
    if not kind.hides_scorer:
        say(Check("trust is shared", True, f"{SHARED_MEANS}; look at a best program before you believe it"))
    granted = _resources(task, say)
    if granted is None:
        say(_catalogue(task))
        return
    if not kind.hides_scorer and not granted.environment.has_python and not _modules(task, say):
        return
    if not kind.calls_function and (lacking := lacks_tools(task)):
        say(Check("commands are installed", False, lacking, "or check it on a machine that has them"))
        say(_catalogue(task))
        return
    tier = await pick_tier(False)
    with scorer_log() as log:
        try:
            sound = await _answers(task, seed, tier, log, say)
        except UsageError as error:
            file = task.spec.evaluator_file or "task.yaml"
            say(Check("evaluator loads", False, str(error), f"fix {file}", printed(log)))
            return
        if sound and kind.hides_scorer:
            await _cheats(task, seed, tier, log, say)
            await _endless(task, seed, tier, log, say)
    applies = _catalogue(task)
    say(applies)
    if applies.ok and task.catalogue_path is not None:
        say(_reader(task))


def _modules(task: Task, say: Callable[[Check], None]) -> bool:
    """Whether everything is installed that the evaluator of a command task imports."""
    name = "modules are installed"
    missing, wished = missing_modules(task), missing_requirements(task)
    if missing:
        message = f"the evaluator imports {', '.join(missing)}, not installed here"
        say(Check(name, False, message, "install what is missing into the Python that runs pace, with pip"))
    else:
        message = "all that the evaluator imports"
        message += f"; {', '.join(wished)} of its requirements.txt is missing" if wished else ""
        services = networked_modules(task)
        message += f"; {', '.join(services)} may need a network, and the sandbox has none" if services else ""
        say(Check(name, True, message))
    return not missing


def _resources(task: Task, say: Callable[[Check], None]) -> Resources | None:
    """What this machine grants the task, None if it lacks something. A task that asks for nothing gets no line."""
    name = "resources are here"
    try:
        granted = resources_of(task, EvaluationConfig(slots=1))
    except UsageError as error:
        say(Check(name, False, str(error), "or check it on a machine that has them"))
        return None
    if description := granted.in_words():
        say(Check(name, True, description))
    return granted


async def _answers(task: Task, seed: int, tier: Tier, log: Path, say: Callable[[Check], None]) -> bool:
    """Score the seed program twice, then the task's own cheats. Returns whether the seed program scores."""
    async with _scoring(task, seed, tier, task.spec.timeout_s, log) as scoring:
        first = await scoring.score(task.program)
        say(_seed_program(task, first, log))
        if first.outcome != "ok" or first.score is None:
            return False
        say(_repeats(task, first, await scoring.score(task.program)))
        if task.spec.of_kind.hides_scorer:
            say(await _fresh(task, scoring.evaluator))
        scorers = scoring.evaluator.parts.scorers
        if scorers is not None and scorers.practises:
            practise = partial(scoring.score, task.program, PRACTICE)
            say(Check("practice is apart", *await practice_checked(task, scorers, seed, practise)))
        if scorers is not None and scorers.reports:
            checked = await first_outputs_checked(task, partial(scoring.score, task.program))
            say(Check("first outputs have a score", *checked, "" if checked[0] else printed(log)))
        if task.spec.aims:
            for aim in task.spec.aims:
                say(_objective(aim, first.metrics[aim.metric]))
        else:
            say(_bounds(task, first.score))
        for stage in task.spec.cascade:
            say(_stage(stage, task.spec.fitness, first, await scoring.score(task.program, stage.name)))
        for file in sorted((task.folder / CHEATS_FOLDER).glob(f"*.{task.spec.written_in.suffix or '*'}")):
            say(await _known_cheat(task, file, first.score, scoring))
    return True


async def _cheats(task: Task, seed: int, tier: Tier, log: Path, say: Callable[[Check], None]) -> None:
    """Try the programs that must not get a score, whatever the task."""
    async with _scoring(_as_function(task), seed, tier, task.spec.timeout_s, log) as scoring:
        for cheat in CHEATS:
            say(await _cheat(task, cheat, scoring))


def _as_function(task: Task) -> Task:
    """The task for programs that are Python functions, like those that have cheated other tasks. For its evaluator it
    is the same task."""
    if not task.spec.of_kind.is_built:
        return task
    changed = {"kind": "function", "entry": ENTRY, "language": PYTHON, "build": (), "run": ()}
    return replace(task, program="", spec=task.spec.model_copy(update=changed))


async def _fresh(task: Task, evaluator: LocalEvaluator) -> Check:
    """Whether a new best can be confirmed on fresh instances."""
    name = "fresh instances can be made"
    try:
        await evaluator.refuse_unless_fresh()
    except UsageError as error:
        remedy = f"let instances() in {task.spec.evaluator} take every whole number below 2**129"
        return Check(name, False, str(error), remedy)
    return Check(name, True, "from a seed of 129 bits")


async def _endless(task: Task, seed: int, tier: Tier, log: Path, say: Callable[[Check], None]) -> None:
    """Try those that end at the limit, all at once."""
    checks: dict[str, Check] = {}

    async def one(cheat: Cheat) -> None:
        checks[cheat.name] = await _cheat(task, cheat, scoring)

    limit = min(HANG_S, task.spec.timeout_s)
    async with _scoring(_as_function(task), seed, tier, limit, log) as scoring, anyio.create_task_group() as tg:
        for cheat in ENDLESS:
            tg.start_soon(one, cheat)
    for cheat in ENDLESS:
        say(checks[cheat.name])


@dataclass(slots=True)
class _Scoring:
    """Scores one program after the other, each under its own identity."""

    evaluator: LocalEvaluator
    seed: int
    asked: int = 0

    async def score(self, program: str, stage: str = FULL, *, bar: Bar | None = None) -> Evaluation:
        """On the instances of the seed."""
        self.asked += 1
        identity, spec = EvaluationId("check", self.asked, stage), self.evaluator.task.spec
        return await evaluate(self.evaluator, EvaluationRequest.of(spec, identity, program, self.seed, bar=bar))


@asynccontextmanager
async def _scoring(task: Task, seed: int, tier: Tier, timeout_s: float, log: Path) -> AsyncGenerator[_Scoring]:
    """The real evaluator, without a memo: a task that is not declared deterministic has none."""
    spec = task.spec.model_copy(update={"deterministic": False, "timeout_s": timeout_s})
    settings = EvaluationConfig(seed=seed, slots=1)
    async with open_evaluator(replace(task, spec=spec), settings, tier=tier, log=log) as evaluator:
        yield _Scoring(evaluator, seed)


def _seed_program(task: Task, evaluation: Evaluation, log: Path) -> Check:
    name = "seed program scores"
    if evaluation.outcome == "ok" and evaluation.score is not None:
        limit = task.spec.timeout_s
        message = f"{evaluation.score:.10g} in {evaluation.seconds:.2f} s of {limit:g} s"
        if error := reported_error(evaluation.feedback):
            message += f"; the evaluator reports {error}"
        elif not task.spec.of_kind.hides_scorer and evaluation.score == 0:
            message += "; many evaluators score a failure 0, so see what this one prints when it is run by hand"
        if evaluation.seconds > 0.8 * limit:
            return Check(name, False, message, "raise timeout_s: a slower machine would fail it")
        return Check(name, True, message)
    if evaluation.evaluator_error:
        message = f"the evaluator failed on it ({evaluation.evaluator_error})"
        return Check(name, False, message, f"fix {task.spec.evaluator}, not the seed program", printed(log))
    detail = f"{evaluation.outcome}: {evaluation.detail}" if evaluation.detail else evaluation.outcome
    if evaluation.outcome == "infrastructure_error":
        return Check(name, False, detail, "check that the sandbox works: pace doctor", printed(log))
    if detail.endswith(f"defines no function {task.spec.entry}"):
        return Check(
            name, False, detail, f"name its function in task.yaml (`entry`), or define it in {task.spec.program}"
        )
    culprit = task.spec.program if task.spec.of_kind.hides_scorer else f"the evaluator or {task.spec.program}"
    return Check(name, False, detail, f"fix {culprit}: `pace eval` on {task.spec.program} should say ok")


def _repeats(task: Task, first: Evaluation, second: Evaluation) -> Check:
    name = "scores repeat"
    if first.score == second.score:
        declared = "deterministic" if task.spec.deterministic else "not deterministic, and equal here"
        return Check(name, True, f"declared {declared}: twice {first.score:.10g}")
    scores = " and ".join("none" if score is None else f"{score:.10g}" for score in (first.score, second.score))
    if not task.spec.deterministic:
        return Check(name, True, f"declared not deterministic: {scores}")
    return Check(name, False, scores, "seed every draw from the instance, or declare `deterministic: false`")


def _bounds(task: Task, score: float) -> Check:
    name, spec = "bounds fit the seed program", task.spec
    try:
        bounds = spec.bounds if spec.has_bounds else bounds_from(spec, score)
    except UsageError as error:
        return Check(name, False, f"score {score:.6g}, target {spec.target:g}", str(error))
    fitness = fitness_of(spec.direction, bounds.lower, bounds.upper)
    share = fitness.progress(score)
    detail = f"score {score:.6g}, bounds {fitness.worse_bound:g} to {fitness.goal:g}: progress {share:.0%}"
    if fitness.reaches(score, fitness.goal):
        return Check(name, False, detail, f"nothing is left to gain: set the better bound beyond {score:.6g}")
    if share > 0.5:
        return Check(name, False, detail, f"rewards hardly differ: set the worse bound near {score:.6g} or beyond it")
    target = spec.target
    if target is not None and fitness.reaches(score, target):
        return Check(name, False, f"{detail}; target {target:g}", "set the target to a score better than the seed's")
    return Check(name, True, detail)


def _objective(aim: Aim, value: float) -> Check:
    """Whether something is left to gain in one objective, and its bounds tell programs apart."""
    name, cost, broken = f"objective {aim.metric}", aim.cost(value), aim.violation(value) > 0
    detail = f"{value:.6g}{', which breaks its constraint' if broken else ''}; {aim.in_words}"
    if cost <= 0:
        return Check(name, False, detail, f"nothing is left to gain: set the better bound beyond {value:.6g}")
    if cost >= 1:
        detail += "; beyond its worse bound, so nothing is rewarded there before a program comes within it"
    return Check(name, True, detail)


def _stage(stage: CascadeStage, fitness: Fitness, full: Evaluation, evaluation: Evaluation) -> Check:
    """Whether the seed program passes a cheap stage, which it must, because every program begins from it."""
    name = f"stage {stage.name} lets the seed program pass"
    if evaluation.score is None:
        detail = f"{evaluation.outcome}: {evaluation.detail}" if evaluation.detail else evaluation.outcome
        return Check(name, False, detail, f"let the evaluator score it with stage={stage.name!r} too")
    times = f"in {evaluation.seconds:.2f} s, the full evaluation {full.seconds:.2f} s"
    figures = f"{evaluation.score:.6g} of {stage.threshold:g} {times}"
    if not fitness.reaches(evaluation.score, stage.threshold):
        return Check(name, False, figures, f"set its threshold to {evaluation.score:.6g} or worse")
    return Check(name, True, figures)


async def _cheat(task: Task, cheat: Cheat, scoring: _Scoring) -> Check:
    evaluation = await scoring.score(cheat.program(scoring.evaluator.task.spec.entry))
    detail = f"{evaluation.outcome}: {evaluation.detail}" if evaluation.detail else evaluation.outcome
    if evaluation.score is not None and math.isfinite(evaluation.score):
        detail = f"scored {evaluation.score:.6g}"
    outcome = evaluation.outcome
    ok = outcome in cheat.outcomes if cheat.outcomes else outcome not in ("ok", "infrastructure_error")
    return Check(cheat.name, ok, detail, "" if ok else cheat.remedy.format(evaluator=task.spec.evaluator))


async def _known_cheat(task: Task, file: Path, honest: float, scoring: _Scoring) -> Check:
    """Whether a program of the task's own folder of cheats gains nothing over the seed program's score."""
    name = f"cheat {file.stem} gains nothing"
    try:
        program = sound_file(await anyio.Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        return Check(name, False, f"{file} cannot be read: {error}", "fix or remove it")
    evaluation = await scoring.score(program)
    detail = f"{evaluation.outcome}: {evaluation.detail}"
    if evaluation.outcome == "infrastructure_error":
        return Check(name, False, detail, "check that the sandbox works: pace doctor")
    if evaluation.score is None:
        return Check(name, True, detail)
    detail = f"scored {evaluation.score:.6g}, the seed program {honest:.6g}"
    if task.spec.fitness.better(evaluation.score, honest):
        return Check(name, False, detail, STRICT.format(evaluator=task.spec.evaluator))
    return Check(name, True, detail)


def _reader(task: Task) -> Check:
    """Whether the advisor of the package that reads catalogues can read this one."""
    name = "advisor reader can read the catalogue"
    try:
        reading, chosen = read_by("reader", task), with_advisor(Config(), task).advisor.model
        return Check(name, True, f"{reading}; without --advisor a run takes {chosen}")
    except UsageError as error:
        return Check(name, False, str(error), "make it smaller, or name another advisor")


def _catalogue(task: Task) -> Check:
    """Whether every option of every mechanism can be applied to the seed program, and changes it."""
    name = "catalogue applies"
    if task.catalogue_path is None:
        return Check(name, True, "there is none, so a run needs a model: name it by --implementer")
    try:
        catalogue = load_catalogue(task.catalogue_path)
    except UsageError as error:
        return Check(name, False, str(error), "fix it; docs/tasks.md has an example")
    language = task.spec.written_in
    start, block, rest = editable(task.program)
    wrong: list[str] = []
    option_count = 0
    for mechanism in catalogue.mechanisms:
        changed = 0
        first = mechanism.sites[0] if mechanism.sites else None
        wrong += _not_assigned(mechanism, block, language)
        for option in mechanism.options:
            option_count += 1
            try:
                text = apply_edit(block, MechanismEdit(mechanism.name, option, first), language)
                edited = compiled(start + text + rest, language=language.name)
            except CandidateFault as error:
                wrong.append(f"{mechanism.name} to {option}: {error.detail or error}")
                break
            if edited.fault:
                wrong.append(f"{mechanism.name} to {option}: {edited.fault}")
                break
            changed += edited.digest != program_hash(task.program, language.name)
        else:
            if changed == 0:
                wrong.append(f"no option of {mechanism.name} changes the seed program")
    if wrong:
        remedy = f"let the evolve block of {task.spec.program} assign each name once, on a line of its own"
        return Check(name, False, "; ".join(wrong[:3]), remedy)
    at_sites = sum(len(mechanism.sites) for mechanism in catalogue.mechanisms)
    more = f"; {at_sites} assignments at sites, the options at the first site of each" if at_sites else ""
    return Check(name, True, f"{option_count} options of {len(catalogue.mechanisms)} mechanisms{more}")


def _not_assigned(mechanism: Mechanism, block: str, language: Language) -> list[str]:
    """The sites at which the block does not assign the mechanism once."""
    values = assignments(block, language.name)
    wrong = [name for name in mechanism.assigned[1:] if len(values.get(name, ())) != 1]
    return [f"the seed program does not assign {wrong[0]} exactly once ({len(wrong)} such names)"] if wrong else []
