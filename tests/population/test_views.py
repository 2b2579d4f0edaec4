"""The views answer the questions of a person with sqlite3, or with PostgreSQL's driver, on a small run made by hand.

The run has staleness bound 2. Rollouts 1 and 2, sampled by version 0, train update 0. Rollout 3, still of version 0,
and 4, of version 1, train update 1. 5 fails by itself. 6 is the best and is not trained yet. 7 failed by the
infrastructure.
"""

import importlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import inspect

from pace_async.events import FaultSeen, ImplementerCalled, LeaseAborted, NotesPage, RunStateChanged, VersionPublished
from pace_async.population.connect import Place, engine
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from tests.support.population_facts import (
    BOTH,
    HEADER,
    advised,
    evaluated,
    fresh,
    new_idea,
    opened,
    populations_of,
    rollout,
    seed_program,
    shipped,
    trained,
)

Rows = Callable[[str], list[Any]]


async def _make(folder: Path) -> Place:
    async with fresh(folder) as store:
        await store.commit(RunStateChanged("running", "", 1.0))
        await store.commit(*rollout(1, 1, 2.1), *rollout(2, 2, 2.2))
        await store.commit(opened(3, 1))
        await store.commit(advised(3, 1, parent=1, ideas=(new_idea(1), new_idea(2, "more restarts")), idea=2))
        await store.commit(shipped(1, (1, 2)))
        await store.commit(trained(1, (1, 2)))
        await store.commit(VersionPublished(1, 0.4, 0.05, {"w": "ab"}, 6001.0))
        await store.commit(ImplementerCalled(3, "gemini", "no_code", 900, 100, 0.25, 2.0, 2500.0))
        await store.commit(ImplementerCalled(3, "gemini", "ok", 1000, 200, 0.5, 2.0, 2501.0))
        await store.commit(evaluated(3, 1, 2.4, parent=1))
        await store.commit(*rollout(4, 2, 2.0, version=1))
        page = NotesPage(1, 4, None, "Worked:\nhex")
        await store.commit(ImplementerCalled(4, "claude", "ok", 0, 0, 0.0, 0.0, 2502.0, role="notes", notes=page))
        await store.commit(replace(shipped(2, (3, 4), update=1), staleness=(1, 0)))
        ended = trained(2, (3, 4), update=1)
        await store.commit(replace(ended, metrics={**ended.metrics, "tokens_age_0": 40.0}))
        await store.commit(opened(5, 2, 1), advised(5, 2, version=1), evaluated(5, 2, None))
        await store.commit(opened(6, 1, 1), advised(6, 1, parent=3, idea=1, version=1, experiment="Polish longer."))
        await store.commit(ImplementerCalled(6, "claude", "ok", 10, 20, 0.125, 1.0, 2600.0))
        await store.commit(evaluated(6, 1, 2.6, parent=3))
        await store.commit(opened(7, 2, 1), FaultSeen("advise", "engine", "died", 7, 1.0))
        await store.commit(LeaseAborted(7, 2, "engine", "died", 1.0))
        await store.create_run(replace(HEADER, name="empty"))
        await store.commit(seed_program())
        return store.place


@pytest.fixture(scope="module", params=BOTH)
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    with populations_of(request):
        return anyio.run(_make, tmp_path_factory.mktemp("views"))


@pytest.fixture
def person(database: Place) -> Iterator[Rows]:
    """A person with a driver and without our code."""
    connection: Any = (
        sqlite3.connect(database)
        if isinstance(database, Path)
        else importlib.import_module("psycopg").connect(str(database))
    )
    yield lambda asked: connection.execute(asked).fetchall()
    connection.close()


