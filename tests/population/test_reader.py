"""Whatever is wrong with a file is one sentence, and reading changes nothing."""

import os
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
from tests.support.population_facts import empty_place, rollout
from tests.support.populations import damage_of


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
