"""A new run, resolved once: what it is made of, as values and as entries of the registries.

`pace run` begins what `pace run --dry-run` prints. Nothing is written, and no model is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pace_async.config import Config
from pace_async.context.checked import check
from pace_async.context.templates import Templates
from pace_async.evaluate.assemble import of_this_machine
from pace_async.evaluate.resources import Resources, resources_of
from pace_async.events import LearnedBefore
from pace_async.implement.agent_checks import refuse_unless_runnable
from pace_async.implement.assemble import (
    refuse_missing_mechanisms,
    refuse_unless_possible,
    refuse_unused_block,
)
from pace_async.implement.notes_writer import refuse_unless_written
from pace_async.plan.planned import Plan
from pace_async.plan.served import refuse_unless_divisible
from pace_async.population.reading.reader import names_of_runs
from pace_async.registry.advisors import advisor_of
from pace_async.registry.evaluators import EVALUATORS, EvaluatorKind
from pace_async.registry.objectives import trains
from pace_async.registry.trainers import TRAINERS, TrainerKind
from pace_async.runtime.children.advisor_choice import in_words, with_advisor
from pace_async.runtime.children.advisor_folder import (
    advisor_folder,
    refuse_incomplete,
    refuse_unless_transformers_knows,
    refuse_without_weights,
)
from pace_async.runtime.children.cards import cards_of, taken_cards
from pace_async.runtime.children.catalogue_reading import refuse_unless_read
from pace_async.runtime.children.engines import refuse_unless_served
from pace_async.runtime.run_paths import RunPaths, new_run_paths
from pace_async.runtime.start.asked import refuse_without_prices
from pace_async.runtime.start.beginning import StartingProgram, begun_with, bounds_of
from pace_async.runtime.start.descriptors import ensure_descriptors
from pace_async.runtime.start.learned_before import learned_before
from pace_async.runtime.start.missing import note_missing, note_the_rest
from pace_async.runtime.start.packages import refuse_without_packages
from pace_async.runtime.start.planning import refuse_unless_it_fits
from pace_async.runtime.start.refusals import fixed_bounds, limits_of
from pace_async.runtime.start.trained_before import TrainedBefore, trained_before
from pace_async.runtime.start.usual_cards import planned_for_dry_run
from pace_async.task import Task, limited


@dataclass(frozen=True, slots=True)
class ResolvedRun:
    """`config` names the run's advisor, and `advisor` says it and how it serves the task. `task` has the limits of the
    run. `trainer` is None if nothing is trained. `cards` are those that learner and engine own, with their owners.
    `granted` is what this machine's slots may use, `slots` how many evaluations run at once, here or elsewhere.
    `programs` are evaluated first. `learned` is what another run had learned, and `before` the version that another one
    trained, from which this run's advisor begins. `memory` says what the advisor needs of the cards, None if that is
    not planned, and `elsewhere` the cards that it needs where this machine has none. `missing` is what this machine
    lacks."""

    config: Config
    task: Task
    paths: RunPaths
    advisor: str
    trainer: TrainerKind | None
    evaluator: EvaluatorKind
    cards: Mapping[str, str]
    granted: Resources
    memory: Plan | None
    programs: tuple[StartingProgram, ...] = ()
    learned: LearnedBefore | None = None
    before: TrainedBefore | None = None
    elsewhere: str = ""
    missing: tuple[str, ...] = ()

    @property
    def slots(self) -> int:
        return self.config.evaluation.slots if self.evaluator.elsewhere else len(self.granted.slots)


def resolve_run(
    original_config: Config, original_task: Task, run_dir: Path | None, *, dry: bool = False
) -> ResolvedRun:
    """A run of a task, as `look` gives it. `dry`: what this machine lacks is noted instead of refused, and a model
    without a price is refused under a budget. Raises UsageError."""
    missing: list[str] | None = [] if dry else None
    config = with_advisor(original_config, original_task)
    before = trained_before(config, original_task)
    if before is not None:
        config = config.model_copy(update={"advisor": config.advisor.model_copy(update={"start_from": before.name})})
    task, paths = prepare(config, original_task, run_dir, missing)
    task, programs = begun_with(config.search, task)
    if config.search.start_from is not None and not task.spec.has_bounds:
        config, task = fixed_bounds(config, task, *bounds_of(config.search.start_from))
    cards: Mapping[str, str] = {}
    with note_missing(missing):
        cards = taken_cards(config)
    granted, elsewhere = _granted(config, task, cards, missing), ""
    if missing is None:
        memory = refuse_unless_it_fits(config, paths.folder)
        refuse_without_weights(config)
    else:
        memory, elsewhere = planned_for_dry_run(config, paths.folder)
        refuse_without_prices(config)
        note_the_rest(config, task, missing)
    return ResolvedRun(
        config,
        task,
        paths,
        advisor=", ".join(
            [
                in_words(config, task, chosen=advisor_of(original_config.advisor.model).chosen_for_task),
                *([before.in_words()] if before is not None else []),
            ]
        ),
        trainer=TRAINERS[config.learner.trainer] if trains(config.learner.objective) else None,
        evaluator=EVALUATORS[config.evaluation.evaluators],
        cards=cards,
        granted=granted,
        memory=memory,
        programs=programs,
        learned=learned_before(config, task),
        before=before,
        elsewhere=elsewhere,
        missing=tuple(missing or ()),
    )


def _granted(config: Config, task: Task, cards: Mapping[str, str], missing: list[str] | None) -> Resources:
    """What this machine's slots may use. Where cards that must be there are `missing`, what there is without them."""
    evaluation = of_this_machine(config.evaluation)
    with note_missing(missing):
        return resources_of(task, evaluation, cards)
    return resources_of(limited(task, gpus_required=False), evaluation, cards)