def test_one_select_says_which_idea_gave_the_best_program_how_stale_its_policy_was_and_what_it_cost(
    person: Rows,
) -> None:
    asked = "SELECT candidate, score, idea, experiment, policy_version, staleness, cost_usd FROM leaderboard"
    best, second, *_ = person(asked + " WHERE run = 'demo' ORDER BY rank")
    assert best == (6, 2.6, "a hexagonal start", "Polish longer.", 1, None, 0.125)
    assert second == (3, 2.4, "more restarts", 'Change layout to "hex".', 0, 1, 0.75)


def test_the_leaderboard_says_which_implementer_wrote_a_program(person: Rows) -> None:
    rows = person("SELECT candidate, implementer FROM leaderboard WHERE run = 'demo' ORDER BY candidate")
    assert dict(rows) == {0: None, 1: None, 2: None, 3: "gemini", 4: None, 6: "claude"}


def test_the_leaderboard_ranks_what_has_a_score_within_each_run(person: Rows) -> None:
    rows = person("SELECT run, rank, candidate, island, parent, mechanism, created FROM leaderboard ORDER BY run, rank")
    assert [row[:4] for row in rows if row[0] == "demo"] == [
        ("demo", 1, 6, 1),
        ("demo", 2, 3, 1),
        ("demo", 3, 2, 2),
        ("demo", 4, 1, 1),
        ("demo", 5, 4, 2),
        ("demo", 6, 0, None),
    ]
    assert rows[0][4:] == (3, "layout", "1970-01-01T00:50:06Z")
    assert [row[:3] for row in rows if row[0] == "empty"] == [("empty", 1, 0)]


def test_lineage_goes_back_to_the_tasks_own_program(person: Rows) -> None:
    rows = person("SELECT depth, ancestor, score FROM lineage WHERE candidate = 6 ORDER BY depth")
    assert rows == [(1, 3, 2.4), (2, 1, 2.1), (3, 0, 0.9598)]
    assert person("SELECT * FROM lineage WHERE candidate = 0") == []


def test_staleness_has_a_row_for_each_rollout_that_was_trained(person: Rows) -> None:
    rows = person("SELECT group_number, update_number, lease, oldest_version, staleness FROM staleness")
    assert sorted(rows) == [(1, 0, 1, 0, 0), (1, 0, 2, 0, 0), (2, 1, 3, 0, 1), (2, 1, 4, 1, 0)]


def test_spend_is_counted_by_model(person: Rows) -> None:
    rows = person("SELECT role, model, calls, prompt_tokens, completion_tokens, usd FROM spend ORDER BY model, role")
    assert rows == [
        ("implementer", "claude", 1, 10, 20, 0.125),
        ("notes", "claude", 1, 0, 0, 0.0),
        ("implementer", "gemini", 2, 1900, 300, 0.75),
        ("advisor", "tiny", 18, 108, 72, 0.0),
    ]


def test_progress_keeps_the_best_so_far_in_order_of_completion(person: Rows) -> None:
    rows = person(
        "SELECT completed, candidate, outcome, score, best_so_far FROM progress WHERE run = 'demo' ORDER BY completed"
    )
    assert rows == [
        (1, 0, "ok", 0.9598, 0.9598),
        (2, 1, "ok", 2.1, 2.1),
        (3, 2, "ok", 2.2, 2.2),
        (4, 3, "ok", 2.4, 2.4),
        (5, 4, "ok", 2.0, 2.4),
        (6, 5, "timeout", None, 2.4),
        (7, 6, "ok", 2.6, 2.6),
    ]


def test_sums_and_averages_are_plain_numbers(database: Place) -> None:
    """So that they are numbers in JSON too."""
    statement = "SELECT avg(lease) AS mean, sum(prompt_tokens) AS tokens FROM implementer_calls"
    with open_readonly(database) as reader:
        found = reader.query(statement)[0]
        wide = reader.query("SELECT sum(tokens) AS tokens FROM (SELECT CAST(4 AS BIGINT) AS tokens) AS t")[0]
    assert {name: type(value) for name, value in {**found, **wide}.items()} == {"mean": float, "tokens": int}
    assert found == {"mean": 4.0, "tokens": 1910}
    assert wide == {"tokens": 4}


