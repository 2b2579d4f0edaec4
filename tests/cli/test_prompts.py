"""pace show RUN CANDIDATE --prompts: what the models were asked, word for word."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import anyio
import pytest
from tokenizers import Tokenizer

from pace_async.advise.prompts import ProseWording
from pace_async.advise.wording import Detail
from pace_async.config import Config
from pace_async.events import ImplementerCalled, ImplementerChosen, ImplementerReserved, ImplementerTry, TryEvaluated
from pace_async.implement.base import Experiment
from pace_async.implement.prompts import messages_for
from pace_async.population.store import Store
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.search.state import Member, SearchContext
from pace_async.task import load_task
from tests.support.command_line import Shell
from tests.support.population_facts import HEADER, advised, call, evaluated, fresh, new_idea, opened, seed_program

TASK = load_task("circle_packing")
MODEL, UNASKED = "openai/some-model", "openai/another"
SEED = Member(0, TASK.program, 0.9598)
PROMPT = ProseWording(TASK).propose(SearchContext(parent=SEED, best=SEED, ideas=()), Detail(), Random).text
ERROR = "NameError: name 'wrong' is not defined (line 1)"
TRIES = (
    ImplementerTry(1, MODEL, "no_code_block", "no code", None, "I would \x1b[31mrather not"),
    ImplementerTry(2, MODEL, "ok", "", "wrong + 1\n", None),
    ImplementerTry(3, MODEL, "ok", "Deviation: 1, not 2.", "right = 1\n", None),
)


async def _search(folder: Path) -> None:
    tokenizer = cast("Any", Tokenizer).from_file(str(TINY / "tokenizer.json"))
    asked = replace(call("propose"), prompt_ids=tuple(tokenizer.encode(PROMPT).ids))
    settings = Config().model_dump(mode="json")
    settings["advisor"] |= {"model": "tiny"}
    settings["implementer"] |= {"model": f"{MODEL}=2, {UNASKED}", "choice": "bandit"}
    header = replace(HEADER, task_digest=TASK.digest, config=settings)
    async with fresh(folder, header) as store:
        for lease, model in ((1, MODEL), (2, "catalog")):
            advice = advised(lease, ideas=(new_idea(lease, "a start\x1b[31m"),), idea=lease)
            await store.commit(
                opened(lease),
                replace(
                    advice, calls=(replace(asked, words={"Parent": "Sensor7"} if lease == 2 else {}), *advice.calls[1:])
                ),
                ImplementerReserved(lease, lease, model, 0.0, 1.0),
                ImplementerCalled(lease, model, "ok", 9, 9, 0.0, 1.0, 2.0, reservation=lease),
                evaluated(lease),
            )
        await store.commit(opened(3), replace(advised(3), calls=(asked, *advised(3).calls[1:])))
        await store.commit(ImplementerChosen(3, "tuning", MODEL, 0.625, 0.002, 2.0))
        for tried in TRIES:
            await store.commit(ImplementerCalled(3, MODEL, tried.outcome, 9, 9, 0.25, 1.0, 2.0, tried=tried))
        await store.commit(TryEvaluated(3, 2, "candidate_error", ERROR, 0.5, 2.5), evaluated(3))


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr(
        "tests.support.population_facts.seed_program", lambda: replace(seed_program(), program=TASK.program)
    )
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


def test_a_word_that_stands_for_another_is_shown_as_it_was_meant(shell: Shell) -> None:
    text = json.loads(shell.pace("show", "run", "2", "--prompts", "--json").out)["advisor"][0]["text"]
    assert text.removeprefix("<s>").strip() == PROMPT.strip().replace("Parent", "Sensor7") != PROMPT.strip()


def test_prompts_are_printed_and_cannot_control_the_terminal(shell: Shell) -> None:
    said = shell.pace("show", "run", "1", "--prompts").out
    assert "advisor, propose (" in said and "implementer, user" in said
    assert "    Carry out the experiment." in said.splitlines()
    assert "\x1b" not in said


def test_each_try_is_printed_with_the_question_after_it(shell: Shell) -> None:
    told = [line for line in shell.pace("show", "run", "3").out.splitlines() if line.startswith("try ")]
    assert told == [
        f"try 1 of {MODEL}: no code block: no code",
        f"try 2 of {MODEL}: a program, candidate_error: {ERROR}",
        f"try 3 of {MODEL}: a program, ok",
    ]
    corrected = [line for line in shell.pace("show", "run", "3").out.splitlines() if line.startswith("corrected")]
    assert [line.split(maxsplit=1)[1] for line in corrected] == ["Deviation: 1, not 2."]
    found = json.loads(shell.pace("show", "run", "3", "--prompts", "--json").out)
    first, second = found["repairs"]
    assert (first["number"], second["number"]) == (2, 3)
    assert "(no_code_block): no code." in first["content"] and TASK.program in first["content"]
    assert "NameError: name `wrong` is not defined" in second["content"] and "wrong + 1" in second["content"]
    said = shell.pace("show", "run", "3", "--prompts").out
    assert "implementer, try 3, user" in said
    assert "\x1b" not in said


def test_the_chosen_implementer_is_printed_with_the_reason_and_the_results(shell: Shell) -> None:
    told = shell.pace("show", "run", "3").out
    why = "a sampled rate of gains of 0.62 at 0.0020 USD"
    assert f"implementer     {MODEL}, chosen for tuning: {why}" in told.splitlines()
    assert json.loads(shell.pace("show", "run", "1", "--json").out)["chosen"] is None
    one = {"kind": "tuning", "model": MODEL, "rollouts": 1, "gains": 1, "usd": 0.75}
    none = {"kind": "tuning", "model": UNASKED, "rollouts": 0, "gains": 0, "usd": 0}
    assert json.loads(shell.pace("status", "run", "--json").out)["implementers"] == [none, one]
    lines = [line.split() for line in shell.pace("status", "run").out.splitlines()]
    assert ["tuning", MODEL, "1", "1", "0.7500"] in lines
    assert ["tuning", UNASKED, "0", "0", "0.0000"] in lines


def test_without_a_model_there_are_no_implementer_prompts(shell: Shell) -> None:
    found = json.loads(shell.pace("show", "run", "2", "--prompts", "--json").out)
    assert (found["messages"], found["note"]) == ([], "no model was asked to write the program")
    assert json.loads(shell.pace("show", "run", "0", "--prompts", "--json").out)["advisor"] == []


async def _other_run(folder: Path) -> None:
    async with Store.open(folder / "population.db", create=False) as store:
        await store.create_run(replace(HEADER, name="other"))


def test_prompts_are_those_of_the_folder_s_run_in_a_population_of_several(shell: Shell) -> None:
    alone = shell.pace("show", "run", "1", "--prompts", "--json").out
    anyio.run(_other_run, shell.folder / "run")
    (shell.folder / "run" / "population.url").write_text(f"sqlite:///{shell.folder}/run/population.db\ndemo\n")
    assert shell.pace("show", "run", "1", "--prompts", "--json").out == alone


def test_prompts_of_islands_are_refused(shell: Shell) -> None:
    said = shell.pace("show", "run", "--islands", "--prompts")
    assert (said.code, said.out) == (2, "")
    assert "--islands shows the state of the islands: leave the candidate and --prompts out." in said.err
