"""The page that compares runs: its figures are those of `pace compare`, and its address names the runs."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import anyio
import pytest
from starlette.testclient import TestClient

from pace_async.aims import Aim, text_of
from pace_async.observe import formatting
from pace_async.population.reading.front import front_of_run
from pace_async.population.reading.reader import open_readonly
from pace_async.web.app import application
from pace_async.web.runs import OpenRun
from tests.support.changed_runs import OTHER, SEED, WORSE, changed_runs
from tests.support.finished_runs import HOSTILE, make_run, pace

STRANGE = "update runs set task = '{}'".format(HOSTILE.replace("'", "''"))
CHANGES = {"one": (), "two": (SEED, WORSE), "three": (OTHER,), "four": (OTHER, SEED, WORSE), "stranger": (STRANGE,)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return changed_runs(tmp_path_factory.mktemp("compared"), CHANGES)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with ExitStack() as stack:
        yield _client(
            {name: OpenRun(stack.enter_context(open_readonly(folder / name / "population.db"))) for name in CHANGES}
        )


def _client(runs: dict[str, OpenRun]) -> TestClient:
    return TestClient(application(runs, token=None, hosts=frozenset(("testserver",)), stopping=anyio.Event()))


def asked(client: TestClient, *runs: str) -> str:
    answer = client.get("/compare", params={"run": list(runs)})
    assert answer.status_code == 200
    return answer.text


@pytest.mark.long
def test_the_page_has_the_figures_of_the_command(client: TestClient, folder: Path) -> None:
    names = ("one", "two", "three", "four")
    told = json.loads(pace("compare", *names, "--json", cwd=folder).stdout)
    page = asked(client, *names)
    assert [arm["seeds"] for arm in told["arms"]] == [2, 2]
    for found in (*told["arms"], *told["differences"]):
        value = found["mean"] if "mean" in found else found["difference"]
        assert f">{value:.6g}</span>" in page
        assert f">{found['low']:.6g} to {found['high']:.6g}</span>" in page
    assert "learner.k=2" in page and "learner.k=4" in page
    assert "Best scores after 40 candidates" in page


def test_each_arm_has_a_mean_and_a_band_and_each_seed_a_line(client: TestClient) -> None:
    page = asked(client, "one", "two", "three")
    drawn = {kind: len(re.findall(rf'<path [^>]*class="{kind}"', page)) for kind in ("mean", "band", "seed")}
    assert drawn == {"mean": 2, "band": 1, "seed": 2}
    assert {"arm0", "arm1"} <= set(re.findall(r'class="(arm\d)"', page))


def test_the_address_is_the_choice(client: TestClient) -> None:
    page = asked(client, "one", "three")
    boxes = dict(re.findall(r'<input [^>]*value="(\w+)"( checked="")?', page))
    assert {name for name, checked in boxes.items() if checked} == {"one", "three"}
    assert set(boxes) == set(CHANGES)


def test_runs_of_different_tasks_are_refused_in_a_sentence_and_stay_inert(client: TestClient) -> None:
    for page in (asked(client, "one", "stranger"), asked(client)):
        assert "scores of different tasks do not compare" in page
        assert "<path" not in page and "<img" not in page
        assert "\x1b" not in page
    assert "<h1>" in asked(client, "stranger") and "<img" not in asked(client, "stranger")


def test_an_unknown_run_is_said_and_without_runs_there_is_nothing_to_compare(client: TestClient) -> None:
    answer = client.get("/compare?run=other")
    assert (answer.status_code, "This server shows no run" in answer.text) == (404, True)
    assert "There is no run yet." in asked(_client({}))


def test_a_run_before_its_first_score_is_compared_without_a_curve(folder: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(make_run(tmp_path / "run") / "population.db")) as database, database:
        database.execute("update candidates set score = null, merit = null, outcome = 'timeout'")
    with (
        open_readonly(tmp_path / "run" / "population.db") as bare,
        open_readonly(folder / "one" / "population.db") as one,
    ):
        page = asked(_client({"bare": OpenRun(bare), "one": OpenRun(one)}))
    assert len(re.findall(r'<path [^>]*class="mean"', page)) <= 1
    assert "bare" in page


def test_the_axis_is_chosen_by_the_address_which_keeps_the_runs(client: TestClient) -> None:
    answer = client.get("/compare", params={"run": ["one", "three"], "by": "hours"}).text
    assert "seconds of search" in answer and " seconds, which every run has." in answer
    assert 'href="?run=one&amp;run=three&amp;by=candidates"' in answer
    assert '<a href="?run=one&amp;run=three&amp;by=hours" aria-current="true">hours</a>' in answer
    refused = client.get("/compare", params={"run": ["one"], "by": "usd"}).text
    assert "one has no USD to compare by: take candidates." in refused and "by=candidates" in refused
    assert "Best scores after 40 candidates" in client.get("/compare?run=one&by=nonsense").text


@pytest.mark.long
def test_fresh_scores_and_signs_of_learning_are_those_of_the_command(folder: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(make_run(tmp_path / "fresh") / "population.db")) as database, database:
        best = "select candidate from candidates where merit is not null order by merit desc, candidate limit 1"
        row = f"(1, ({best}), 1, 5, 9.0, 'ok', 2.125, 2.125, 1, 0.1, null, null)"
        database.execute(f"insert into fresh_scores values {row}")
    with (
        open_readonly(tmp_path / "fresh" / "population.db") as tried,
        open_readonly(folder / "three" / "population.db") as three,
    ):
        page = asked(_client({"fresh": OpenRun(tried), "three": OpenRun(three)}))
    told = json.loads(pace("compare", str(tmp_path / "fresh"), "three", "--json", cwd=folder).stdout)
    assert "at fresh seeds" in page and page.count("2.125") >= 2
    first, last = told["runs"][0]["reward_spread"]
    assert f"{first:.3g} → {last:.3g}" in page
    assert f"({100 * told['differences'][0]['reaches'] / 40:.0f} %)" in page
    assert "at fresh seeds" not in asked(_client({}))


def test_fronts_are_compared_by_their_hypervolume(tmp_path: Path) -> None:
    aims = text_of((Aim("a", True, 0.0, 4.0), Aim("b", False, 0.0, 9.0)))
    several = (
        f"update runs set aims = '{aims}'",
        "update candidates set metrics = json_object('a', score, 'b', score * score) where score is not null",
    )
    folder = changed_runs(tmp_path, {"one": several, "two": (*several, SEED, WORSE)})
    with ExitStack() as stack:
        opened = {name: stack.enter_context(open_readonly(folder / name / "population.db")) for name in ("one", "two")}
        page = asked(_client({name: OpenRun(reader) for name, reader in opened.items()}), "one", "two")
        [volume] = [reader.ask(front_of_run).hypervolume for name, reader in opened.items() if name == "one"]
    assert "<h2>Fronts</h2>" in page and "between the bounds (worse ones: a 0, b 9)." in page
    assert formatting.score(volume) in page
