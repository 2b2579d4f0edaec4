"""Chooses the advisor of a run for its task, and says how an advisor serves a task.

The choice is among the advisors of the package: the first that knows the task's catalogue, else the first that can read
it. Where none does and a model writes the programs, that model advises too. A run's row holds the advisor that was
chosen, so a resume has the same. An advisor knows a catalogue if its folder lists it in KNOWN, word for word, and the
task's programs are in the language of its training.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from pace_async.advise.chat import thinks, uses_template
from pace_async.advise.text_part import has_more_than_text, text_bytes
from pace_async.config import Config
from pace_async.config.advisor import LONGEST_OF_CHAT, LONGEST_OF_ONE, LONGEST_OF_THINKING, AdvisorConfig
from pace_async.errors import UsageError
from pace_async.implement.assemble import (
    only_edits,
    refuse_missing_mechanisms,
    refuse_unless_possible,
    refuse_unused_block,
)
from pace_async.implement.shares import models_of
from pace_async.registry.advisors import ADVISORS, API, advisor_of, asked_model
from pace_async.registry.engines import engine_of
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.children.catalogue_reading import (
    KNOWN,
    options_of,
    read_by,
    reads_catalogues,
    refuse_unless_read,
)
from pace_async.runtime.children.hub_cache import is_hub_id, pinned
from pace_async.task import Task

Fit = Literal["knows", "reads", "any", "lacks", "unable"]
"""How an advisor serves a task: it knows its catalogue, reads it, is asked in prose, was trained on other catalogues,
or cannot serve it."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How the advisor `model` serves a task. `said` is a clause about `it`, as in `it knows the catalogue`, empty if
    there is nothing to say. Of an advisor that is unable it is the sentence of the refusal."""

    model: str
    fit: Fit
    said: str

    @property
    def bad(self) -> bool:
        """Whether most of its experiments could not be implemented."""
        return self.fit in ("lacks", "unable")


def choose(servings: Iterable[Serving], *, edits_only: bool) -> Serving:
    """The advisor for a task: the first that knows its catalogue, else the first that reads it, else the first that
    can be asked at all. Later servings are not looked at after one that knows the catalogue. `edits_only`: all programs
    are edits by the catalogue, so a catalogue that no advisor reads is refused. Raises UsageError."""
    others: list[Serving] = []
    for serving in servings:
        if serving.fit == "knows":
            return serving
        others.append(serving)
    if reading := [serving for serving in others if serving.fit == "reads"]:
        return reading[0]
    unable = [serving for serving in others if serving.fit == "unable"]
    if unable and edits_only:
        raise UsageError(unable[0].said)
    return next(serving for serving in others if serving.fit != "unable")


def serving_of(model: str, task: Task) -> Serving:
    """How this advisor serves the task. Raises UsageError for a folder that holds no model, and a catalogue that is
    no catalogue."""
    folder = advisor_folder(model)
    if reads_catalogues(folder):
        try:
            return Serving(model, "reads", f"it reads the catalogue: {read_by(model, task)}")
        except UsageError as error:
            return Serving(model, "unable", str(error))
    file = folder / KNOWN
    if not file.is_file():
        return Serving(model, "any", "")
    known = json.loads(file.read_text("utf-8"))
    if task.catalogue_path is None:
        clause = "it reads catalogues only, and the task has none: name a language model by --advisor"
        return Serving(model, "lacks", clause)
    if knows(known, options_of(model, task), task.spec.language):
        return Serving(model, "knows", "it knows the catalogue")
    clause = "it was trained on other catalogues, and most of its experiments will fail: leave --advisor out"
    return Serving(model, "lacks", clause)


def knows(known: Mapping[str, Any], options: Mapping[str, Sequence[str]], language: str) -> bool:
    """Whether a list of known catalogues has this one, in any order."""
    words = {name: sorted(choices) for name, choices in options.items()}
    return language == known["language"] and any(
        words == {name: sorted(map(str, choices)) for name, choices in catalogue.items()}
        for catalogue in known["catalogues"].values()
    )


def with_advisor(config: Config, task: Task) -> Config:
    """The configuration with the advisor that it names, or the one chosen for the task. A model of the hub gets its
    commit, and a chat model its longest answer. Raises UsageError."""
    model = config.advisor.model
    kind = advisor_of(model)
    if config.advisor.writes_code:
        _refuse_unless_writer(model)
    if not kind.chosen_for_task:
        refuse_noise(config, task)
        if kind.served and not kind.packaged and is_hub_id(model):
            config = _advised_by(config, pinned(model))
        if kind.served and not config.advisor.writes_code and reads_catalogues(advisor_folder(config.advisor.model)):
            config = config.model_copy(update={"search": config.search.model_copy(update={"memory": "pool"})})
        return _with_budget(config) if kind.served and not kind.packaged else config
    packaged = [name for name, kind in ADVISORS.items() if kind.packaged]
    if engine_of(config.advisor.engine).runs_already:  # its tokenizer cannot learn the words of a catalogue
        packaged = [name for name in packaged if not reads_catalogues(advisor_folder(name))]
    edits_only = task.catalogue_path is not None and only_edits(config.implementer.model)
    chosen = choose((serving_of(name, task) for name in packaged), edits_only=edits_only)
    models = models_of(config.implementer.model)
    if chosen.bad and models and not engine_of(config.advisor.engine).runs_already:
        return _advised_by_implementer(config, models[0])
    if chosen.bad and not only_edits(config.implementer.model):
        raise UsageError(
            f"No advisor of the package reads task {task.name!r}, so an agent would be told nothing of use: name a "
            f"language model, as in --advisor {API}MODEL."
        )
    return _advised_by(config, chosen.model)


def _refuse_unless_writer(model: str) -> None:
    """Raises UsageError for an advisor that knows no more than the words of catalogues, or none."""
    kind = advisor_of(model)
    if not kind.asks_in_prose or (kind.served and reads_catalogues(advisor_folder(model))):
        clause = "no advisor of the package does" if kind.chosen_for_task else f"--advisor {model} does not"
        raise UsageError(
            f"With advisor.role end_to_end the advisor writes code, and {clause}: name a language model, as in "
            f"--advisor DIR or --advisor {API}MODEL."
        )


def refuse_noise(config: Config, task: Task) -> None:
    """Raises UsageError for an advisor of the package that does not know the task's catalogue, where a model or an
    agent writes the programs: it would be paid for reading noise."""
    model = config.advisor.model
    if not advisor_of(model).packaged or only_edits(config.implementer.model):
        return
    if serving_of(model, task).fit == "lacks":
        has = "has another" if task.catalogue_path is not None else "has none"
        raise UsageError(
            f"--advisor {model} knows only the catalogues that it was trained on, and task {task.name!r} {has}: leave "
            f"--advisor out, and a model of --implementer advises too, or name a language model, as in --advisor "
            f"{API}MODEL."
        )


def _advised_by_implementer(config: Config, model: str) -> Config:
    """The configuration with the implementer's model as advisor, at the same address, for the same prices and with the
    same options, where the user gave the advisor none. An advisor of the package would write noise about a task whose
    catalogue it cannot read, and the implementer would be paid for reading it."""
    overrides = config.advisor.model_dump(exclude_unset=True)
    names = {"api_base", "options", "timeout_s", "deadline_s", "price_per_million_in", "price_per_million_out"}
    shared = {name: getattr(config.implementer, name) for name in names}
    advisor = {**shared, **overrides, "model": f"{API}{model}"}
    stated = config.model_dump(exclude_unset=True)
    search = {**stated.get("search", {}), "memory": "auto"}  # what it meant was decided for an advisor of the package
    try:
        return Config.model_validate({**stated, "search": search, "advisor": advisor})
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(
            f"No advisor of the package reads this task, and the implementer's model cannot advise: {reason}; name an "
            "advisor by --advisor."
        ) from None


def _with_budget(config: Config) -> Config:
    """The configuration with the longest answer, where it names none and the model is a chat model: at most half of the
    context. Raises UsageError if the longest answer leaves no room for a question."""
    advisor, folder = config.advisor, advisor_folder(config.advisor.model)
    context = context_of(advisor, folder)
    if advisor.max_tokens is None and (advisor.writes_code or uses_template(advisor, folder)):
        long = advisor.writes_code or thinks(advisor, folder)
        usual = LONGEST_OF_THINKING if long else LONGEST_OF_CHAT
        if advisor.calls == "one" and config.search.remembers != "pool":
            usual = max(usual, LONGEST_OF_ONE)
        longest = usual if context is None else max(8, min(usual, context // 2))
        config = config.model_copy(update={"advisor": advisor.model_copy(update={"max_tokens": longest})})
    longest = config.advisor.longest_answer
    if context is not None and longest >= context:
        raise UsageError(
            f"--advisor {advisor.model} has a context of {context} tokens, and an answer may have {longest}: there is "
            "no room for a question; lower advisor.max_tokens."
        )
    return config


def context_of(advisor: AdvisorConfig, folder: Path) -> int | None:
    """Tokens of question and answer together that a served model takes: its positions, or less if vLLM is told so. None
    if its configuration does not say. Raises UsageError."""
    try:
        configuration: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"{folder / 'config.json'} is not JSON ({error}): make the folder again.") from None
    positions = (configuration.get("text_config") or configuration).get("max_position_embeddings")
    words = " ".join(advisor.engine_arguments).replace("=", " ").split()
    limits = [int(after) for word, after in pairwise(words) if word == "--max-model-len" and after.isdecimal()]
    known = [*limits, *([positions] if isinstance(positions, int) else [])]
    return min(known, default=None)


def _advised_by(config: Config, model: str) -> Config:
    return config.model_copy(update={"advisor": config.advisor.model_copy(update={"model": model})})


def in_words(config: Config, task: Task, *, chosen: bool) -> str:
    """The advisor of a run and how it serves the task, for one line. `chosen`: the run has chosen it."""
    kind = advisor_of(config.advisor.model)
    if not kind.has_model:
        return f"{kind.name}, without a model; nothing is trained; it reads the catalogue: {read_by(kind.name, task)}"
    if kind.asked:
        clause = _in_prose(config, task)
        also = ", the implementer's model" if chosen else ""
        words = f"{asked_model(config.advisor.model)}{also}, asked over the network{_writes(config)}; it learns nothing"
        return words + (f"; {clause}" if clause else "")
    serving = serving_of(config.advisor.model, task)
    clause = _in_prose(config, task) if serving.fit == "any" else serving.said
    parts = (
        serving.model,
        "chosen for this task" if chosen else "",
        f"served by {config.advisor.engine}{_writes(config)}",
        _text_part(config),
    )
    return ", ".join(part for part in parts if part) + (f"; {clause}" if clause else "")


def _writes(config: Config) -> str:
    return ", writes the code itself" if config.advisor.writes_code else ""


def _text_part(config: Config) -> str:
    folder = advisor_folder(config.advisor.model)
    if engine_of(config.advisor.engine).runs_already or not has_more_than_text(folder):
        return ""
    size = text_bytes(folder) / 2**30
    return f"its text part{f' ({size:,.1f} GiB)' if size else ''} is copied to the run's folder"


def _fit(model: str, task: Task) -> Fit:
    kind = advisor_of(model)
    if not kind.has_model:
        return "reads"
    return "any" if kind.asked else serving_of(model, task).fit


def _in_prose(config: Config, task: Task) -> str:
    """What an advisor that is asked in prose means for the configured implementer. Nothing where any idea can be
    carried out."""
    if task.catalogue_path is None or not only_edits(config.implementer.model):
        return ""
    return (
        "it does not see the catalogue, and only experiments that name one of its mechanisms and options can be "
        "implemented: name a model by --implementer"
    )


@dataclass(frozen=True, slots=True)
class RoleVerdict:
    """Whether the named advisor or the named implementer can serve a task. `found` is a sentence. `ok` False: a run
    refuses it. `doubtful`: a run begins and says the same sentence, because many of its experiments may fail."""

    role: Literal["advisor", "implementer"]
    model: str
    ok: bool
    found: str
    doubtful: bool = False


def served_by(config: Config, task: Task) -> tuple[RoleVerdict, RoleVerdict]:
    """What a run would say at its start of the advisor and of the implementer, without running or asking either.

    What a run refuses is not ok. What a run only warns of is doubtful: the names of a catalogue stand in the programs
    too, so a model that is asked in prose may name them.
    """
    implementer = config.implementer.model
    try:
        refuse_unless_possible(implementer, task)
        refuse_missing_mechanisms(implementer, task)
        refuse_unused_block(implementer, task)
        implementer_verdict = RoleVerdict("implementer", implementer, True, "it can be made for this task")
    except UsageError as error:
        implementer_verdict = RoleVerdict("implementer", implementer, False, str(error))
    try:
        chosen = with_advisor(config, task)
        model = chosen.advisor.model
        refuse_unless_read(chosen, task)
        fit = _fit(model, task)
        sentence = in_words(chosen, task, chosen=advisor_of(config.advisor.model).chosen_for_task)
        doubtful = fit == "lacks" or (fit == "any" and _in_prose(chosen, task) != "")
        return RoleVerdict("advisor", model, fit != "unable", sentence, doubtful), implementer_verdict
    except UsageError as error:
        return RoleVerdict("advisor", config.advisor.model, False, str(error)), implementer_verdict
