"""One alembic tree: it makes what the models say, takes a populated database along, and refuses what it cannot read."""

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError

from pace_async.errors import UsageError
from pace_async.events import Claimed, Evaluated, FreshScore
from pace_async.population import schema
from pace_async.population.connect import Place, engine
from pace_async.population.models import Base
from pace_async.population.reading.reader import open_readonly
from pace_async.population.schema import SCHEMA, migrations_folder, schema_state, upgrade
from pace_async.population.store import Store
from tests.support.population_facts import MIGRATE, downgrade, empty_place, empty_population, fresh, rollout
from tests.support.populations import damage_of


@pytest.fixture(autouse=True)
def _revisions_are_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_migrate", MIGRATE)


async def _with_rollouts(folder: Path) -> Place:
    async with fresh(folder) as store:
        for lease in (1, 2):
            opening, advice, ended = rollout(lease)
            assert isinstance(ended, Evaluated)
            await store.commit(opening, advice, replace(ended, gained=True))
        return store.place


def _set_revision(database: Place, revision: str) -> None:
    writer = engine(database, "migrate")
    with writer.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    writer.dispose()


def _everything(database: Place) -> dict[str, object]:
    """Tables and views with their columns, and what is in them."""
    reader = engine(database, "read")
    with reader.connect() as connection:
        asked = inspect(connection)
        found: dict[str, object] = {}
        for name in (*asked.get_table_names(), *asked.get_view_names()):
            rows = sorted(map(repr, connection.execute(text(f"SELECT * FROM {name}"))))
            found[name] = [str(column) for column in asked.get_columns(name)], rows
    reader.dispose()
    return found


async def _open(database: Place) -> None:
    async with Store.open(database) as store:
        await store.load()


def test_the_revision_in_the_code_is_the_head_of_the_tree() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    assert ScriptDirectory.from_config(config).get_current_head() == SCHEMA


@pytest.mark.usefixtures("both")
def test_the_migrations_make_exactly_the_tables_of_the_models(tmp_path: Path) -> None:
    migrated = engine(empty_place(tmp_path), "read")
    with migrated.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = compare_metadata(context, Base.metadata)
    migrated.dispose()
    assert [difference for difference in differences if "_index" not in difference[0]] == []


def test_the_migrations_make_exactly_the_checks_and_indexes_of_the_models(tmp_path: Path) -> None:
    def rules(database: Path) -> set[str]:
        connection = sqlite3.connect(str(database))
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL")
        lines = {line.strip().rstrip(",") for (sql,) in rows for line in sql.replace("CREATE INDEX", "\n").splitlines()}
        connection.close()
        return {line for line in lines if "CHECK" in line or line.startswith("ix_") or "FOREIGN" in line}

    declared = engine(tmp_path / "models.db", "migrate")
    with declared.begin() as connection:
        Base.metadata.create_all(connection)
    declared.dispose()
    assert rules(empty_population(tmp_path)) == rules(tmp_path / "models.db")
    assert len(rules(tmp_path / "models.db")) > 30


@pytest.mark.usefixtures("both")
def test_an_upgrade_of_a_database_that_is_current_changes_nothing(tmp_path: Path) -> None:
    database = anyio.run(_with_rollouts, tmp_path)
    before = _everything(database), database.read_bytes() if isinstance(database, Path) else b""
    upgrade(database)
    assert (_everything(database), database.read_bytes() if isinstance(database, Path) else b"") == before


@pytest.mark.long
@pytest.mark.usefixtures("both")
@pytest.mark.fault("Database", "up and down with every row", only="sqlite")
@pytest.mark.fault("Database", "up and down with every row on PostgreSQL", only="postgresql")
@pytest.mark.fault("Crash and resume", "an older schema names the command that upgrades it")
def test_a_populated_database_goes_down_and_up_again_with_every_row(tmp_path: Path) -> None:
    database = anyio.run(_with_rollouts, tmp_path)
    with open_readonly(database) as reader:
        before = reader.record()
    downgrade(database, "0001")
    assert schema_state(database) == "older"
    with pytest.raises(UsageError, match="older pace: run `pace db upgrade`"):
        anyio.run(_open, database)
    with pytest.raises(UsageError, match="older pace"), open_readonly(database):
        pass

    upgrade(database)
    assert schema_state(database) == "current"
    with open_readonly(database) as reader:
        after = reader.record()
        assert replace(after, secret=before.secret) == before
        assert len(after.secret) == 64  # hexadecimal digits, drawn anew
        ranked = reader.query("SELECT candidate FROM leaderboard ORDER BY rank")
        assert [row["candidate"] for row in ranked] == [1, 2, 0]
        assert damage_of(reader) == ()


