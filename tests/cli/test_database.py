"""pace db shell, backup and check."""

import io
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pace_async.errors import UsageError
from pace_async.population.backup import back_up
from pace_async.population.checking import check_population
from pace_async.population.lock import RunLock
from pace_async.population.reading.reader import open_readonly
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.stages import World
from tests.support.command_line import Shell
from tests.support.simulated_runs import settings, simulated

pytestmark = pytest.mark.usefixtures("finished_run")


def database(shell: Shell) -> Path:
    return shell.folder / "runs" / "circle_packing-1" / "population.db"


def last_trained(path: Path) -> int:
    """The last lease that was trained: which leases a discarded group contains depends on the order of completion."""
    connection = sqlite3.connect(path)
    (lease,) = connection.execute("select max(lease) from leases where state = 'trained'").fetchone()
    connection.close()
    return int(lease)


def change(path: Path, *statements: str) -> None:
    """What a person who edits the file by hand could do, constraints off."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("pragma ignore_check_constraints = on")
        for statement in statements:
            connection.execute(statement)
    connection.close()


def scribble(path: Path) -> None:
    """Spoil one page of the advisor's calls."""
    connection = sqlite3.connect(path)
    root = connection.execute("select rootpage from sqlite_master where name = 'advisor_calls'").fetchone()[0]
    connection.close()
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 : (root - 1) * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)


def test_a_finished_run_is_sound_in_every_respect(shell: Shell) -> None:
    found = json.loads(shell.pace("db", "check", "circle_packing-1", "--json").out)
    assert found["sound"] is True
    assert found["damage"] == []
    names = [check["check"].split(" ")[0] for check in found["checks"]]
    assert names == [
        *("file", "references", "conservation", "staleness", "versions", "candidates", "attempts", "rows", "journal"),
        *("snapshot", "view"),
    ]
    assert all(check["ok"] for check in found["checks"])
    assert "admitted 40 = trained" in shell.pace("db", "check", "circle_packing-1").out


@pytest.mark.parametrize(
    ("statement", "check", "says"),
    [
        ("update leases set island = 99 where lease = 1", "references", "islands"),
        ("delete from leases where lease = 3", "references", "leases"),
        ("update leases set state = 'skipped' where lease = 1", "conservation", "lease 1 is skipped"),
        ("update leases set group_number = 2 where group_number = 1 and lease < 3", "conservation", "where 4 belong"),
        (
            "update leases set staleness = 3, oldest_version = trained_by - 3 where lease = {last}",
            "staleness",
            "lease {last}",
        ),
        ("update leases set staleness = 0, oldest_version = 0 where lease = {last}", "staleness", "lease {last}"),
        (
            "update evaluation_attempts set attempt = 2 where lease = (select min(lease) from evaluation_attempts)",
            "attempts",
            "has 1 attempts in stage full (fresh 0), and the last is number 2",
        ),
        ("update versions set version = 99 where version = 2", "versions", "0 to 99 belong"),
        ("update groups set state = 'skipped' where update_number = 1 and state = 'trained'", "versions", "version 2"),
        ("update leases set stage = 'advised' where lease = 5", "candidates", "candidate 5"),
    ],
)
def test_check_names_what_was_broken_by_hand(shell: Shell, statement: str, check: str, says: str) -> None:
    last = last_trained(database(shell))
    change(database(shell), statement.format(last=last))
    said = shell.pace("db", "check", "circle_packing-1", "--json")
    found = json.loads(said.out)
    assert (said.code, found["sound"]) == (1, False)
    wrong = {one["check"].split(" ")[0]: " ".join(one["wrong"]) for one in found["checks"] if not one["ok"]}
    assert says.format(last=last) in wrong[check]
    assert shell.pace("db", "check", "circle_packing-1").code == 1


def test_a_run_that_trained_nothing_has_no_staleness(shell: Shell) -> None:
    folder = shell.folder / "runs" / "searched"
    folder.mkdir()

    async def search() -> None:
        async with simulated(folder, settings(stop__candidates=8, learner__objective="none"), World()) as run:
            await drive(run.core, None, signals=False)

    anyio.run(search)
    checked, status = shell.pace("db", "check", "searched"), shell.pace("status", "searched")
    for said in (checked, status):
        assert (said.code, said.err) == (0, "")
        assert "in what was trained" not in said.out
    assert "nothing was trained" in checked.out
    assert "staleness" not in status.out
    assert "in what was trained" in shell.pace("db", "check", "circle_packing-1").out
    assert "in what was trained" in shell.pace("status", "circle_packing-1").out


