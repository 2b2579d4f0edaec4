"""Whatever is wrong with a file is one sentence, and reading changes nothing."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from pace_async.errors import UsageError
from pace_async.population.connect import Place
from pace_async.population.reading.reader import open_readonly
from pace_async.population.schema import schema_state, upgrade
from pace_async.population.store import Store
from tests.support.population_facts import BOTH, empty_place, fresh, populations_of, populations_on, rollout
from tests.support.populations import damage_of
from tests.support.postgres import PostgresServer


async def _small_run(folder: Path) -> Place:
    async with fresh(folder) as store:
        for lease in range(1, 30):
            await store.commit(*rollout(lease))
        return store.place


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A file, to be spoilt."""
    made = anyio.run(_small_run, tmp_path)
    assert isinstance(made, Path)
    return made


@pytest.fixture(scope="module", params=BOTH)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A run in a file or on a server, to be read."""
    with populations_of(request):
        return anyio.run(_small_run, tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def on_server(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A run on a server, to be read."""
    with populations_on(postgres):
        return anyio.run(_small_run, tmp_path_factory.mktemp("server"))


async def _resume(database: Path) -> None:
    async with Store.open(database, create=False) as store:
        await store.load()


async def _begin(database: Path) -> None:
    async with Store.open(database) as store:
        await store.load()


def _spoil_nothing(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path) -> None:
    path.write_text("not a database at all, but long enough to have a header of a hundred bytes" * 3)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _cut_to_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def _other_database(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()


def _scribbled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    path.write_bytes(content)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (_spoil_nothing, "There is no population at"),
    "empty": (_empty, "not a population database, or is damaged"),
    "text": (_text, "not a population database, or is damaged"),
    "cut in half": (_cut, "is cut short"),
    "cut within the header": (_cut_to_header, "not a population database, or is damaged"),
    "another program's": (_other_database, "a database but not a population"),
    "overwritten": (_scribbled, "cannot be read"),
    "a folder": (_folder, "Cannot read"),
}


@pytest.mark.fault("Database", "no population at all")
@pytest.mark.parametrize(("spoil", "sentence"), SPOILED.values(), ids=SPOILED.keys())
def test_a_file_that_is_no_population_is_one_sentence_and_stays_as_it_is(
    database: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    spoil(database)
    before = database.read_bytes() if database.is_file() else None
    with pytest.raises(UsageError, match=sentence) as raised, open_readonly(database) as reader:
        reader.status()
    assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match=sentence):
        anyio.run(_resume, database)
    if before is None:
        assert not database.is_file()
    else:
        with pytest.raises(UsageError, match=sentence):
            anyio.run(_begin, database)
        with pytest.raises(UsageError, match=sentence):
            upgrade(database)
        assert database.read_bytes() == before


