"""pace diff, show and export: what they say, and that a candidate's text cannot steer a terminal."""

import csv
import importlib
import io
import json
import os
import pty
import sqlite3
import subprocess
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.population.reading.stream import Kind
from pace_async.report.difference import count_changes, difference
from pace_async.report.parquet import TYPES
from pace_async.report.rows import write_rows_as_parquet
from pace_async.report.visible import visible
from tests.support.command_line import PACE, Shell
from tests.support.finished_runs import poison

pytestmark = pytest.mark.usefixtures("finished_run")


def ask(shell: Shell, sql: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(shell.folder / "runs/circle_packing-1/population.db")
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


def test_diff_compares_the_seed_program_with_the_best(shell: Shell) -> None:
    best = ask(shell, "select candidate, program from candidates order by merit desc limit 1")[0]
    said = shell.pace("diff")
    lines = said.out.splitlines()
    assert said.code == 0
    assert lines[0].startswith("--- seed program (")
    assert lines[1].startswith(f"+++ candidate {best[0]} (")
    added = [line[1:] for line in lines[2:] if line.startswith("+")]
    assert added
    assert all(line in str(best[1]).splitlines() for line in added)
    assert "\x1b" not in said.out


def test_show_prints_what_a_candidate_changed_and_its_whole_program_when_asked(shell: Shell) -> None:
    child, parent, program = ask(
        shell, "select candidate, parent, program from candidates where parent > 0 and score is not null"
    )[0]
    changed = shell.pace("show", str(child)).out.partition(f"changes of candidate {parent} (--program")[2]
    assert f"\n    +added_{child} = " in changed
    assert f"--- candidate {parent}" in changed
    whole = shell.pace("show", str(child), "--program").out.partition("\nprogram\n")[2]
    assert [line.removeprefix("    ") for line in whole.splitlines()] == program.splitlines()
    seed = ask(shell, "select program from candidates where candidate = 0")[0][0]
    assert seed.splitlines()[0] in shell.pace("show", "seed").out.partition("\nprogram\n")[2]


def test_an_advisor_that_the_run_does_not_serve_has_no_versions(shell: Shell) -> None:
    calls = [line for line in shell.pace("show", "1").out.splitlines() if "tokens in" in line]
    assert calls
    assert all(", version " in line for line in calls)
    database = sqlite3.connect(shell.folder / "runs/circle_packing-1/population.db")
    with database:
        database.execute("update advisor_calls set spans = x''")
    calls = [line for line in shell.pace("show", "1").out.splitlines() if "tokens in" in line]
    assert calls
    assert all(line.endswith(" out)") for line in calls)
    with database:
        database.execute("update advisor_calls set prompt_ids = x'', prompt_tokens = 0, completion_ids = x''")
        database.execute("update advisor_calls set completion_tokens = 0, logprobs = x''")
    database.close()
    assert "propose" in shell.pace("show", "1").out.splitlines()


def test_without_a_candidate_the_best_one_is_shown(shell: Shell) -> None:
    assert shell.pace("show").out == shell.pace("show", "best").out != shell.pace("show", "1").out


def test_diff_takes_numbers_and_parent_and_json(shell: Shell) -> None:
    child, parent = ask(shell, "select candidate, parent from candidates where parent > 0 and score is not null")[0]
    found = json.loads(shell.pace("diff", "circle_packing-1", "parent", str(child), "--json").out)
    assert (found["a"]["candidate"], found["b"]["candidate"]) == (parent, child)
    assert found["added"] == found["diff"].count("\n+") - 1
    assert f"\n+added_{child} = " in found["diff"]
    assert "are the same program" in shell.pace("diff", "circle_packing-1", str(child), str(child)).out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["circle_packing-1", "first"], "'first' is not a candidate"),
        (["circle_packing-1", "seed", "9999"], "no candidate 9999"),
        (["circle_packing-1", "parent", "seed"], "has no parent"),
    ],
)
def test_diff_says_in_a_sentence_which_candidate_is_wrong(shell: Shell, arguments: list[str], says: str) -> None:
    said = shell.pace("diff", *arguments)
    assert said.code == 2
    assert says in said.err
    assert len(said.err.strip().splitlines()) == 1


@pytest.mark.fault("Configuration and terminal", "hostile text cannot steer the terminal")
def test_on_a_terminal_the_diff_is_coloured_and_a_program_cannot_steer_it(shell: Shell) -> None:
    poison(shell.folder / "runs/circle_packing-1")
    shown = on_a_terminal(shell.folder, "diff", "circle_packing-1")
    assert "\x1b[32m+# </pre>" in shown
    for sequence in ("\x1b[31m<", "\x1b]0;", "\u202e", "\x07"):
        assert sequence not in shown
    assert "\\x1b]0;owned\\x07\\u202egnp.exe [bold]x[/bold]" in shown
    assert "\x1b" not in on_a_terminal(shell.folder, "diff", "circle_packing-1", NO_COLOR="1")