def test_the_leaderboard_has_the_age_at_which_a_group_left_trained_or_skipped(shell: Shell) -> None:
    asked = "select l.state, b.staleness from leaderboard b join leases l on l.lease = b.candidate"
    rows = json.loads(shell.pace("db", "sql", "circle_packing-1", asked, "--json").out)
    assert {row["state"] for row in rows} == {"trained", "skipped"}
    assert all(row["staleness"] is not None for row in rows)
    assert "if the group was skipped" in (Path(__file__).parents[2] / "docs" / "sql.md").read_text()


def test_a_run_of_the_policy_soft_is_sound_beyond_the_bound_and_its_sums_are_still_checked(shell: Shell) -> None:
    stale = (
        "update leases set oldest_version = 0, staleness = trained_by where state = 'trained'",
        "update runs set max_staleness = 1",
    )
    change(database(shell), *stale)
    assert shell.pace("db", "check", "circle_packing-1").code == 1
    change(database(shell), "update runs set config = json_set(config, '$.staleness.policy', 'soft')")
    said = shell.pace("db", "check", "circle_packing-1")
    assert (said.code, said.err) == (0, "")
    assert "no bound under the policy soft, 1 in the mean" in said.out
    last = last_trained(database(shell))
    change(database(shell), f"update leases set staleness = staleness + 1 where lease = {last}")
    assert f"lease {last} trained update" in shell.pace("db", "check", "circle_packing-1").out


@pytest.mark.fault("Database", "a damaged page")
def test_a_damaged_page_is_found_before_any_other_check(shell: Shell) -> None:
    path = database(shell)
    scribble(path)
    said = shell.pace("db", "check", "circle_packing-1", "--json")
    found = json.loads(said.out)
    assert said.code == 1
    assert [check["check"] for check in found["checks"]] == ["file"]
    assert found["damage"]


