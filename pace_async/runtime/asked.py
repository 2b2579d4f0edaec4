"""What was asked for one candidate, as the models saw it: the advisor's prompts, and the implementer's messages.

The advisor's come from the tokens that the rows keep. The implementer's are put together again from the parent, the
idea and the experiment, by the code that put them together then; where the task has been changed since, its words are
those of now, and that is said.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.events import ImplementerTry, RunHeader
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import messages_for
from pace_async.population.reader import Reader
from pace_async.runtime.models import advisor_folder
from pace_async.search.state import Member
from pace_async.task import load_task


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to the advisor and its answer. `tokens` counts the question's."""

    purpose: str
    tokens: int
    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class Again:
    """What the implementer was asked after a failed try: `number` is that of the try that came of it, `content` what
    the last of its messages said. The others were as before."""

    number: int
    content: str


@dataclass(frozen=True, slots=True)
class Asked:
    """`messages` are the implementer's, role and content; none where it was asked nothing, and `note` says why, or what
    about them is not as it was then. `repairs` are what it was asked when a try had failed."""

    advisor: tuple[Prompt, ...]
    messages: tuple[Mapping[str, str], ...]
    note: str
    repairs: tuple[Again, ...] = ()


def asked_for(reader: Reader, candidate: int) -> Asked:
    """Raises UsageError where there is no such candidate, or where the advisor's tokenizer or the task is gone."""
    header, found = reader.header(), reader.show(candidate)
    prompts = reader.advisor_prompts(candidate)
    advisor: tuple[Prompt, ...] = ()
    if prompts:
        tokenizer = _tokenizer(Config.model_validate(header.config).advisor.model)
        advisor = tuple(
            Prompt(call["purpose"], len(ids), tokenizer.decode(list(ids), skip_special_tokens=False), call["text"])
            for call, ids in zip(found["calls"], prompts, strict=True)
        )
    if not any(call["model"] != "catalog" for call in found["implementer_calls"]):
        return Asked(advisor, (), "no model was asked to write the program")
    parent = reader.show(found["parent"])
    return Asked(advisor, *_messages(header, found, Member(found["parent"], parent["program"], parent["score"])))


def _messages(
    header: RunHeader, found: dict[str, Any], parent: Member
) -> tuple[tuple[Mapping[str, str], ...], str, tuple[Again, ...]]:
    task = load_task(header.task)
    changed = "" if task.digest == header.task_digest else "the task has changed since; its words are those of now"
    experiment = Experiment(found["candidate"], found["idea"] or "", found["experiment"])
    tries = tuple(ImplementerTry(**tried) for tried in found["tries"])
    repairs = (
        Again(number + 1, messages_for(task, parent, replace(experiment, tries=tries[:number]))[-1]["content"])
        for number in range(1, len(tries))
    )
    return messages_for(task, parent, experiment), changed, tuple(repairs)


def _tokenizer(model: str) -> Any:
    from tokenizers import Tokenizer

    file = advisor_folder(model) / "tokenizer.json"
    if not file.is_file():
        raise UsageError(f"The advisor's prompts cannot be read: {file} is not there.")
    return cast("Any", Tokenizer).from_file(str(file))
