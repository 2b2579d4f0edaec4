"""The paper's settings under configs/paper: each task, alone and with what may be laid over it, is the paper's run."""

from itertools import product
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.configure import flat, resolve
from pace_async.errors import UsageError
from pace_async.learn.settings import TrainerConfig
from pace_async.runtime.run.core import default_horizon
from pace_async.runtime.start.launch import task_of
from pace_async.task import limited, load_task, settings_of
from tests.support.command_line import Shell

FOLDER = Path(__file__).parents[2] / "configs" / "paper"
TIMEOUTS = {"eplb": 600, "kuairec": 1200, "multi_evolve": 1200}
BOUNDS = {"eplb": (0, 1), "kuairec": (0.05, 0.3), "multi_evolve": (0, 0.7)}
METHODS = {None: "pace", "thetaevolve": "grpo", "ttt_discover": "entropic", "maxk": "maxk", "no_rl": "none"}
ADVISORS = {None: "qwen3.5-4b", "deepseek_8b": "deepseek-r1-0528-qwen3-8b"}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def laid(*names: str | None) -> Config:
    """These files, one over the other."""
    return resolve([FOLDER / f"{name}.yaml" for name in names if name], environment={})


@pytest.mark.parametrize(("task", "advisor", "method"), list(product(TIMEOUTS, ADVISORS, METHODS)))
def test_every_row_of_the_comparison_has_the_papers_settings(
    task: str, advisor: str | None, method: str | None
) -> None:
    config = laid(task, advisor, method)
    learner = config.learner
    assert (config.task, config.evaluation.timeout_s) == (task, TIMEOUTS[task])
    assert (config.reward.lower, config.reward.upper) == BOUNDS[task]
    assert (learner.objective, learner.group_size, learner.k) == (METHODS[method], 8, 4)
    assert default_horizon(config.stop, learner.group_size) == 1000
    assert (config.bound, config.search.threads, config.advisor.temperature) == (0, 8, 1.0)
    assert Path(config.advisor.model).name == ADVISORS[advisor]
    assert config.implementer.model == "gemini/gemini-3.1-pro-preview"
    assert learner.collapsed == "skip"
    trained = TrainerConfig.of(config)
    assert (trained.learning_rate, trained.weight_decay, trained.betas) == (1e-6, 0.1, (0.9, 0.98))
    assert (trained.clip_low, trained.clip_high, trained.lora_rank) == (0.2, 0.28, None)
    assert trained.kl_penalty == (0.1 if method == "ttt_discover" else 0.0)
    assert config.search.parents == ("puct" if method == "ttt_discover" else "tournament")


@pytest.mark.parametrize("task", TIMEOUTS)
def test_the_task_has_the_settings_that_its_file_gives(task: str) -> None:
    spec, given = load_task(task).spec, laid(task).evaluation.settings
    assert given.keys() <= spec.settings.keys()
    assert settings_of(spec, given) == {**spec.settings, **given}


def test_a_later_file_wins_key_by_key_and_leaves_the_rest(tmp_path: Path) -> None:
    below, above = laid("eplb"), laid("eplb", "ttt_discover")
    before, after = flat(below.model_dump(mode="json")), flat(above.model_dump(mode="json"))
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"search.parents", "search.backtracking", "learner.objective", "learner.kl_penalty"}
    setting = tmp_path / "setting.yaml"
    setting.write_text("evaluation: {settings: {speed_constant: 0.002}}")
    merged = resolve([FOLDER / "eplb.yaml", setting], environment={}).evaluation.settings
    assert merged == {**below.evaluation.settings, "speed_constant": 0.002}


def test_the_command_line_takes_several_files_and_flags_win(shell: Shell) -> None:
    files = [str(FOLDER / f"{name}.yaml") for name in ("small", "maxk")]
    said = shell.pace(
        "run", "circle_packing", "--config", files[0], "--config", files[1], "--dry-run", "--verbose", "--seed", "3"
    )
    assert said.code == 0, said.err
    assert "objective maxk, groups of 8, behind a barrier (sync)" in said.out
    assert "at 160 candidates" in said.out
    assert "seed: 3\n" in said.out


def test_a_runs_limits_take_the_place_of_the_tasks_and_leave_its_digest() -> None:
    task = load_task("eplb")
    other = limited(task, timeout_s=600.0, lower=0.0, upper=1.0)
    assert (other.spec.timeout_s, other.spec.bounds.lower, other.spec.bounds.upper) == (600.0, 0.0, 1.0)
    assert other.digest == task.digest
    assert task_of(laid("eplb")).spec == other.spec
    assert limited(task).spec == task.spec == task_of(resolve(None, {"task": "eplb"}, environment={})).spec


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"lower": 3.0}, "reward.lower (3.0) must be below the task's bounds.upper ({upper})."),
        ({"upper": -3.0}, "the task's bounds.lower ({lower}) must be below reward.upper (-3.0)."),
        ({"lower": 3.0, "upper": 3.0}, "reward.lower (3.0) must be below reward.upper (3.0)."),
    ],
)
def test_limits_in_the_wrong_order_are_named_as_they_were_given(given: dict[str, float], says: str) -> None:
    task = load_task("eplb")
    own = task.spec.bounds
    with pytest.raises(UsageError) as refused:
        limited(task, **given)
    assert str(refused.value) == says.format(lower=own.lower, upper=own.upper)


def test_the_plan_of_a_run_has_them(shell: Shell) -> None:
    said = shell.pace("run", "eplb", "--set", "evaluation.timeout_s=600", "--dry-run")
    assert "each at most 600 s" in said.out
    said = shell.pace("run", "eplb", "--set", "reward.lower=2", "--dry-run")
    assert said.code == 2
    assert "must be below" in said.err
