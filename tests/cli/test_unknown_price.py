"""A model whose price is not known: no command, page or screen shows its cost as 0."""

import csv
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from starlette.testclient import TestClient

from pace_async.config import StopConfig
from pace_async.events import ImplementerCalled
from pace_async.observe.followed import Followed
from pace_async.observe.history import resumed_view
from pace_async.observe.layout import frame
from pace_async.observe.model import RunView
from pace_async.observe.plain import figures
from pace_async.observe.summary import closing_words
from pace_async.population.reading.reader import open_readonly
from pace_async.web.app import application, without_prompts
from pace_async.web.runs import OpenRun
from tests.support.command_line import Shell
from tests.support.finished_runs import copy_run, make_run

CALL = "insert into implementer_calls values (1, ?, 1, ?, 'ok', 100, 10, ?, 1.0, 1767225600.5, ?)"
CHECK = "insert into implementer_checks values (1, 1, 'implementer-model', 9, 1, 0.0, 1.0, 1767225600.5, 'implementer')"
UNKNOWN, KNOWN, PART = 1, 2, 0.25
"""A candidate of the model without a price, one of a model with a price, and what the latter cost."""


def written(run: Path, statement: str, *values: object) -> None:
    database = sqlite3.connect(run / "population.db")
    with database:
        database.execute(statement, values)
    database.close()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("price") / "run")
    written(run, CHECK)
    written(run, CALL, UNKNOWN, "implementer-model", 0.0, "implementer")
    return run


@pytest.fixture
def shell(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    copy_run(finished, tmp_path)
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture
def partly(shell: Shell) -> Shell:
    written(shell.folder / "runs" / "circle_packing-1", CALL, KNOWN, "advisor-model", PART, "advisor")
    return shell


@pytest.fixture
def client(shell: Shell) -> Iterator[TestClient]:
    with open_readonly(shell.folder / "runs" / "circle_packing-1" / "population.db") as reader:
        runs = {"a": OpenRun(reader)}
        hosts = frozenset(("testserver",))
        yield TestClient(application(runs, token=None, hosts=hosts, stopping=anyio.Event(), asker=without_prompts))


def spend_in(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("spend")).removeprefix("spend").strip()


def test_text_says_unknown(shell: Shell) -> None:
    assert spend_in(shell.pace("status").out) == "USD unknown"
    for command in (("list",), ("compare", "runs"), ("show", str(UNKNOWN))):
        said = shell.pace(*command).out
        assert "USD unknown" in said and "0.00" not in said.split("curve")[0], command
    assert "0.0000 USD" in shell.pace("show", "3").out  # it asked no model


def test_the_known_part_is_shown_beside_what_is_unknown(partly: Shell) -> None:
    assert spend_in(partly.pace("status").out) == ("0.2500 USD and USD unknown, advisor 0.2500, implementer unknown")
    assert "0.25 USD and USD unknown" in partly.pace("list").out
    assert "0.25 USD and USD unknown" in partly.pace("compare", "runs").out
    assert "0.2500 USD\n" in partly.pace("show", str(KNOWN)).out


def test_json_is_null_and_names_the_known_part(partly: Shell) -> None:
    status = json.loads(partly.pace("status", "--json").out)
    assert (status["spend_usd"], status["spend_known_usd"]) == (None, PART)
    assert status["spend_by_role"] == {"implementer": None, "advisor": PART, "notes": 0.0}
    [listed] = json.loads(partly.pace("list", "--json").out)
    [compared] = json.loads(partly.pace("compare", "runs", "--json").out)["runs"]
    for row in (listed, compared):
        assert (row["spend_usd"], row["spend_known_usd"]) == (None, PART)
    unknown, known = (json.loads(partly.pace("show", str(one), "--json").out) for one in (UNKNOWN, KNOWN))
    assert (unknown["cost_usd"], known["cost_usd"]) == (None, PART)
    assert [call["cost_usd"] for call in unknown["implementer_calls"]] == [None]
    assert [call["cost_usd"] for call in known["advisor_calls"]] == [PART]


@pytest.mark.parametrize(("kind", "key"), [("candidates", "candidate"), ("rollouts", "lease")])
def test_an_export_leaves_the_unknown_cost_empty(partly: Shell, kind: str, key: str) -> None:
    rows = csv.DictReader(partly.pace("export", "circle_packing-1", "--what", kind).out.splitlines())
    costs = {int(row[key]): row["cost_usd"] for row in rows}
    assert (costs[UNKNOWN], costs[KNOWN], costs[3]) == ("", "0.25", "0.0")


def test_runs_are_not_compared_by_money_of_which_a_part_is_unknown(partly: Shell) -> None:
    refused = partly.pace("compare", "runs", "--by", "usd")
    assert refused.code == 2 and "asked a model whose price is not known" in refused.err


@pytest.mark.parametrize("place", ["/", "/compare", "/run/a", "/run/a/candidate/1"])
def test_pages_say_unknown(client: TestClient, place: str) -> None:
    shown = client.get(place).text
    assert "unknown" in shown and "$0.00" not in shown


@pytest.mark.parametrize(
    ("place", "of_row"), [("spend", "implementer-model"), ("candidates", f"/run/a/candidate/{UNKNOWN}")]
)
def test_the_rows_of_pages_say_unknown(client: TestClient, place: str, of_row: str) -> None:
    rows = [
        row for row in client.get(f"/run/a/{place}").text.split("<tr>") if f"{of_row}<" in row or f'{of_row}"' in row
    ]
    assert rows and all(">unknown<" in row for row in rows)


def test_the_report_says_unknown(shell: Shell) -> None:
    shell.pace("report", "-o", "report.html")
    shown = (shell.folder / "report.html").read_text()
    assert "<b>USD unknown</b>" in shown and "$0.00" not in shown


def view_of(run: Path) -> RunView:
    """The view of a process that takes up the run after a call of a model without a price."""
    with open_readonly(run / "population.db") as reader:
        header, followed = reader.header(), Followed(reader.header())
        for entry in reader.facts():
            followed.take(entry.fact)
    followed.take(ImplementerCalled(1, "openai/x", "ok", 100, 10, 0.0, 1.0, 1767225600.5, 1))
    return resumed_view(followed.view, header, StopConfig())


@pytest.mark.parametrize(("columns", "rows"), [(120, 40), (80, 24), (59, 24), (40, 20)])
def test_the_screen_of_a_resumed_run_says_unknown_at_every_size(finished: Path, columns: int, rows: int) -> None:
    shown = "\n".join(line.plain for line in frame(view_of(finished), 0.0, columns, rows))
    assert "USD unknown" in shown and "$0.00" not in shown


def test_plain_output_and_the_summary_of_a_resumed_run_say_unknown(finished: Path) -> None:
    view = view_of(finished)
    assert figures(view, 0.0).endswith("USD unknown spent")
    assert any("USD unknown for " in line for line in closing_words(view, finished, 0.0))
