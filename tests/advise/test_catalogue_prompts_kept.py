"""Prompts of advisors that read a catalogue are those that they were trained on, whatever else a block holds.

`prompts_kept.json` holds what the prompts said when the blocks of the bundled tasks held settings only: whole texts for
three tasks, digests for the others. Not kept is what `tiny` was asked about columnar: its block held a function then,
which was shown, and `tiny` does not know its catalogue.
"""

import json
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from pace_async.advise.wording import Detail
from pace_async.config import Config
from pace_async.implement.catalogue import Catalogue, MechanismEdit, apply_edit, load_catalogue
from pace_async.runtime.children.catalogue_reading import wording_for
from pace_async.search.state import Idea, Member, SearchContext, Trial
from pace_async.task import Task, editable, load_task, task_folders

KEPT = Path(__file__).with_name("prompts_kept.json")
WHOLE = ("circle_packing", "eplb", "multi_evolve")
"""Tasks whose texts are kept as they are."""
LAST = Detail(results=False, best=False, ideas_left_out=9)
"""So short that only the longest text can be cut."""
TASKS = sorted(name for name, folder in task_folders().items() if (folder / "catalogue.yaml").is_file())


def changed(task: Task, edits: list[MechanismEdit]) -> str:
    before, block, after = editable(task.program)
    for edit in edits:
        block = apply_edit(block, edit, task.spec.written_in)
    return before + block + after


def contexts(task: Task, catalogue: Catalogue) -> Iterator[SearchContext]:
    """The seed program alone, and a parent with a better program beside it and ideas that were tried."""
    seed = Member(0, task.program, 1.25)
    yield SearchContext(seed, seed, ())
    names = list(catalogue.targets)
    edits: list[MechanismEdit] = []
    for place, (target, mechanism) in enumerate(catalogue.targets.items()):
        site = target.rpartition(" ")[0] or None
        edits.append(MechanismEdit(mechanism.name, mechanism.options[(place + 1) % len(mechanism.options)], site))
    parent = Member(3, changed(task, edits[::2]), 1.5)
    best = Member(7, changed(task, edits[1::3]), 2.125)
    ideas = (
        Idea(2, f"{names[0]} to {catalogue.targets[names[0]].options[1]} helps.", (Trial(3, "", "ok", 2.5),)),
        Idea(4, f"{names[1]} to {catalogue.targets[names[1]].options[-1]} helps.", (Trial(5, "", "timeout", None),)),
        Idea(5, f"{names[-1]} to {catalogue.targets[names[-1]].options[1]} helps."),
    )
    yield SearchContext(parent, best, ideas)


def prompts(name: str) -> dict[str, str]:
    """Every question that an advisor may be asked, by advisor and kind."""
    task = load_task(name)
    assert task.catalogue_path is not None
    catalogue = load_catalogue(task.catalogue_path)
    found: dict[str, str] = {}
    for number, context in enumerate(contexts(task, catalogue)):
        proposals = [idea.description for idea in context.ideas] or ["one more helps."]
        for model, word in (("tiny", "site"), ("reader", "site"), ("reader", "mechanism")):
            if (model, name) == ("tiny", "columnar"):
                continue
            config = Config.model_validate({"advisor": {"model": model, "first_word": word}})
            wording = wording_for(config, task)
            assert wording is not None
            for shown, detail in (("", Detail()), (" short", Detail(results=False, best=False, longest=200))):
                found[f"{model} {word} propose {number}{shown}"] = wording.propose(
                    context, detail, lambda: random.Random(1)
                ).text
            found[f"{model} {word} only {number}"] = wording.only(context, Detail(), lambda: random.Random(2)).text
            found[f"{model} {word} assess {number}"] = wording.assess(context, proposals, Detail()).text
            found[f"{model} {word} select {number}"] = wording.select(context, Detail()).text
            found[f"{model} {word} shorter {number}"] = str(wording.shorter(context, proposals, LAST, 9))
    return found


def kept_form(name: str, found: dict[str, str]) -> dict[str, str]:
    return found if name in WHOLE else {key: sha256(text.encode()).hexdigest()[:16] for key, text in found.items()}


@pytest.mark.parametrize("name", TASKS)
def test_an_advisor_of_the_catalogue_is_asked_what_it_was_trained_on(name: str) -> None:
    assert kept_form(name, prompts(name)) == json.loads(KEPT.read_text())[name]


def test_prompts_of_every_task_with_a_catalogue_are_kept() -> None:
    assert sorted(json.loads(KEPT.read_text())) == TASKS


@pytest.mark.parametrize("name", TASKS)
def test_an_advisor_of_the_catalogue_is_shown_no_code(name: str) -> None:
    task = load_task(name)
    assert task.catalogue_path is not None
    assert f"def {task.spec.entry}(" in editable(task.program)[1]
    for context in contexts(task, load_catalogue(task.catalogue_path)):
        for model in ("tiny", "reader"):
            wording = wording_for(Config.model_validate({"advisor": {"model": model}}), task)
            assert wording is not None
            assert "def " not in wording.propose(context, Detail(), lambda: random.Random(1)).text
