"""What an installed package adds: objectives, parent rules and watchers, by entry points."""

import os
import random
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from pace_async.config import SearchConfig
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.learn.settings import TrainerConfig
from pace_async.objectives import advantages
from pace_async.objectives.phase_adaptive import phase_adaptive
from pace_async.observe.watchers.choose import watchers_of
from pace_async.registry.base import entry_points_of
from pace_async.registry.objectives import OBJECTIVES, objective_of
from pace_async.registry.parent_rules import PARENT_RULES
from pace_async.registry.watchers import WATCHERS
from pace_async.search.parents import parent_of
from pace_async.search.state import Island, Member
from tests.support.command_line import PACE, Shell
from tests.support.finished_runs import make_run
from tests.support.installed import install


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """The folder of the installed package, on the path of modules."""
    folder = install(tmp_path / "site")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(OBJECTIVES, "_of_packages", {})
    monkeypatch.setattr(PARENT_RULES, "_of_packages", {})
    monkeypatch.setattr(WATCHERS, "_of_packages", {})
    entry_points_of.cache_clear()
    yield folder
    entry_points_of.cache_clear()
    sys.modules.pop("toy_pack", None)


def test_an_objective_of_a_package_can_be_set_and_gives_its_advantages() -> None:
    config = resolve(None, {"learner.objective": "centred"}, {})
    assert config.learner.objective == "centred"
    assert advantages("centred", [0.0, 2.0], k=1, alpha=0.0) == [-1.0, 1.0]
    assert OBJECTIVES["centred"].about == "of the package toy-pack"
    assert objective_of("centred").trains


def test_an_entry_of_a_package_brings_its_attributes() -> None:
    assert objective_of("with_alpha").uses_alpha
    assert OBJECTIVES["with_alpha"].name == "with_alpha"
    trainer = TrainerConfig.of(resolve(None, {"learner.objective": "with_alpha"}, {}))
    assert trainer.kl_penalty == 0.25


def test_a_package_replaces_nothing_and_appears_in_no_list() -> None:
    assert OBJECTIVES["pace"].load() is phase_adaptive
    assert "centred" not in list(OBJECTIVES)
    assert "centred" not in OBJECTIVES.described()


def test_what_a_package_adds_and_cannot_give_is_refused_in_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"objective 'gone' of toy-pack cannot be loaded \(AttributeError: module"):
        resolve(None, {"learner.objective": "gone"}, {})
    with pytest.raises(
        UsageError, match=r"'text' of toy-pack cannot be loaded.*neither a Objective nor something to call"
    ):
        resolve(None, {"learner.objective": "text"}, {})
    with pytest.raises(UsageError, match=r"'objective' of toy-pack cannot be loaded.*neither"):
        resolve(None, {"search.parents": "objective"}, {})
    with pytest.raises(UsageError, match=r"did you mean centred\?.*packages add centred, gone, text, with_alpha"):
        resolve(None, {"learner.objective": "centered"}, {})
    assert objective_of("gone").name == ""  # its run can still be read


def test_a_parent_rule_of_a_package_chooses_the_parent() -> None:
    search = resolve(None, {"search.parents": "oldest"}, {}).search
    island = Island(number=0, members=(Member(3, "c", 9.0), Member(2, "b", 5.0)))
    assert isinstance(search, SearchConfig)
    assert parent_of(island, search, random.Random(0)).candidate == 2


def test_a_watcher_of_a_package_gets_its_argument_and_the_records_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "runs" / "circle_packing-1")
    assert Shell(tmp_path, monkeypatch, capsys).pace("log", "--to", "kept=log.txt").code == 0
    lines = (tmp_path / "log.txt").read_text().split()
    assert lines[0] == "circle_packing-1"
    assert lines[-1] == "40"
    with pytest.raises(UsageError, match=r"--log: unknown watcher 'kep' \(did you mean kept\?\).*packages add kept"):
        watchers_of(["kep"])


@pytest.mark.long
def test_a_command_finds_what_a_package_adds_and_its_help_looks_for_nothing(installed: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [PACE, "advantages", "--objective", "centred", "0", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert '"advantages": [-1.0, 1.0]' in " ".join(done.stdout.split())
    looked = (
        "import importlib.metadata as m, sys; m.entry_points = None; "
        "from pace_async.cli.main import main; sys.argv = ['pace', 'run', '--help']; main()"
    )
    subprocess.run([sys.executable, "-c", looked], capture_output=True, env=environment, timeout=60, check=True)