@pytest.mark.long
def test_rows_on_a_terminal_are_made_visible_and_in_a_file_left_alone(shell: Shell) -> None:
    poison(shell.folder / "runs/circle_packing-1")
    shown = on_a_terminal(shell.folder, "export", "circle_packing-1", "--what", "ideas")
    assert "\\x1b]0;owned" in shown
    assert "\x1b" not in shown
    shell.pace("export", "circle_packing-1", "--what", "ideas", "-o", "ideas.csv")
    assert "\x1b]0;owned" in (shell.folder / "ideas.csv").read_text()


@pytest.mark.fault("Configuration and terminal", "hostile text is no formula in a spreadsheet")
def test_no_text_in_a_csv_is_a_formula_and_json_lines_keep_it(shell: Shell) -> None:
    formulas = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1+1", " =1+1", "\r=1"]
    with closing(sqlite3.connect(shell.folder / "runs/circle_packing-1/population.db")) as database, database:
        for candidate, text in enumerate(formulas, 1):
            database.execute("update experiments set description = ? where lease = ?", (text, candidate))
    told = shell.pace("export", "circle_packing-1", "-o", "rows.csv")
    assert told.code == 0
    with (shell.folder / "rows.csv").open(newline="") as stream:
        rows = {int(row["candidate"]): row for row in csv.DictReader(stream)}
    assert [rows[number]["experiment"] for number in range(1, len(formulas) + 1)] == [f"'{text}" for text in formulas]
    lines = map(json.loads, shell.pace("export", "circle_packing-1", "--format", "jsonl").out.splitlines())
    assert [row["experiment"] for row in lines if 1 <= row["candidate"] <= len(formulas)] == formulas


KINDS: tuple[Kind, ...] = ("candidates", "rollouts", "ideas", "updates")


@pytest.mark.parametrize("what", KINDS)
def test_parquet_has_the_columns_and_values_of_json_lines_with_types(shell: Shell, what: Kind) -> None:
    parquet = importlib.import_module("pyarrow.parquet")
    told = shell.pace("export", "circle_packing-1", "--what", what, "--format", "parquet", "-o", "rows.parquet")
    assert told.code == 0, told.err
    table = parquet.read_table(shell.folder / "rows.parquet")
    lines = shell.pace("export", "circle_packing-1", "--what", what, "--format", "jsonl").out.splitlines()
    expected = [json.loads(line) for line in lines]
    assert table.column_names == list(expected[0]) == list(TYPES[what])
    types = {"time": "timestamp[us, tz=UTC]"}
    assert [str(field.type) for field in table.schema] == [types.get(name, name) for name in TYPES[what].values()]
    for row, wanted in zip(table.to_pylist(), expected, strict=True):
        for name, value in row.items():
            if isinstance(value, datetime):
                assert value.timestamp() == pytest.approx(wanted[name], abs=1e-6)
            elif name == "metrics" and value is not None:
                assert json.loads(value) == wanted[name]
            else:
                assert value == wanted[name]


def test_parquet_of_no_rows_has_the_columns_and_long_runs_come_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_file = importlib.import_module("pyarrow.parquet").ParquetFile
    assert write_rows_as_parquet([], "ideas", tmp_path / "none.parquet", force=False) == 0
    assert from_file(tmp_path / "none.parquet").schema_arrow.names == list(TYPES["ideas"])
    monkeypatch.setattr("pace_async.report.parquet.ROWS_AT_ONCE", 2)
    rows = [dict.fromkeys(TYPES["ideas"]) | {"idea": number} for number in range(5)]
    assert write_rows_as_parquet(iter(rows), "ideas", tmp_path / "five.parquet", force=False) == 5
    assert from_file(tmp_path / "five.parquet").num_row_groups == 3


def test_parquet_needs_a_file_and_overwrites_none(shell: Shell) -> None:
    arguments = ("export", "circle_packing-1", "--format", "parquet")
    assert "name it, as in `-o candidates.parquet`" in shell.pace(*arguments).err
    (shell.folder / "mine").write_text("mine")
    assert shell.pace(*arguments, "-o", "mine").code == 2
    assert (shell.folder / "mine").read_text() == "mine"
    assert shell.pace(*arguments, "-o", "mine", "--force").code == 0


