"""The prompts of one candidate as the models saw them: the advisor's prompts and the implementer's messages.

The advisor's come from the tokens or the texts in the rows. The implementer's are rebuilt from the parent, the idea and
the experiment by the code that first built them. If the task has changed since, they hold its present text, with a
note.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pace_async.advise.in_context import reasoning_of
from pace_async.advise.wording import read_words
from pace_async.configure import recorded
from pace_async.context.briefing import MOST_NAMED, Briefing, named_candidates
from pace_async.errors import UsageError
from pace_async.events import AdvisorCall, ImplementerTry, Practised, RunHeader
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import MessagesFor
from pace_async.population.reading.read_facts import advice_of
from pace_async.population.reading.reader import Reader
from pace_async.registry.implementers import implementer_of
from pace_async.runtime.children.advisor_folder import advisor_folder
from pace_async.runtime.run.core import prompts_of
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start.surroundings import surroundings_of
from pace_async.search.state import Member
from pace_async.task import task_of_run


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to the advisor and its answer. `tokens` counts the question's, None if they are not known."""

    purpose: str
    tokens: int | None
    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class Again:
    """A question to the implementer after a failed try. `number` is the number of the following try, `content` the last
    message. The other messages are those of the first question."""

    number: int
    content: str


@dataclass(frozen=True, slots=True)
class CandidatePrompts:
    """All prompts of one candidate. `messages` are the implementer's, role and content, empty if it was not asked.
    `note` gives the reason, or the difference from the messages at that time. `repairs` are the questions after failed
    tries."""

    advisor: tuple[Prompt, ...]
    messages: tuple[Mapping[str, str], ...]
    note: str
    repairs: tuple[Again, ...] = ()


def asked_for(paths: RunPaths, reader: Reader, candidate: int) -> CandidatePrompts:
    """The prompts of a candidate of the run at `paths`. Raises UsageError if there is no such candidate, or if the
    advisor's tokenizer or the task is missing."""
    header, details = reader.header(), reader.show(candidate)
    advice = reader.ask(advice_of, [candidate]).get(candidate)
    calls = advice.calls if advice is not None else ()
    advisor: tuple[Prompt, ...] = ()
    if calls and all(call.prompt is not None for call in calls):
        advisor = tuple(Prompt(call.purpose, None, str(call.prompt), call.text) for call in calls)
    elif calls:
        tokenizer = _tokenizer(paths, recorded(header.config).advisor.model)
        texts = (tokenizer.decode(list(call.prompt_ids), skip_special_tokens=False) for call in calls)
        advisor = tuple(
            Prompt(call.purpose, len(call.prompt_ids), read_words(text, call.words), call.text)
            for call, text in zip(calls, texts, strict=True)
        )
    kinds = [implementer_of(call["model"]) for call in details["implementer_calls"]]
    prompts = next((kind.prompts for kind in kinds if kind.prompts), None)
    if prompts is None:
        by_advisor = recorded(header.config).advisor.writes_code
        note = "the advisor wrote the program itself" if by_advisor else "no model was asked to write the program"
        return CandidatePrompts(advisor, (), note)
    parent = reader.show(details["parent"])
    practice = Practised(**parent["practice"]) if parent["practice"] is not None else None
    member = Member(details["parent"], parent["program"], parent["score"], parent["feedback"], practice)
    briefing = _briefing(reader, header, details, calls) if header.prompts_digest is not None else None
    return CandidatePrompts(advisor, *_messages(prompts(), header, details, member, briefing))


def _briefing(reader: Reader, header: RunHeader, details: Mapping[str, Any], calls: Sequence[AdvisorCall]) -> Briefing:
    """What the author was told besides, without the errors of earlier experiments on the parent."""
    config = recorded(header.config)
    task = task_of_run(header)
    prompts = prompts_of(config, task, surroundings_of(task))
    reasoning = reasoning_of(calls, config.advisor.calls == "one", details["idea"] or "")
    members, missing = list[Member](), list[int]()
    for candidate in named_candidates(details["experiment"] or ""):
        row = reader.show(candidate) if candidate < details["candidate"] else None
        if row is not None and row["score"] is not None and candidate != details["parent"]:
            members.append(Member(candidate, row["program"], row["score"]))
        elif candidate != details["parent"]:
            missing.append(candidate)
    mentions = tuple(members[:MOST_NAMED]), tuple(missing[:MOST_NAMED])
    return Briefing(prompts, reasoning, *mentions, specification=details["experiment"] or "")


def _messages(
    messages_for: MessagesFor, header: RunHeader, details: dict[str, Any], parent: Member, briefing: Briefing | None
) -> tuple[tuple[Mapping[str, str], ...], str, tuple[Again, ...]]:
    task = task_of_run(header)
    changed = "" if task.digest == header.task_digest else "the task has changed since; its texts are the present ones"
    if briefing is not None:
        left_out = "errors of earlier experiments on the parent are left out"
        changed = f"{changed}; {left_out}" if changed else left_out
    experiment = Experiment(details["candidate"], details["idea"] or "", details["experiment"], briefing=briefing)
    tries = tuple(ImplementerTry(**attempt) for attempt in details["tries"])
    repairs = (
        Again(number + 1, messages_for(task, parent, replace(experiment, tries=tries[:number]))[-1]["content"])
        for number in range(1, len(tries))
    )
    return messages_for(task, parent, experiment), changed, tuple(repairs)


def _tokenizer(paths: RunPaths, model: str) -> Any:
    """The tokenizer of the run's own advisor, if one is bound to the task's catalogue, else the model's."""
    from tokenizers import Tokenizer

    bound = paths.advisor / "tokenizer.json"
    file = bound if bound.is_file() else advisor_folder(model) / "tokenizer.json"
    if not file.is_file():
        raise UsageError(f"The advisor's prompts cannot be read: {file} is not there.")
    return cast("Any", Tokenizer).from_file(str(file))
