"""The ready-made runs under configs/: each is valid, and says what it was made for."""

from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.baseline import beside_of, load_baseline
from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.task import load_task
from research.benchmarks.site_board import Board
from tests.support.command_line import Shell
from tests.support.population_facts import HEADER

FOLDER = Path(__file__).parents[2] / "configs"
FILES = sorted(file for file in FOLDER.rglob("*.yaml") if "new_task" not in file.parts)


def configured(name: str) -> Config:
    return resolve(FOLDER / f"{name}.yaml", environment={})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_is_valid_and_its_task_can_be_found(file: Path, shell: Shell) -> None:
    said = shell.pace("config", "validate", str(file))
    assert (said.code, said.out) == (0, f"{file} is valid\n"), said.err
    task = resolve(file, environment={}).task
    assert load_task(task).name == task


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_call_can_be_longer_than_what_the_learner_and_the_server_take(file: Path) -> None:
    config = resolve(file, environment={})
    longest = config.learner.max_length
    served = [argument for argument in config.advisor.engine_arguments if argument.startswith("--max-model-len=")]
    if longest is not None:
        assert config.advisor.longest("propose") < longest
        assert [int(argument.partition("=")[2]) <= longest for argument in served] in ([], [True])
        prompt = config.advisor.max_prompt_tokens
        if config.advisor.engine.startswith("http"):  # whose server may take more
            assert prompt is not None and prompt + config.advisor.longest("propose") <= longest


def test_a_model_in_the_users_cache_is_found_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pace_async.runtime.children.advisor_folder import advisor_folder

    model = configured("smollm2_cpu").advisor.model
    assert model.startswith("~/")
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / model.removeprefix("~/")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert advisor_folder(model) == folder.resolve()


def test_a_model_that_was_not_made_yet_is_named_with_what_to_do(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(shell.folder))
    said = shell.pace("run", "--config", str(FOLDER / "smollm2_cpu.yaml"), "--set", "advisor.engine=embedded")
    assert said.code == 2
    assert "research/advisor/warm_start.py" in said.err
    assert shell.files() == []


def test_the_first_run_is_compared_with_its_recorded_runs_up_to_its_end() -> None:
    config = configured("first_run")
    assert config.baseline is not None
    recorded = load_baseline(config.baseline)
    header = replace(HEADER, config=config.model_dump(mode="json"), direction="maximize")
    board = Board(load_task(config.task), config.evaluation.seed)
    beside = beside_of(header, board.score(board.start))
    assert beside is not None
    assert beside.differs == ""
    assert recorded.length == config.stop.candidates
    assert recorded.what == "without learning"
    assert len(recorded.seeds) >= 4


def test_the_first_run_is_the_run_of_columnar_but_shorter() -> None:
    first, whole = configured("first_run"), configured("columnar")
    stop, learner = first.stop.model_copy(update={"candidates": 1000}), {"horizon": None}
    longer = first.model_copy(update={"stop": stop, "baseline": None})
    assert longer.model_copy(update={"learner": longer.learner.model_copy(update=learner)}) == whole
    assert first.learner.horizon == (whole.stop.candidates or 0) // whole.learner.group_size
