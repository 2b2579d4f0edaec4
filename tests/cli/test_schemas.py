"""What a command prints with --json is one document, and what its schema says: every key is there, and no other."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any, cast, get_type_hints

import pytest
from jsonschema import Draft202012Validator

from pace_async.cli.documents import DOCUMENTS
from pace_async.cli.schemas import schema_of
from pace_async.events import CascadeScore, FreshScore, ImplementerChosen, ImplementerTry
from pace_async.interface.documents import ChosenImplementer, ShownFreshScore, ShownStage, ShownTry
from tests.support.command_line import Shell
from tests.support.finished_runs import copy_run, make_run
from tests.support.json_commands import ARGUMENTS, write_places

FURTHER = (
    "show circle_packing-1 --islands",
    "show circle_packing-1 --notes",
    "show circle_packing-1 best",
    "show circle_packing-1 seed",
    "show circle_packing-1 1 --prompts",
    "list many",
    "compare circle_packing-1 many/other many/another",
    "export circle_packing-1 --what candidates",
    "export circle_packing-1 -o rows.csv",
    "rescore circle_packing-1",
    "eval circle_packing seed.py --debug",
    "advantages 1 1 1 1",
    "simulate --candidates 40 --nodes 2 --node-mtbf 6h",
    "task check circle_packing --advisor bandit",
    "config validate wrong.yaml",
    "status many/bandit",
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the commands name."""
    folder = tmp_path_factory.mktemp("schemas")
    finished = make_run(folder / "made")
    run = copy_run(finished, folder)
    with closing(sqlite3.connect(run / "population.db")) as database, database:
        database.execute("insert into inbox values (1, 1, 'rings', 0, null, null, null)")
    for number, name in enumerate(("other", "another", "bandit"), start=1):
        other = Path(shutil.copytree(finished, folder / "many" / name))
        with closing(sqlite3.connect(other / "population.db")) as database, database:
            database.execute("update runs set seed = ?, advisor = ?", (number, "bandit" if number == 3 else "tiny"))
    shutil.rmtree(finished)
    (folder / "many" / "broken").mkdir()
    (folder / "many" / "broken" / "population.db").write_text("no database")
    write_places(folder)
    (folder / "wrong.yaml").write_text("learner: {kk: 2}\n")
    (folder / "seed.py").write_text((run / "best.py").read_text())
    return folder


@pytest.fixture
def shell(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(Path(shutil.copytree(prepared, tmp_path / "here")), monkeypatch, capsys)


def closed(schema: object) -> Any:
    """The schema, with every key that it does not name forbidden."""
    if isinstance(schema, list):
        return [closed(one) for one in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in cast("dict[str, object]", schema).items()}
    return {**made, "additionalProperties": False} if isinstance(made.get("properties"), dict) else made


LONG = ("plan ", "task check circle_packing")
"""A plan is counted in a process of its own, and the check of a whole task evaluates many programs: several seconds."""

LINES = [
    pytest.param(line, id=line, marks=[pytest.mark.long] if line.startswith(LONG) else [])
    for line in (*(f"{name} {' '.join(given)}" for name, given in ARGUMENTS.items()), *FURTHER)
]


@pytest.mark.long
@pytest.mark.parametrize("line", LINES)
def test_what_a_command_prints_is_what_its_schema_says(shell: Shell, line: str) -> None:
    name = max((name for name in DOCUMENTS if line.startswith(f"{name} ")), key=len)
    given = [*name.split(), *ARGUMENTS[name]] if line not in FURTHER else line.split()
    said = shell.pace(*given, "--json")
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    if line not in FURTHER:
        assert (said.code, said.err) == ({"task check": 2}.get(name, 0), "")
        assert json.loads(said.out)
    wrong = [f"{list(error.path)}: {error.message[:200]}" for error in _wrong(closed(schema), json.loads(said.out))]
    assert wrong == []


def _wrong(schema: Any, document: object) -> list[Any]:
    found = cast("Any", Draft202012Validator(schema)).iter_errors(document)
    return [deepest for error in found for deepest in (error.context or [error])]


def test_every_command_with_json_has_a_schema_and_prints_it(shell: Shell) -> None:
    assert set(DOCUMENTS) == set(ARGUMENTS)
    every = json.loads(shell.pace("schema").out)
    assert set(every) == set(DOCUMENTS)
    for name in ("status", "task check"):
        assert json.loads(shell.pace("schema", *name.split()).out) == every[name] == schema_of(name)
    assert every["status"]["title"] == "pace status --json"
    assert "best_score" in every["status"]["required"]
    said = shell.pace("schema", "statu")
    assert (said.code, said.out) == (2, "")
    assert "did you mean 'status'" in said.err


def test_a_missing_and_an_unknown_key_are_mistakes() -> None:
    schema = closed(schema_of("db backup"))
    assert _wrong(schema, {"path": "copy.db", "bytes": 3}) == []
    for wrong in ({"path": "copy.db"}, {"path": "copy.db", "bytes": 3, "more": 1}, {"path": 3, "bytes": 3}):
        assert len(_wrong(schema, wrong)) == 1


@pytest.mark.parametrize(
    ("shown", "recorded", "own"),
    [
        (ShownTry, ImplementerTry, set[str]()),
        (ChosenImplementer, ImplementerChosen, {"usd"}),
        (ShownFreshScore, FreshScore, set[str]()),
        (ShownStage, CascadeScore, {"number"}),
    ],
)
def test_what_few_runs_have_is_shown_with_the_fields_of_its_record(shown: type, recorded: Any, own: set[str]) -> None:
    of_record = {one.name: get_type_hints(recorded)[one.name] for one in fields(recorded) if one.name not in own}
    assert {name: hint for name, hint in get_type_hints(shown).items() if name not in own} == of_record