async def _with_tries(folder: Path) -> Place:
    tries = (
        FreshScore(2**61, 2.6, "timeout", None, 0.9, False, 1.0),
        FreshScore(2**62, 2.6, "ok", 2.5, 0.8, True, 1.0),
    )
    async with fresh(folder) as store:
        opening, advice, ended = rollout(1)
        assert isinstance(ended, Evaluated)
        await store.commit(opening, advice, replace(ended, fresh=tries))
        claim = Claimed(2, 1, "layout = 1\n", None, 2.7, {}, 0.75, False, 2500.0, tries[:1])
        await store.commit(*rollout(2)[:2], claim)
        return store.place


@pytest.mark.long
@pytest.mark.usefixtures("both")
@pytest.mark.fault("Programs as weapons", "seeds in an older database become numbers", only="sqlite")
def test_the_seeds_in_an_older_database_become_numbers_that_no_later_try_takes_for_its_own(tmp_path: Path) -> None:
    database = anyio.run(_with_tries, tmp_path)
    downgrade(database, "0013")
    upgrade(database)
    with open_readonly(database) as reader:
        rows = reader.query("SELECT number, seed, score FROM fresh_scores ORDER BY number")
        record = reader.record()
    assert [tuple(row.values()) for row in rows] == [(1, -1, None), (2, -2, 2.5)]
    [claim] = [each.claim for each in record.run_state.running.values() if each.claim is not None]
    assert [(tried.seed, tried.outcome) for tried in claim.tries] == [(-1, "timeout")]
    assert record.own_scores == {}
    everything = json.dumps(_everything(database), default=str)
    assert str(2**61) not in everything and str(2**62) not in everything


@pytest.mark.long
def test_the_candidates_of_an_older_database_may_end_below_a_threshold_afterwards(tmp_path: Path) -> None:
    database = anyio.run(_with_rollouts, tmp_path)
    downgrade(database, "0008")

    def end_as(outcome: str) -> None:
        connection = sqlite3.connect(str(database))
        try:
            with connection:
                connection.execute("UPDATE candidates SET outcome = ?, score = NULL, merit = NULL", (outcome,))
        finally:
            connection.close()

    with pytest.raises(sqlite3.IntegrityError, match="ck_candidates_outcome_known"):
        end_as("below_threshold")
    upgrade(database)
    end_as("below_threshold")
    with pytest.raises(sqlite3.IntegrityError, match="ck_candidates_outcome_known"):
        end_as("something")
    with pytest.raises(IntegrityError, match="ck_candidates_outcome_known"):
        downgrade(database, "0008")
    assert schema_state(database) == "current"


@pytest.mark.usefixtures("both")
def test_a_downgrade_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    database = anyio.run(_with_rollouts, tmp_path)
    downgrade(database, "base")
    assert list(_everything(database)) == ["alembic_version"]


@pytest.mark.usefixtures("both")
def test_a_failed_upgrade_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    database = empty_place(tmp_path)
    writer = engine(database, "migrate")
    with writer.begin() as connection:
        for view in ("skips", "ages", "progress", "spend"):
            connection.execute(text(f"DROP VIEW {view}"))
    writer.dispose()
    _set_revision(database, "0001")
    before = _everything(database)
    assert {"leaderboard", "lineage", "staleness", "actions", "confirmations"} < before.keys()
    with pytest.raises(Exception, match="already exists"):
        upgrade(database)
    assert schema_state(database) == "older"
    assert _everything(database) == before


@pytest.mark.usefixtures("both")
def test_a_newer_schema_is_refused_everywhere(tmp_path: Path) -> None:
    database = anyio.run(_with_rollouts, tmp_path)
    _set_revision(database, "0999")
    assert schema_state(database) == "newer"
    with pytest.raises(UsageError, match="newer pace"):
        anyio.run(_open, database)
    with pytest.raises(UsageError, match="newer pace"):
        upgrade(database)
    with pytest.raises(UsageError, match="newer pace"), open_readonly(database):
        pass


def test_a_wheel_finds_the_same_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(migrations_folder(), tmp_path / "bundled" / "migrations")
    monkeypatch.setattr("pace_async.population.schema.BUNDLED", tmp_path / "bundled")
    assert migrations_folder() == tmp_path / "bundled" / "migrations"
    upgrade(tmp_path / "new" / "population.db")
    assert schema_state(tmp_path / "new" / "population.db") == "current"


def test_an_upgrade_prints_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(0)
    upgrade(tmp_path / "population.db")
    assert [record for record in caplog.records if record.name.startswith("alembic")] == []
    assert capfd.readouterr() == ("", "")


def test_folders_with_special_characters_of_urls_are_folders(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20?c#d&mode=rw"
    folder.mkdir()
    database = folder / "population.db"
    upgrade(database)
    assert database.is_file()
    with open_readonly(database) as reader:
        assert reader.runs() == ()
    assert {path.name for path in folder.iterdir()} >= {"population.db"}
    assert {path.name for path in tmp_path.iterdir()} == {folder.name}