def prepare(
    config: Config, original_task: Task, run_dir: Path | None, missing: list[str] | None = None
) -> tuple[Task, RunPaths]:
    """The task and the folder of a run that can begin. Makes every check that needs no process. Writes nothing. Other
    machines may have runs in a database on a server: a run that was given no folder takes no name of theirs. What this
    machine lacks is added to `missing` where that is given. Raises UsageError."""
    task = limits_of(config, original_task)
    refuse_unknown_stages(config, task, missing)
    with note_missing(missing):
        refuse_incomplete(config)
    refuse_unless_transformers_knows(config)
    with note_missing(missing):
        TRAINERS[config.learner.trainer].refuse_unless_there(config)
    refuse_missing_mechanisms(config.implementer.model, task)
    refuse_unused_block(config.implementer.model, task)
    refuse_unless_written(config)
    if config.search.remembers != "pool":
        check(Templates.of(config.prompts, task.folder), task)
    return task, new_run_paths(task.name, run_dir, names_taken(config) if run_dir is None else ())


def names_taken(config: Config) -> tuple[str, ...]:
    """Names of the runs in the database on a server, if the run writes to one. Raises UsageError."""
    return () if config.population.url is None else names_of_runs(config.population.url)


def refuse_unknown_stages(config: Config, task: Task, missing: list[str] | None = None) -> None:
    """Raises UsageError for an engine, an implementer or a catalogue that the run cannot use, and for packages that are
    missing."""
    ensure_descriptors(config)
    with note_missing(missing):
        refuse_without_packages(config)
    with note_missing(missing):
        refuse_unless_served(config.advisor.engine)
    with note_missing(missing):
        if cards_of(config).engine and config.advisor.ranks > 1:
            model = config.advisor.model
            refuse_unless_divisible(model, advisor_folder(model), config.advisor.ranks)
    refuse_unless_possible(config.implementer.model, task)
    refuse_unless_runnable(config.implementer, config.stop.budget)
    refuse_unless_read(config, task)
