"""Every command that prints something prints it as one JSON document, too, when it is asked to. That it is one, and
what its schema says: `test_schemas`."""

import json
import re
import sqlite3
from pathlib import Path

import pytest

from scripts.documentation.docs_commands import PAGE, commands
from tests.support.command_line import Shell
from tests.support.json_commands import ARGUMENTS, RUN, write_places

WITHOUT = {
    "resume": "drives a run; `pace status --json` reads it",
    "optimize": "drives a run; `pace status --json` reads it",
    "watch": "a screen for a person; `pace status --json` reads a run",
    "prompts init": "files to be changed",
    "idea add": "prints the idea's number; `pace idea list --json` reads ideas",
    "idea veto": "`pace idea list --json` reads what holds of ideas",
    "idea pin": "`pace idea list --json` reads what holds of ideas",
    "candidate ban": "`pace show --json` says what holds of a candidate",
    "candidate pin": "`pace show --json` says what holds of a candidate",
    "candidate add": "says when the run looks; `pace show --json` reads candidates",
    "web": "pages for a person, served until it is stopped",
    "stop": "ends a run; `pace status --json` reads it",
    "rm": "asks a person, and `pace list --json` shows what is left",
    "db shell": "a prompt for a person",
    "config schema": "prints JSON anyway",
    "schema": "prints JSON anyway",
}


@pytest.fixture(autouse=True)
def folder(finished_run: Path, tmp_path: Path) -> None:
    write_places(tmp_path)


def test_every_command_is_covered() -> None:
    takes = {
        name.removeprefix("pace "): any("--json" in option.opts for option in command.params)
        for name, command in commands()
    }
    assert {name for name, json_too in takes.items() if json_too} == set(ARGUMENTS)
    assert {name for name, json_too in takes.items() if not json_too} == set(WITHOUT)


def test_rows_are_one_list_and_their_file_is_reported(shell: Shell) -> None:
    rows = json.loads(shell.pace("export", RUN, "--json").out)
    lines = [json.loads(line) for line in shell.pace("export", RUN, "--format", "jsonl").out.splitlines()]
    assert rows == lines
    assert len(rows) == 41
    told = json.loads(shell.pace("export", RUN, "-o", "rows.csv", "--json").out)
    assert told == {"what": "candidates", "rows": 41, "path": "rows.csv"}
    told = json.loads(shell.pace("export", RUN, "--what", "programs", "-o", "programs", "--json").out)
    assert told["rows"] == len(list((shell.folder / "programs").iterdir()))


def test_a_dry_run_gives_the_plan_and_the_configuration(shell: Shell) -> None:
    found = json.loads(shell.pace("run", "--dry-run", "--json", "--candidates", "9").out)
    assert found["plan"]["stops"] == "at 9 candidates"
    assert found["config"]["stop"]["candidates"] == 9
    said = shell.pace("run", "--json")
    assert (said.code, said.out) == (2, "")
    assert "--json goes with --dry-run" in said.err


def test_an_upgrade_says_whether_there_was_one(shell: Shell) -> None:
    found = json.loads(shell.pace("db", "upgrade", RUN, "--json").out)
    assert (found["upgraded"], found["before"]) == (False, "current")


def test_the_table_of_exit_codes_names_each_check_where_it_belongs(shell: Shell) -> None:
    (shell.folder / "run.yaml").write_text("learner: {k: 0}\n")
    with sqlite3.connect(shell.folder / "runs" / RUN / "population.db") as database:
        database.execute("update versions set version = 99 where version = 2")
    database.close()
    table = dict(re.findall(r"^\| (\d+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    for command in ("task check", "config validate", "db check"):
        code = shell.pace(*command.split(), *ARGUMENTS[command]).code
        assert code != 0
        assert [named for named, means in table.items() if f"`pace {command}`" in means] == [str(code)], command


def test_the_outcome_of_a_program_is_printed_and_is_no_exit_code(shell: Shell) -> None:
    said = shell.pace("eval", "circle_packing", "bad.py", "--json")
    assert (said.code, json.loads(said.out)["outcome"]) == (0, "candidate_error")
    assert "exit code is 0 for every outcome of the program" in " ".join(shell.pace("eval", "--help").out.split())