@pytest.mark.fault("Database", "a damaged page")
def test_an_overwritten_page_is_found_by_check_and_is_one_sentence_for_readers(database: Path) -> None:
    connection = sqlite3.connect(database)
    [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'candidates'")
    [(size,)] = connection.execute("PRAGMA page_size")
    connection.close()
    content = bytearray(database.read_bytes())
    content[(page - 1) * size : page * size] = b"\x5a" * size
    database.write_bytes(content)
    with open_readonly(database) as reader:
        assert damage_of(reader) != ()
        with pytest.raises(UsageError, match="cannot be read"):
            reader.status()


def test_a_row_that_refers_to_nothing_is_found_by_check(database: Path) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute("DELETE FROM islands")
    connection.close()
    with open_readonly(database) as reader:
        assert any("leases refers to a row of islands" in line for line in damage_of(reader))


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


def test_a_candidate_that_does_not_exist_is_a_sentence(place: Place) -> None:
    with open_readonly(place) as reader, pytest.raises(UsageError, match="no candidate 99; the newest is 29"):
        reader.show(99)


@pytest.mark.usefixtures("both")
def test_a_population_without_a_run_says_so(tmp_path: Path) -> None:
    with open_readonly(empty_place(tmp_path)) as reader:
        for question in (reader.status, reader.best, reader.record):
            with pytest.raises(UsageError, match="holds no run"):
                question()


@pytest.mark.parametrize("where", ["mysql://host/db", "sqlite://", "sqlite:///:memory:", "what://is this"])
def test_an_address_that_is_no_file_is_a_sentence(where: str) -> None:
    with pytest.raises(UsageError):
        schema_state(where)


def test_a_population_can_be_named_by_url(database: Path) -> None:
    with open_readonly(f"sqlite:///{database}") as reader:
        assert (reader.status()["candidates"], reader.header().seed) == (29, 7)


NOBODY = """
import os, sqlite3, sys
from pace_async.population.connect import Place
from pace_async.population.reading.reader import open_readonly
from pace_async.population.sqlite import reading_uri, uri_of
with open_readonly(sys.argv[1]) as reader:  # as who we are, so that nothing is left to import
    reader.status()
if os.geteuid() == 0:
    os.setuid(65534)
assert not os.access(os.path.dirname(sys.argv[2]), os.W_OK)
with open_readonly(sys.argv[2]) as reader:
    print(reader.status()["candidates"])
    with reader._open() as connection:
        assert uri_of(connection) == reading_uri(reader.place)
    by_hand = sqlite3.connect(reading_uri(reader.place), uri=True)
    print(by_hand.execute("select count(*) from candidates where lease > 0").fetchone()[0])
"""


@pytest.fixture
def archived(database: Path) -> Iterator[Path]:
    """A copy in a folder that nobody may write to."""
    folder = Path(tempfile.mkdtemp())
    copy = Path(shutil.copy(database, folder / "population.db"))
    copy.chmod(0o444)
    folder.chmod(0o555)
    yield copy
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.long
def test_a_population_can_be_read_where_nothing_may_be_written(database: Path, archived: Path) -> None:
    command = [sys.executable, "-c", NOBODY, str(database), str(archived)]
    checkout = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("29\n29\n", "")
    assert [path.name for path in archived.parent.iterdir()] == ["population.db"]


STAYING = """
import os, sys
from pathlib import Path
from pace_async.errors import UsageError
from pace_async.population.connect import Place
from pace_async.population.reading.reader import open_readonly
own, path = sys.argv[1:]
with open_readonly(own) as reader:  # as who we are, so that nothing is left to import
    reader.status()
if os.geteuid() == 0:
    os.setuid(65534)
assert not os.access(os.path.dirname(path), os.W_OK)
with open_readonly(path) as reader:
    print(reader.status()["candidates"], flush=True)
    for what in sys.stdin:
        if what == "amid\\n":
            rows = reader.stream("candidates")
            print(sum(1 for _ in zip(range(1), rows)), flush=True)
            sys.stdin.readline()
            try:
                print(sum(1 for _ in rows), flush=True)
            except UsageError as error:
                print(str(error).replace(path, "it"), flush=True)
        else:
            print(reader.status()["candidates"], flush=True)
"""


async def _more(database: Path, first: int, most: int, asked: Callable[[], str] = lambda: "") -> str:
    """Rollouts of another session. What is `asked` while it has the file open."""
    async with Store.open(database, create=False) as store:
        await store.load()
        for lease in range(first, most):
            await store.commit(*rollout(lease))
        return asked()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that others may read and not write."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read as another user")
def test_a_reader_who_may_not_write_sees_what_a_later_session_writes(database: Path, shared: Path) -> None:
    copy = Path(shutil.copy(database, shared / "population.db"))
    copy.chmod(0o644)
    with subprocess.Popen(
        [sys.executable, "-c", STAYING, str(database), str(copy)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reading:
        assert reading.stdin is not None and reading.stdout is not None
        given, said = reading.stdin, reading.stdout

        def asked(what: str = "") -> str:
            given.write(f"{what}\n")
            given.flush()
            return said.readline().strip()

        assert said.readline() == "29\n"
        assert asked("amid") == "1"
        anyio.run(_more, copy, 30, 40)
        assert asked() == "it was written while it was read: ask again."
        assert asked() == "39"
        assert anyio.run(_more, copy, 40, 50, asked) == "49"
        anyio.run(_more, copy, 50, 60)
        assert asked() == "59"
        reading.stdin.close()


def test_opening_a_file_again_takes_no_lock_from_a_reader_that_has_it_open(database: Path) -> None:
    """Else the next process to close the file would remove its log, and the first reader would see no later commit."""
    write = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('update runs set seed = seed + 1')"
    command = [sys.executable, "-c", f"{write}; c.commit(); c.close()", str(database)]
    with open_readonly(database) as reader:
        (before,) = reader.query("select seed from runs")
        with open_readonly(database) as other:
            assert other.query("select seed from runs") == [before]
        for number in (1, 2):
            subprocess.run(command, check=True)
            assert reader.query("select seed from runs") == [{"seed": before["seed"] + number}]
