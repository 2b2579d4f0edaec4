"""What a typed statement may do: read rows, and only for so long."""

import re
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.population.connect import Place
from pace_async.population.reading.reader import open_readonly


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM candidates",
        "UPDATE runs SET name = 'x'",
        "CREATE TABLE t (a text)",
        "PRAGMA user_version = 7",
        "DROP VIEW leaderboard",
        "VACUUM",
        "SET TRANSACTION READ WRITE; UPDATE runs SET seed = 8; COMMIT",
        "DO $$ BEGIN SET TRANSACTION READ WRITE; UPDATE runs SET seed = 8; END $$",
    ],
)
def test_a_statement_that_writes_is_refused(place: Place, statement: str) -> None:
    with open_readonly(place) as reader:
        with pytest.raises(UsageError, match="refuses the statement"):
            reader.sql(statement)
        assert (reader.status()["candidates"], reader.header().seed) == (29, 7)


def test_the_file_cannot_be_written_even_after_a_pragma(database: Path) -> None:
    with open_readonly(database) as reader:
        for statement in ("PRAGMA query_only = OFF", "DELETE FROM candidates"):
            with pytest.raises(UsageError, match="refuses the statement"):
                reader.sql(statement)


@pytest.mark.fault("Configuration and terminal", "a typed statement can only read, and only for so long")
@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH 'made.db' AS made",
        "ATTACH 'file:made.db?mode=rwc' AS made",
        "ATTACH ':memory:' AS made",
        "VACUUM INTO 'made.db'",
        "CREATE TEMP TABLE made (a)",
        "SELECT load_extension('made.so')",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA temp_store_directory = '.'",
        "PRAGMA writable_schema = ON",
        "COMMIT",
        "SAVEPOINT a",
        "EXPLAIN DELETE FROM runs",
    ],
)
def test_a_statement_reaches_nothing_but_the_file(
    database: Path, statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with open_readonly(database) as reader:
        with pytest.raises(UsageError, match=r"is not allowed here, only what reads|cannot VACUUM"):
            reader.sql(statement)
        assert reader.sql("SELECT count(*) FROM candidates").rows == ((30,),)
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before and "made" in path.name] == []


def test_a_server_runs_no_command_for_a_statement(tmp_path: Path, place: Place) -> None:
    copy = f"COPY (SELECT 1) TO '{tmp_path / 'made'}'"
    with open_readonly(place) as reader:
        for statement in (copy, f"-- a comment\n/* and */ {copy}", "COPY runs FROM PROGRAM 'true'"):
            with pytest.raises(UsageError, match="refuses the statement"):
                reader.sql(statement)
    assert not (tmp_path / "made").exists()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.mark.fault("Configuration and terminal", "a typed statement can only read, and only for so long")
def test_a_statement_without_an_end_is_ended(place: Place) -> None:
    with open_readonly(place) as reader:
        with pytest.raises(UsageError, match=r"took longer than 0.2 s; --timeout SECONDS allows more"):
            reader.sql(ENDLESS, 0.2)
        assert reader.sql("SELECT count(*) FROM candidates", 60.0).rows == ((30,),)


@pytest.mark.long
@pytest.mark.fault("Configuration and terminal", "one call of a function that never returns is ended")
@pytest.mark.parametrize(
    "call",
    [
        f"'{'a' * 40}' regexp '(a+)+b'",
        "trim(printf('%.*c', 2000000, 'x'), printf('%.*c', 2000000, 'y') || 'x')",
        "instr(zeroblob(20000000), zeroblob(10000000) || x'01')",
    ],
)
def test_a_function_that_never_returns_is_ended(database: Path, call: str) -> None:
    with open_readonly(database) as reader:
        with pytest.raises(UsageError, match=r"took longer than 0.3 s; --timeout SECONDS allows more"):
            reader.sql(f"SELECT {call}", 0.3)
        assert reader.sql("SELECT 'layout' regexp 'l.y', floor(2.5)").rows == ((1, 2),)


def test_a_statement_gets_no_more_memory_than_its_bound(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pace_async.population.reading.typed.MEMORY", 256 << 20)
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50) SELECT zeroblob(20000000) FROM n"
    with open_readonly(database) as reader, pytest.raises(UsageError, match="too much memory"):
        reader.sql(rows)


