"""Ideas of people from outside: put in beside the run's own commits, each once, and listed with what came of them."""

import json
import re
import sqlite3
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import pace_async
from pace_async.errors import UsageError
from pace_async.events import IdeaGiven, RunStateChanged
from pace_async.events.people import GIVEN
from pace_async.population.checking import check_population
from pace_async.population.reading.inbox import untaken
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from tests.support.command_line import Shell
from tests.support.finished_runs import make_run
from tests.support.population_facts import HEADER, advised, evaluated, fresh, new_idea, opened


@asynccontextmanager
async def remembering(folder: Path) -> AsyncGenerator[tuple[Store, pace_async.Run]]:
    """A run whose models read ideas in words."""
    config = {**HEADER.config, "search": {"memory": "run"}}
    async with fresh(folder, replace(HEADER, config=config)) as store:
        yield store, pace_async.Run(str(folder / "population.db"))


@pytest.mark.long
async def test_ideas_of_many_processes_beside_a_runs_commits_are_each_there_once(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (store, run):

        async def commits() -> None:
            for lease in range(1, 40):
                await store.commit(opened(lease))

        def ideas() -> list[int]:
            with ThreadPoolExecutor(8) as pool:
                return list(pool.map(run.add_idea, [f"idea {number}" for number in range(100)]))

        numbers: list[int] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(commits)
            numbers += await anyio.to_thread.run_sync(ideas)
        assert sorted(numbers) == [GIVEN + entry for entry in range(1, 101)]
        assert len({idea["text"] for idea in run.ideas()}) == 100


async def test_an_entry_is_taken_in_once_and_the_list_says_what_came_of_it(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (store, run):
        number = run.add_idea("  rings around\n the middle ")
        waiting = run.add_idea("nothing of the kind")
        (entry, _) = await store.read(partial(untaken, run="demo"))
        await store.commit(opened(1), IdeaGiven(entry.entry, entry.text, 0, 1.0))
        assert [each.entry for each in await store.read(partial(untaken, run="demo"))] == [waiting - GIVEN]
        await store.commit(advised(1, ideas=(), idea=number), evaluated(1, score=2.5))
        await store.commit(opened(2), advised(2, ideas=(), idea=number), evaluated(2, score=2.4))
        first, second = run.ideas()
        assert (first["number"], first["text"], first["after"]) == (number, "rings around the middle", 0)
        assert (first["tried"], first["candidate"], first["score"]) == (2, 1, 2.5)
        assert (second["number"], second["after"], second["tried"]) == (waiting, None, 0)
    with open_readonly(tmp_path / "population.db") as reader:
        assert not [line for check in check_population(reader) for line in check.wrong]


async def test_an_idea_that_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (_, run):
        with pytest.raises(UsageError, match="must say something"):
            run.add_idea(" \x1b \n ")
        with pytest.raises(UsageError, match="2,000 characters at most"):
            run.add_idea("x" * 2001)
        assert run.ideas() == []


def test_a_run_whose_advisor_reads_no_words_refuses_ideas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    folder = make_run(tmp_path / "run")
    said = shell.pace("idea", "add", str(folder), "rings")
    assert said.code == 2 and "reads no ideas in words" in said.err
    assert json.loads(shell.pace("idea", "list", str(folder), "--json").out) == []
    assert "nobody has put an idea into this run" in shell.pace("idea", "list", str(folder)).out


async def test_the_list_says_which_ideas_are_pinned_or_ruled_out_and_whether_the_run_knows(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (store, run):
        number = run.add_idea("rings around the middle")
        await store.commit(RunStateChanged("running", "", 1.0), opened(1))
        await store.commit(advised(1, ideas=(new_idea(1, "a grid"), new_idea(2, "hexagons")), idea=1), evaluated(1))
        assert run.veto_ideas(2) and run.pin_ideas(number)
        given, words = await store.read(partial(untaken, run="demo")), {"mark": "pin", "mark_after": None}
        assert [(each.subject, each.number, each.text) for each in given][1:] == [
            ("idea", 2, "veto"),
            ("idea", number, "pin"),
        ]
        assert [{key: idea[key] for key in words} for idea in run.ideas()][:1] == [words]
        await store.commit(*(each.taken_in(1, 2.0) for each in given))
        pinned, vetoed = run.ideas()
        assert (pinned["number"], pinned["mark"], pinned["mark_after"]) == (number, "pin", 1)
        assert (vetoed["number"], vetoed["text"], vetoed["mark"], vetoed["tried"]) == (2, "hexagons", "veto", 0)
        run.veto_ideas(2, undo=True)
        assert [idea["number"] for idea in run.ideas()] == [number]
        await store.commit(RunStateChanged("done", "target", 2.0))
        assert run.veto_ideas(2) is False, "it is taken in when the run is resumed"


async def test_words_about_nothing_are_refused_in_a_sentence(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (store, run):
        numbers = [run.add_idea(f"idea {place}") for place in range(6)]
        with pytest.raises(UsageError, match=r"^The run has no idea 77\.$"):
            run.veto_ideas(numbers[0], 77)
        with pytest.raises(UsageError, match=r"^The run has no idea 9000007\.$"):
            run.pin_ideas(GIVEN + 7)
        with pytest.raises(UsageError, match=rf"^Idea {numbers[0]} is not pinned\.$"):
            run.pin_ideas(numbers[0], undo=True)
        assert run.pin_ideas(*numbers[:5])
        with pytest.raises(UsageError, match="At most 5 untried ideas can be pinned at a time"):
            run.pin_ideas(numbers[5])
        run.pin_ideas(numbers[0], undo=True)
        run.pin_ideas(numbers[5])
        assert len(await store.read(partial(untaken, run="demo"))) == 13


def test_words_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    folder = make_run(tmp_path / "run")
    assert "reads no ideas in words" in shell.pace("idea", "veto", str(folder), "1").err
    with closing(sqlite3.connect(folder / "population.db")) as database, database:
        database.execute("update runs set config = json_set(config, '$.search.memory', 'run')")
        (number,) = database.execute("select min(idea) from ideas").fetchone()
    assert "1 idea ruled out when the run, which has ended" in shell.pace("idea", "veto", str(folder), str(number)).out
    assert "no idea 123456" in shell.pace("idea", "pin", str(folder), "123456").err
    assert "ruled out (not taken in yet)" in shell.pace("idea", "list", str(folder)).out
    assert json.loads(shell.pace("idea", "list", str(folder), "--json").out)[0]["mark"] == "veto"
    assert shell.pace("idea", "veto", str(folder), str(number), "--undo").code == 0


async def test_words_about_candidates_that_mean_nothing_are_refused_in_a_sentence(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (store, run):
        await store.commit(RunStateChanged("running", "", 1.0), opened(1), opened(2))
        await store.commit(advised(1), evaluated(1, score=2.5), advised(2), evaluated(2, score=None))
        for refused, said in (
            (lambda: run.ban_candidates(1, 77), "The run has no candidate 77; the newest is 2."),
            (lambda: run.pin_candidates(-1), "The run has no candidate -1; the newest is 2."),
            (lambda: run.ban_candidates(0), "Candidate 0 is the task's own program, which cannot be banned."),
            (lambda: run.pin_candidates(2), "Candidate 2 has no score, so nothing is built on it."),
            (lambda: run.ban_candidates(1, undo=True), "Candidate 1 is not banned."),
        ):
            with pytest.raises(UsageError, match=f"^{re.escape(said)}$"):
                refused()
        assert run.pin_candidates(0, 1) and run.ban_candidates(1)
        with pytest.raises(UsageError, match=r"^Candidate 1 is banned: `pace candidate ban RUN 1 --undo` takes that"):
            run.pin_candidates(1)
        assert run.candidate(1)["outcome"] == "ok", "the run has not taken it in"
        words = await store.read(partial(untaken, run="demo"))
        await store.commit(*(each.taken_in(2, 2.0) for each in words))
        shown = run.candidate(1)
        assert (shown["outcome"], shown["score"], shown["mark"], shown["mark_after"]) == ("banned", 2.5, "ban", 2)
        assert run.best["candidate"] == 0 and run.rows()[1]["outcome"] == "banned"
        assert run.ban_candidates(1, undo=True)
        await store.commit(*(each.taken_in(2, 3.0) for each in await store.read(partial(untaken, run="demo"))))
        assert run.best["candidate"] == 1 and run.candidate(1)["mark"] is None
    with open_readonly(tmp_path / "population.db") as reader:
        assert not [line for check in check_population(reader) for line in check.wrong]


async def test_a_page_is_there_until_another_one_or_none(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (store, run):
        assert run.note() == {"text": "", "at": None, "after": None, "from_group": None}
        with pytest.raises(UsageError, match=r"1,500 characters at most"):
            run.write_note("x" * 1501)
        with pytest.raises(UsageError, match="must say something"):
            run.write_note(" \x1b \n ")
        assert run.write_note("  Balance first.  \n\x1b[2J```\n") and run.note()["after"] is None
        (entry,) = await store.read(partial(untaken, run="demo"))
        await store.commit(opened(1), entry.taken_in(1, 2.0, 3))
        assert run.note()["text"] == "Balance first.\n [2J```" and run.note()["from_group"] == 3
        assert run.write_note("") and run.note()["text"] == ""


def test_a_page_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    folder = str(make_run(tmp_path / "run"))
    assert "nobody has written a page" in shell.pace("note", folder).out
    assert "reads no ideas in words" in shell.pace("note", folder, "Balance first.").err
    with closing(sqlite3.connect(tmp_path / "run" / "population.db")) as database, database:
        database.execute("update runs set config = json_set(config, '$.search.memory', 'run')")
    (tmp_path / "page.md").write_text("Balance first.\nThen speed.\n")
    said = shell.pace("note", folder, "--file", str(tmp_path / "page.md"))
    assert said.out == "the models are shown it when the run, which has ended, is resumed\n"
    assert shell.pace("note", folder, "show").out == "not taken in yet\nBalance first.\nThen speed.\n"
    assert json.loads(shell.pace("note", folder, "--json").out)["text"] == "Balance first.\nThen speed."
    assert json.loads(shell.pace("note", folder, "--clear", "--json").out)["text"] == ""
    for wrong, why in ((("",), "--clear"), (("a", "--clear"), "only one"), (("--file", "none.md"), "Cannot read")):
        refused = shell.pace("note", folder, *wrong)
        assert refused.code == 2 and why in refused.err


def test_words_about_candidates_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    folder = str(make_run(tmp_path / "run"))
    number = json.loads(shell.pace("best", folder, "--json").out)["candidate"]
    assert shell.pace("candidate", "ban", folder, str(number)).out == "1 candidate banned when the run is resumed\n"
    assert "banned, not taken in yet" in shell.pace("show", folder, str(number)).out
    assert json.loads(shell.pace("show", folder, str(number), "--json").out)["mark"] == "ban"
    assert "is banned" in shell.pace("candidate", "pin", folder, str(number)).err
    assert shell.pace("candidate", "ban", folder, str(number), "--undo").out.startswith("1 candidate not banned any")
