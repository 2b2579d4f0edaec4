"""What every importer does. A new one gets its example in `tests/support/examples.py`."""

import json
import shutil
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.peers.draft import draft_of, read_example, wanted_json
from pace_async.peers.example import ImportOptions
from pace_async.peers.importers import IMPORTERS
from pace_async.task import load_task
from tests.support.command_line import Shell
from tests.support.examples import EXAMPLES, TOOLS, digests, example

PAGE = Path(__file__).parents[2] / "docs" / "import.md"


def test_every_importer_has_an_example() -> None:
    assert set(EXAMPLES) == set(IMPORTERS)


@pytest.mark.parametrize("name", IMPORTERS)
def test_an_importer_has_a_paragraph_of_the_page_and_stands_in_the_help(shell: Shell, name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"`{name}`" in page and IMPORTERS[name].load()().project in page
    assert name in shell.pace("task", "import", "--help").out


@pytest.mark.parametrize("name", IMPORTERS)
def test_an_importer_recognises_its_example_and_no_empty_folder(tmp_path: Path, name: str) -> None:
    importer = IMPORTERS[name].load()()
    (tmp_path / "empty").mkdir()
    assert importer.recognises(example(tmp_path / "theirs", EXAMPLES[name]))
    assert not importer.recognises(tmp_path / "empty")
    with pytest.raises(UsageError, match=importer.project):
        importer.read(tmp_path / "empty", ImportOptions())
    with pytest.raises(UsageError, match="nowhere"):
        importer.folder_of(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", IMPORTERS)
def test_a_draft_is_the_same_on_the_other_side_of_a_process(tmp_path: Path, name: str) -> None:
    folder = example(tmp_path / "theirs", EXAMPLES[name])
    said = json.loads(json.dumps(read_example(name, str(folder), "mine", wanted_json(ImportOptions()))))
    assert draft_of(said, folder).example == IMPORTERS[name].load()().read(folder, ImportOptions())


@pytest.mark.fault("Mended and imported", "an import of a folder that is no such example")
@pytest.mark.parametrize("name", IMPORTERS)
def test_an_example_of_another_project_is_refused_with_the_command_for_it(tmp_path: Path, name: str) -> None:
    folder = example(tmp_path / "theirs", EXAMPLES[name])
    for other in IMPORTERS:
        if not IMPORTERS[other].load()().recognises(folder):
            said = str(read_example(other, str(folder), "mine", wanted_json(ImportOptions())))
            project = IMPORTERS[name].load()().project
            assert "but looks like one of" in said and f"{project} (pace task import {name})" in said


@pytest.mark.long
@pytest.mark.parametrize("name", IMPORTERS)
def test_a_task_has_the_example_unchanged_and_a_seed_program_that_scores(shell: Shell, name: str) -> None:
    if name in TOOLS and shutil.which(TOOLS[name]) is None:
        pytest.skip(f"there is no {TOOLS[name]}")
    folder = example(shell.folder / "theirs", EXAMPLES[name])
    before = digests(folder)
    said = shell.pace("task", "import", name, "theirs", "--to", "mine", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["task"] == "mine"
    assert digests(folder) == before == digests(shell.folder / "mine" / "example")
    assert shell.files() == ["mine", "theirs"]
    task = load_task(str(shell.folder / "mine"))
    scored = json.loads(shell.pace("eval", "./mine", f"mine/{task.spec.program}", "--json").out)
    assert (scored["outcome"], scored["score"] is not None) == ("ok", True)
    bounds = task.spec.bounds
    assert scored["score"] == pytest.approx(bounds.lower if task.spec.direction == "maximize" else bounds.upper)
