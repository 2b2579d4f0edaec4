"""What a run does for an advisor that reads the task's catalogue, in its prompt or without a model.

One that reads it in its prompt needs a catalogue whose words it can bind, a folder of its own in which they are bound,
and its own wording of the questions. One that knows catalogues by heart is asked in prose and shown the settings, never
the rest of a block. Every other model is served as it is given and asked in prose.
"""

from collections.abc import Mapping
from pathlib import Path

from pace_async.advise.advisor import Chooser
from pace_async.advise.binding import Options, bound_folder, bound_tokenizer, slots_of, spare_entries
from pace_async.advise.catalogue_wording import MENU, MENU_ALTERNATIVES, CatalogueWording, is_listed_whole
from pace_async.advise.settings_wording import SettingsWording
from pace_async.advise.text_part import has_more_than_text, text_part
from pace_async.advise.wording import Wording
from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.implement.catalogue import load_catalogue
from pace_async.learn.rebuild import given_optimizer
from pace_async.registry.advisors import advisor_of
from pace_async.registry.engines import engine_of
from pace_async.registry.trainers import TRAINERS
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.run_paths import RunPaths
from pace_async.task import Task
from pace_async.weights import is_complete

KNOWN = "knows_catalogues.json"
"""File of an advisor that was trained on some catalogues and knows them by heart."""


def reads_catalogues(folder: Path) -> bool:
    """Whether the advisor of this folder reads the task's catalogue in its prompt."""
    return spare_entries(folder) is not None


def read_by(model: str, task: Task) -> str | None:
    """How this advisor reads the task's catalogue, in words. None for an advisor that reads no catalogues. Raises
    UsageError for a catalogue that it cannot read."""
    kind = advisor_of(model)
    if kind.asked:
        return None
    if not kind.has_model:
        return _in_words(options_of(model, task), {}, "lease")
    folder = advisor_folder(model)
    if spare_entries(folder) is None:
        return None
    options = options_of(model, task)
    bound_tokenizer(folder, options)
    return _in_words(options, slots_of(folder, options).shared, "prompt")


def _in_words(options: Options, shared: Mapping[str, str], each: str) -> str:
    """How large the catalogue is, and what is listed for each prompt or lease."""
    sites = sum(" " in target for target in options)
    words = f"{len(options)} mechanisms{f' ({sites} of them at sites)' if sites else ''}, "
    words += f"{sum(map(len, options.values()))} options"
    if is_listed_whole(options, shared):
        return f"{words}: each {each} lists every alternative"
    return f"{words}: each {each} lists a random menu, {MENU} mechanisms with {MENU_ALTERNATIVES} alternatives each"


def refuse_unless_read(config: Config, task: Task) -> None:
    """Raises UsageError for an advisor that reads catalogues and cannot read this task's, or is served by engines that
    run already: their tokenizer does not know the catalogue's words. One of the package that reads none was trained on
    three calls a rollout, and is refused one. None of them has a use for a memory of results."""
    read = read_by(config.advisor.model, task)
    if read is None and advisor_of(config.advisor.model).packaged and config.advisor.calls == "one":
        raise UsageError(
            f"--advisor {config.advisor.model} was trained on three calls a rollout and cannot answer one: leave "
            "advisor.calls out, or take --advisor reader."
        )
    alone = read is not None or not advisor_of(config.advisor.model).asks_in_prose
    if alone and config.search.remembers != "pool":
        raise UsageError(
            f"search.memory {config.search.memory} is for language models, and --advisor {config.advisor.model} has a "
            "wording of its own: leave search.memory out."
        )
    if read is not None and engine_of(config.advisor.engine).runs_already:
        raise UsageError(
            f"--advisor {config.advisor.model} reads the task's catalogue, whose words a run binds at its start: "
            f"--engine {config.advisor.engine} runs already and does not know them; take embedded or vllm."
        )


def run_folder(config: Config, paths: RunPaths, task: Task) -> Path:
    """The folder of version 0 for this run: the advisor's own, a copy bound to the task's catalogue, the text part of a
    model that has others, or the copy of a version that another run trained. Raises UsageError."""
    if config.advisor.start_from is not None:
        if not is_complete(paths.advisor):
            raise UsageError(
                f"{paths.advisor} is gone, which holds version 0 of the run: copy {config.advisor.start_from} there."
            )
        if config.advisor.start_optimizer == "kept" and not is_complete(folder := given_optimizer(paths.learner)):
            raise UsageError(f"{folder} is gone, which holds the optimizer of version 0: put it back from a copy.")
        return paths.advisor
    folder = advisor_folder(config.advisor.model)
    if TRAINERS[config.learner.trainer].elsewhere:
        return folder
    if has_more_than_text(folder):
        return text_part(folder, paths.advisor)
    if spare_entries(folder) is None:
        return folder
    return bound_folder(folder, options_of(config.advisor.model, task), paths.advisor)


def wording_for(config: Config, task: Task) -> Wording | None:
    """The advisor's own wording, or None for prose."""
    if not advisor_of(config.advisor.model).served:
        return None
    folder = advisor_folder(config.advisor.model)
    if (folder / KNOWN).is_file() and task.catalogue_path is not None:
        mechanisms = load_catalogue(task.catalogue_path).mechanisms
        return SettingsWording(task, (name for mechanism in mechanisms for name in mechanism.assigned))
    if spare_entries(folder) is None:
        return None
    options = options_of(config.advisor.model, task)
    shared = slots_of(folder, options).shared
    return CatalogueWording(
        options,
        task.spec.fitness,
        task.spec.written_in,
        shared,
        mechanism_first=config.advisor.first_word == "mechanism",
    )


def chooser_for(config: Config, task: Task) -> Chooser | None:
    """The advisor, if it has no model. Raises UsageError for a task without a catalogue."""
    kind = advisor_of(config.advisor.model)
    if kind.has_model:
        return None
    return kind.load()(options_of(kind.name, task), task.spec.written_in)


def options_of(model: str, task: Task) -> Mapping[str, tuple[str, ...]]:
    """The words of each mechanism's options. Raises UsageError for a task without a catalogue or with a bad one."""
    if task.catalogue_path is None:
        raise UsageError(
            f"Task {task.name!r} has no catalogue, which --advisor {model} reads: name another advisor by --advisor, "
            "or a catalogue in task.yaml."
        )
    catalogue = load_catalogue(task.catalogue_path)
    words = {mechanism.name: tuple(map(str, mechanism.options)) for mechanism in catalogue.mechanisms}
    return {target: words[mechanism.name] for target, mechanism in catalogue.targets.items()}