def test_status_counts_everything_once(database: Place) -> None:
    with open_readonly(database) as reader:
        assert reader.status("demo") == {
            "implementers": [],
            "candidates": 6,
            "trust": "hidden",
            "scored": 5,
            "outcomes": {"ok": 5, "timeout": 1},
            "causes": {},
            "updates": 2,
            "versions_published": 1,
            "best_score": 2.6,
            "waiting": None,
            "best_fresh_score": None,
            "longest_stall_ms": None,
            "longest_turn_cpu_ms": None,
            "admitted": 7,
            "trained": 4,
            "skipped": 0,
            "aborted": 1,
            "expired": 0,
            "open": 2,
            "max_trained_staleness": 1,
            "spend_usd": 0.875,
            "spend_known_usd": 0.875,
            "spend_by_role": {"implementer": 0.875, "advisor": 0.0, "notes": 0.0},
            "state": "running",
            "reason": "",
            "groups_trained": 2,
            "groups_skipped": 0,
            "rollbacks": [],
            "steps_shortened": 0,
            "steps_undone": 0,
            "failing": [],
            "nodes": [],
            "evaluation_saved": None,
            "repeats": 0,
        }
        assert reader.status("empty")["max_trained_staleness"] == 0
        assert reader.runs() == ("demo", "empty")


def test_the_best_program_is_shown_with_where_it_came_from(database: Place) -> None:
    with open_readonly(database) as reader:
        best = reader.best("demo")
    assert (best["candidate"], best["score"], best["program"], best["parent"]) == (6, 2.6, "layout = 6\n", 3)
    assert (best["idea"], best["policy_version"], best["cost_usd"]) == ("a hexagonal start", 1, 0.125)


def test_a_candidate_is_shown_with_its_calls_and_the_versions_that_sampled_them(database: Place) -> None:
    with open_readonly(database) as reader:
        shown = reader.show(3, "demo")
        own = reader.show(0, "demo")
    assert (shown["idea"], shown["update_number"], shown["staleness"], shown["memoised"]) == (
        "more restarts",
        1,
        1,
        False,
    )
    assert [call["purpose"] for call in shown["calls"]] == ["propose", "assess", "select"]
    assert shown["calls"][0]["versions"] == [[0, 0, 4]]
    assert [call["outcome"] for call in shown["implementer_calls"]] == ["no_code", "ok"]
    assert shown["metrics"] == {"circles": 26.0}
    assert (own["calls"], own["island"], own["idea"]) == ([], None, None)


def test_a_store_and_a_reader_give_the_same_record(database: Place) -> None:
    async def loaded() -> object:
        async with Store.open(database, create=False) as store:
            return await store.load("demo")

    with open_readonly(database) as reader:
        assert reader.record("demo") == anyio.run(loaded)


DOCUMENT = Path(__file__).parents[2] / "docs" / "sql.md"
STATEMENTS = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_statement_of_the_document_gives_rows(database: Place, statement: str) -> None:
    with open_readonly(database) as reader:
        found = reader.sql(statement.replace("= 12", "= 3"))
    assert found.rows != () or ("rescores" in statement and found.columns == ("candidate", "before", "after"))


def test_the_document_names_every_table_and_every_column_of_the_leaderboard(database: Place) -> None:
    text = DOCUMENT.read_text()
    reader = engine(database, "read")
    asked = inspect(reader)
    tables = {*asked.get_table_names(), *asked.get_view_names()} - {"alembic_version"}
    columns = {column["name"] for column in asked.get_columns("leaderboard")}
    reader.dispose()
    assert len(tables) == 49
    assert [name for name in tables if f"| {name} |" not in text and f"**`{name}`**" not in text] == []
    documented = re.findall(r"^\| ([a-z_, ]+) \|", text, re.MULTILINE)
    assert columns - {"run"} <= {name.strip() for cell in documented for name in cell.split(",")}