def on_a_terminal(folder: Path, *arguments: str, **environment: str) -> str:
    """Output of the command on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment = {**kept, "TERM": "xterm", **environment}
    with subprocess.Popen(
        [PACE, *arguments], stdout=theirs, stdin=subprocess.DEVNULL, cwd=folder, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0
    return shown.decode()


@pytest.mark.parametrize(
    ("what", "sql"),
    [
        ("candidates", "select count(*), count(*) from candidates"),
        ("rollouts", "select count(*), count(*) from leases"),
        ("ideas", "select count(*), count(*) from ideas"),
        ("updates", "select count(*), count(*) from groups"),
    ],
)
def test_csv_and_json_lines_hold_the_same_rows(shell: Shell, what: str, sql: str) -> None:
    table = list(csv.DictReader(io.StringIO(shell.pace("export", "--what", what).out)))
    lines = [json.loads(line) for line in shell.pace("export", "--what", what, "--format", "jsonl").out.splitlines()]
    assert len(table) == len(lines) == ask(shell, sql)[0][0] > 0
    assert list(table[0]) == list(lines[0])
    for row, line in zip(table, lines, strict=True):
        for name, value in line.items():
            if value is None:
                assert row[name] == ""
            elif isinstance(value, float):
                assert float(row[name]) == value
            elif isinstance(value, str):
                assert row[name] == value


def test_updates_carry_the_learners_measures_as_numbers(shell: Shell) -> None:
    lines = [
        json.loads(line) for line in shell.pace("export", "--what", "updates", "--format", "jsonl").out.splitlines()
    ]
    trained = [line for line in lines if line["state"] == "trained"]
    assert trained
    assert all(isinstance(line["entropy"], float) and isinstance(line["metrics"], dict) for line in trained)
    assert [line["version"] for line in trained] == list(range(1, len(trained) + 1))


def test_nothing_is_overwritten_unless_asked(shell: Shell) -> None:
    assert shell.pace("export", "-o", "rows.csv").code == 0
    (shell.folder / "rows.csv").write_text("mine")
    said = shell.pace("export", "-o", "rows.csv")
    assert (said.code, (shell.folder / "rows.csv").read_text()) == (2, "mine")
    assert "--force" in said.err
    assert shell.pace("export", "-o", "rows.csv", "--force").code == 0
    assert (shell.folder / "rows.csv").read_text().startswith("candidate,")
    assert shell.pace("export", "-o", "no/such/rows.csv").code == 2
    assert shell.files() == ["rows.csv", "runs"]


def test_programs_are_files_of_their_own(shell: Shell) -> None:
    assert shell.pace("export", "--what", "programs").code == 2
    assert shell.pace("export", "--what", "programs", "-o", "made").code == 0
    programs = ask(shell, "select candidate, program from candidates where program is not null")
    written = {int(path.stem): path.read_text() for path in (shell.folder / "made").iterdir()}
    assert written == dict(programs)
    said = shell.pace("export", "--what", "programs", "-o", "made")
    assert said.code == 2
    assert "made holds files already" in said.err
    assert shell.pace("export", "--what", "programs", "-o", "made", "--force").code == 0


def test_json_on_every_terminal_holds_no_control_character(shell: Shell) -> None:
    poison(shell.folder / "runs/circle_packing-1")
    best = shell.pace("best", "--json")
    assert "owned" in json.loads(best.out)["program"]
    assert json.loads(best.out)["program"].count("\u202e") == 1
    assert "\u202e" not in best.out


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_visible_text_holds_no_control_sequence(text: str) -> None:
    shown = visible(text)
    assert all(character.isprintable() for character in shown)
    assert visible(text, keep="\n").count("\n") == text.count("\n")
    if text.isascii() and text.isprintable():
        assert shown == text


@settings(max_examples=100, deadline=None)
@given(st.text("ab\n\r\x0c\u2028 "), st.text("ab\n\r\x0c\u2028 "))
def test_a_difference_leads_from_one_program_to_the_other(a: str, b: str) -> None:
    lines = difference(a, b, "a", "b", context=1000)
    assert (lines == []) == (a == b)
    if lines:
        body = [line for line in lines if line.kind in ("same", "removed", "added")]
        old = [line.text[1:] for line in body if line.kind != "added"]
        new = [line.text[1:] for line in body if line.kind != "removed"]
        assert old == [visible(line) for line in a.removesuffix("\n").split("\n")] or a == ""
        assert new == [visible(line) for line in b.removesuffix("\n").split("\n")] or b == ""
        added, removed = count_changes(lines)
        assert added - removed == len(new) - len(old)