def test_a_backup_is_one_checked_file_with_the_same_rows(shell: Shell) -> None:
    said = shell.pace("db", "backup", "circle_packing-1", "copy.db", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["bytes"] == (shell.folder / "copy.db").stat().st_size
    with open_readonly(database(shell)) as ours, open_readonly(shell.folder / "copy.db") as copy:
        assert copy.status() == ours.status()
        assert all(check.ok for check in check_population(copy))
    assert [name for name in shell.files() if not name.endswith(("-wal", "-shm"))] == ["copy.db", "runs"]


def test_a_backup_says_that_the_weights_are_not_in_it(shell: Shell) -> None:
    said = shell.pace("db", "backup", "circle_packing-1", "copy.db")
    assert "checked" in said.out
    assert "weights" not in said.out  # of a run that has none
    (database(shell).parent / "learner").mkdir()
    said = shell.pace("db", "backup", "circle_packing-1", "again.db")
    assert "weights are not in it: a resume from it needs runs/circle_packing-1/learner and runs/circle_" in said.out


def test_a_backup_alone_can_be_checked_and_read(shell: Shell) -> None:
    shell.pace("db", "backup", "circle_packing-1", "copy.db")
    shutil.rmtree(shell.folder / "runs")
    checked = json.loads(shell.pace("db", "check", "copy.db", "--json").out)
    assert checked["sound"] is True
    assert json.loads(shell.pace("db", "sql", "copy.db", "select count(*) n from runs", "--json").out) == [{"n": 1}]
    assert len(json.loads(shell.pace("export", "copy.db", "--json").out)) == 41
    for command in (("status", "copy.db"), ("resume", "copy.db"), ("db", "backup", "copy.db", "again.db")):
        said = shell.pace(*command)
        assert said.code == 2, command
        assert "every command does once it is called population.db in a folder of its own" in said.err
    (shell.folder / "copy").mkdir()
    (shell.folder / "copy.db").rename(shell.folder / "copy" / "population.db")
    assert "40" in shell.pace("status", "copy").out
    (shell.folder / "notes.txt").write_text("no database")
    said = shell.pace("db", "check", "notes.txt")
    assert (said.code, "notes.txt is not a population database" in said.err) == (2, True)


def test_a_backup_taken_while_the_run_writes_is_one_moment_of_it(shell: Shell) -> None:
    writer = sqlite3.connect(database(shell), isolation_level=None)
    writer.execute("pragma journal_mode=wal")
    writer.execute("insert into run_states values (1, 1000, 'running', 'committed', 1.0)")
    writer.execute("begin immediate")
    writer.execute("insert into run_states values (1, 1001, 'running', 'not committed', 1.0)")
    back_up(database(shell), shell.folder / "copy.db")
    writer.execute("rollback")
    writer.close()
    copy = sqlite3.connect(shell.folder / "copy.db")
    assert [row[0] for row in copy.execute("select reason from run_states where number >= 1000")] == ["committed"]
    copy.close()


def test_a_backup_overwrites_nothing_unless_asked_and_never_the_run_itself(shell: Shell) -> None:
    target = shell.folder / "copy.db"
    target.write_text("mine")
    said = shell.pace("db", "backup", "circle_packing-1", "copy.db")
    assert (said.code, target.read_text()) == (2, "mine")
    assert "--force" in said.err
    assert shell.pace("db", "backup", "circle_packing-1", "copy.db", "--force").code == 0
    assert target.read_bytes().startswith(b"SQLite format 3")
    said = shell.pace("db", "backup", "circle_packing-1", str(database(shell)), "--force")
    assert (said.code, "is the population itself" in said.err) == (2, True)
    assert shell.pace("db", "backup", "circle_packing-1", "no/such/copy.db").code == 2
    assert shell.pace("db", "backup", "circle_packing-1", "runs").code == 2


def test_a_copy_that_fails_its_check_leaves_nothing_behind(shell: Shell) -> None:
    path = database(shell)
    scribble(path)
    with pytest.raises(UsageError, match=r"copied|check"):
        back_up(path, shell.folder / "copy.db")
    assert shell.files() == ["runs"]


@pytest.mark.parametrize("statement", ["", " \n", ";", " -- nothing", "/* nothing */ ;"])
def test_a_statement_that_is_empty_is_refused(shell: Shell, statement: str) -> None:
    said = shell.pace("db", "sql", "circle_packing-1", statement)
    assert said.code == 2
    assert "it is empty" in said.err


def test_a_statement_alone_is_asked_of_the_latest_run_and_a_run_alone_asks_nothing(shell: Shell) -> None:
    database(shell)
    assert json.loads(shell.pace("db", "sql", "select 3 + 4 as seven from runs", "--json").out) == [{"seven": 7}]
    for given in ([], ["circle_packing-1"]):
        said = shell.pace("db", "sql", *given)
        assert said.code == 2
        assert f'pace db sql {"".join(given) or "RUN"} "select' in said.err


@pytest.mark.long
@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="there is no sqlite3")
def test_sqlite3_at_the_prompt_reads_this_population_and_no_other_file(shell: Shell) -> None:
    typed = "select 3 + 4 as seven from runs;\nattach 'other.db' as other;\n"
    for last in ("", ".shell touch other\n", ".output other\n"):  # each ends it
        said = subprocess.run(
            [sys.executable, "-m", "pace_async", "db", "shell", str(database(shell).parent)],
            input=last or typed,
            cwd=shell.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode in (0, 1)
        assert "safe mode" in said.stderr or "not authorized" in said.stderr or "readonly" in said.stderr, said
        assert last or "7" in said.stdout
    assert shell.files() == ["runs"]


Types = Callable[..., tuple[int, str, str]]


@pytest.fixture
def types(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Types:
    """Type lines at pace's own prompt."""

    def run(text: str, *flags: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        said = shell.pace("db", "shell", "circle_packing-1", "--built-in", *flags)
        return said.code, said.out, said.err

    return run


def test_the_prompt_answers_statements_over_several_lines(types: Types) -> None:
    code, out, err = types(
        ".tables\nselect count(*) as n\nfrom candidates;select 'a;b' as t;\n.schema spend\n.quit\nx;"
    )
    assert (code, err) == (0, "")
    assert "leaderboard" in out
    assert "41" in out.split()
    assert "a;b" in out
    assert "CREATE VIEW spend" in out


def test_the_prompt_goes_on_after_a_mistake_and_refuses_to_write(types: Types, shell: Shell) -> None:
    code, out, err = types("selec 1;\ndelete from faults;\nselect 7 as seven;\n")
    assert code == 0
    assert "syntax error" in err
    assert "readonly" in err
    assert "seven" in out
    assert types("update runs set name = 'renamed';", "--write")[0] == 0
    with open_readonly(database(shell)) as reader:
        assert reader.runs() == ("renamed",)


def test_writing_is_refused_while_the_run_is_driven(types: Types, shell: Shell) -> None:
    with RunLock(database(shell).parent):
        code, _, err = types("delete from faults;", "--write")
        assert (code, "is driven by" in err) == (4, True)
        assert types("select 1;")[0] == 0