@pytest.mark.fault("Configuration and terminal", "a typed statement on a server ends no session and reads no file")
@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
            "pg_terminate_backend",
        ),
        ("SELECT pg_catalog . pg_cancel_backend /* ( */ (1)", "pg_cancel_backend"),
        ('SELECT "pg_advisory_lock"(1885430629, 1)', "pg_advisory_lock"),
        ("SELECT * FROM pg_read_file('postgresql.conf')", "pg_read_file"),
        ("SELECT query_to_xml('select pg_read_file(''PG_VERSION'')', true, true, '')", "query_to_xml"),
        ("SELECT set_config('transaction_read_only', 'off', false)", "set_config"),
        ("SELECT E'\\'', pg_sleep(0), '\\''", "escapes"),
        ("SELECT U&\"pg!_sleep\" UESCAPE '!' (0)", "escapes"),
        ("; COPY (SELECT 1) TO PROGRAM 'true'", "; is not allowed"),
        ("/* /* */ select */ COPY (SELECT 1) TO PROGRAM 'true'", "copy is not allowed"),
        ("EXPLAIN ANALYZE SELECT pg_advisory_lock(1)", "pg_advisory_lock"),
        ("SELECT $a$ $b$ $a$, lo_get(1), $$ $$", "lo_get"),
        ("SELECT 'open", "quotation mark"),
        ("SELECT 1 /* open", "comment"),
    ],
)
def test_a_server_is_given_no_statement_that_acts_on_anything_but_rows(
    on_server: Place, statement: str, named: str
) -> None:
    with open_readonly(on_server) as reader:
        with pytest.raises(UsageError, match=f"refuses the statement: .*{re.escape(named)}"):
            reader.sql(statement)
        assert reader.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").rows == ((0,),)


def test_a_column_that_is_not_there_is_refused_with_those_that_are(place: Place) -> None:
    with open_readonly(place) as reader:
        with pytest.raises(UsageError, match=r"(?s)absent.*\. progress has run, .*\.$") as raised:
            reader.sql("select absent from Progress limit 5")
        assert "leaderboard has" not in str(raised.value)
        assert reader.sql("select count(*) from runs").rows == ((1,),)


def test_a_server_is_given_statements_that_only_read(on_server: Place) -> None:
    with open_readonly(on_server) as reader:
        for statement in (
            "(SELECT count(*) FROM candidates) UNION ALL VALUES (1)",
            "WITH a AS (SELECT max(score) AS best FROM leaderboard) SELECT round(best::numeric, 2) FROM a",
            'SELECT \'pg_sleep(1)\', $$pg_sleep(1)$$, "pg_sleep" FROM (SELECT 1 AS "pg_sleep") t -- pg_sleep(1)',
            "TABLE runs",
            "EXPLAIN SELECT coalesce(score, 0), random() FROM candidates",
            "SHOW server_version",
            "SELECT pg_relation_size('runs'), 100 % 7, 'it''s'",
        ):
            assert reader.sql(statement).rows, statement


def test_statements_that_only_read_are_allowed(database: Path) -> None:
    with open_readonly(database) as reader:
        for statement in (
            "PRAGMA table_info(runs)",
            "PRAGMA integrity_check",
            "SELECT * FROM pragma_table_info('candidates')",
            "SELECT m.name, t.name FROM sqlite_master m JOIN pragma_table_info(m.name) t",
            "SELECT name FROM pragma_index_list('candidates')",
            "SELECT * FROM pragma_user_version",
            "EXPLAIN QUERY PLAN SELECT * FROM runs",
            "SELECT value FROM json_each('[1]')",
            "SELECT rank FROM leaderboard",
            "SELECT sql FROM sqlite_master",
        ):
            assert reader.sql(statement).rows, statement


def test_a_pragma_that_is_refused_as_a_table_is_named(database: Path) -> None:
    with open_readonly(database) as reader, pytest.raises(UsageError, match="pragma optimize is not allowed here"):
        reader.sql("SELECT * FROM pragma_optimize")


@pytest.mark.parametrize("statement", ["SELEC 1", "", "SELECT * FROM nowhere", "SELECT 1; SELECT 2", "SELECT :a"])
def test_a_statement_that_is_empty_or_cannot_be_understood_is_a_usage_error(place: Place, statement: str) -> None:
    with open_readonly(place) as reader, pytest.raises(UsageError, match="refuses the statement"):
        reader.sql(statement)


def test_a_statement_gives_columns_and_rows(place: Place) -> None:
    with open_readonly(place) as reader:
        answer = reader.sql("SELECT candidate, '10:30' AS time FROM leaderboard WHERE rank <= 2 ORDER BY rank")
    assert answer.columns == ("candidate", "time")
    assert answer.rows == ((1, "10:30"), (2, "10:30"))
