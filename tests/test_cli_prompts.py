"""pace show RUN CANDIDATE --prompts: what the models were asked, word for word."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from tokenizers import Tokenizer

from pace_async.advise.prompts import propose_prompt
from pace_async.config import Config
from pace_async.events import ImplementerCalled, ImplementerReserved
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import messages_for
from pace_async.runtime.models import TINY
from pace_async.search.state import Member, SearchContext
from pace_async.task import load_task
from tests.command_line import Shell
from tests.population_facts import HEADER, advised, call, evaluated, fresh, new_idea, opened, seed_program

TASK = load_task("circle_packing")
MODEL = "openai/some-model"
SEED = Member(0, TASK.program, 0.9598)
PROMPT = propose_prompt(TASK, SearchContext(parent=SEED, best=SEED, ideas=()))


async def _search(folder: Path) -> None:
    tokenizer = cast("Any", Tokenizer).from_file(str(TINY / "tokenizer.json"))
    asked = replace(call("propose"), prompt_ids=tuple(tokenizer.encode(PROMPT).ids))
    header = replace(HEADER, task_digest=TASK.digest, config=Config().model_dump(mode="json"))
    async with fresh(folder, header) as store:
        for lease, model in ((1, MODEL), (2, "catalog")):
            advice = advised(lease, ideas=(new_idea(lease, "a start\x1b[31m"),), idea=lease)
            await store.commit(
                opened(lease),
                replace(advice, calls=(asked, *advice.calls[1:])),
                ImplementerReserved(lease, lease, model, 0.0, 1.0),
                ImplementerCalled(lease, model, "ok", 9, 9, 0.0, 1.0, 2.0, reservation=lease),
                evaluated(lease),
            )


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr("tests.population_facts.seed_program", lambda: replace(seed_program(), program=TASK.program))
    anyio.run(_search, folder)
    return Shell(tmp_path, monkeypatch, capsys)


def test_the_advisor_s_prompt_and_the_implementer_s_messages_are_those_that_were_sent(shell: Shell) -> None:
    found = json.loads(shell.pace("show", "run", "1", "--prompts", "--json").out)
    first = found["advisor"][0]
    assert [prompt["purpose"] for prompt in found["advisor"]] == ["propose", "assess", "select"]
    assert first["text"].removeprefix("<s>").strip() == PROMPT.strip()
    assert first["answer"] == "Idea 1"
    experiment = Experiment(1, "a start\x1b[31m", 'Change layout to "hex".')
    assert found["messages"] == [dict(message) for message in messages_for(TASK, SEED, experiment)]
    assert found["note"] == ""


def test_a_person_reads_them_and_the_terminal_obeys_none(shell: Shell) -> None:
    said = shell.pace("show", "run", "1", "--prompts").out
    assert "advisor, propose (" in said and "implementer, user" in said
    assert "    Carry out the experiment." in said.splitlines()
    assert "\x1b" not in said


def test_without_a_model_that_writes_there_is_nothing_to_show_of_it(shell: Shell) -> None:
    found = json.loads(shell.pace("show", "run", "2", "--prompts", "--json").out)
    assert (found["messages"], found["note"]) == ([], "no model was asked to write the program")
    assert json.loads(shell.pace("show", "run", "0", "--prompts", "--json").out)["advisor"] == []


def test_prompts_of_islands_are_refused(shell: Shell) -> None:
    said = shell.pace("show", "run", "--islands", "--prompts")
    assert (said.code, said.out) == (2, "")
    assert "Say which candidate to show, or --islands." in said.err
