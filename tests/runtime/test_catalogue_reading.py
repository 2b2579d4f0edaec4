"""A run whose advisor reads the task's catalogue: what is said and refused before it, and its own tokenizer in it."""

from pathlib import Path

import pytest

from pace_async.advise.settings_wording import SettingsWording
from pace_async.cli.main import main
from pace_async.errors import UsageError
from pace_async.runtime.children.advisor_folder import READER, TINY
from pace_async.runtime.children.catalogue_reading import read_by, refuse_unless_read, run_folder, wording_for
from pace_async.runtime.run_paths import RunPaths
from tests.support.catalogues import TASK, config_with, with_catalogue, with_unread_catalogue, without_catalogue


def test_what_a_prompt_lists_of_a_catalogue_is_said(tmp_path: Path) -> None:
    assert read_by("tiny", TASK) is None
    assert read_by("reader", TASK) == "12 mechanisms, 57 options: each prompt lists every alternative"
    assert read_by("reader", with_catalogue(tmp_path, 96, 14)) == (
        "96 mechanisms, 1344 options: each prompt lists a random menu, 8 mechanisms with 4 alternatives each"
    )


def test_a_catalogue_that_the_advisor_cannot_read_is_refused_before_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no catalogue, which --advisor reader reads"):
        refuse_unless_read(config_with("reader"), without_catalogue())
    with pytest.raises(UsageError, match=r"its prompts use the word to themselves"):
        refuse_unless_read(config_with("reader"), with_unread_catalogue(tmp_path))
    with pytest.raises(UsageError, match=r"take embedded or vllm"):
        refuse_unless_read(config_with("reader", "http://127.0.0.1:9"), TASK)
    refuse_unless_read(config_with("tiny", "http://127.0.0.1:9"), without_catalogue())


def test_only_an_advisor_that_reads_catalogues_gets_a_folder_and_a_wording_of_its_own(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert run_folder(config_with("tiny"), paths, TASK) == TINY
    assert isinstance(wording_for(config_with("tiny"), TASK), SettingsWording)
    assert wording_for(config_with("tiny"), without_catalogue()) is None
    assert not paths.advisor.exists()
    folder = run_folder(config_with("reader"), paths, TASK)
    assert folder == paths.advisor == run_folder(config_with("reader"), paths, TASK)
    assert (folder / "config.json").resolve() == READER / "config.json"
    assert "Ġspiral" in (folder / "tokenizer.json").read_text("utf-8")
    assert wording_for(config_with("reader"), TASK) is not None


def test_a_dry_run_says_how_the_advisor_reads_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pace", "run", "circle_packing", "--advisor", "reader", "--dry-run"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "it reads the catalogue: 12 mechanisms, 57 options" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
