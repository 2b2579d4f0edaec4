"""The paper's settings under configs/paper: each task, alone and with what may be laid over it, is the paper's run."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pace_async.config import Config
from pace_async.configure import flat, resolve
from pace_async.errors import UsageError
from pace_async.learn.movement import MovementLimits
from pace_async.learn.settings import TrainerConfig
from pace_async.runtime.run.core import default_horizon
from pace_async.runtime.start.refusals import limits_of
from pace_async.task import limited, load_task, settings_of
from tests.support.command_line import Shell

FOLDER = Path(__file__).parents[2] / "configs" / "paper"
TIMEOUTS = {"eplb": 600, "kuairec": 1200, "multi_evolve": 1200}
BOUNDS = {"eplb": (0, 1), "kuairec": (0.05, 0.3), "multi_evolve": (0, 0.7)}
ADVISORS = {None: "qwen3.5-4b", "deepseek_8b": "deepseek-r1-0528-qwen3-8b"}
OF_THE_PAPER = {
    "objective": "pace",
    "group_size": 8,
    "k": 4,
    "trainer": "process",
    "horizon": None,
    "alpha_schedule": "linear",
    "alpha_start": 0.0,
    "collapsed": "skip",
    "learning_rate": 1e-6,
    "weight_decay": 0.1,
    "betas": [0.9, 0.98],
    "clip_low": 0.2,
    "clip_high": 0.28,
    "correction": "behaviour",
    "cap": None,
    "loss_type": "dapo",
    "kl_penalty": None,
}
OFF = {
    "warmup": 0,
    "max_move": None,
    "min_move_ess": None,
    "max_sure_move": None,
    "rollback": False,
    "lora_rank": None,
    "lora_alpha": None,
    "shuffle_rewards": False,
}
WITHOUT_EFFECT = {
    "age_cap": 0.5,
    "mask_cut_off": False,
    "second_moment": 0.04,
    "tiny_learning_rate": 1e-4,
}
OPEN = {
    "max_grad_norm": 1.0,
    "precision": "bf16",
    "gradient_checkpointing": True,
    "head_chunk": None,  # the memory of the logits, not their values
    "micro_tokens": 16384,
    "packing": "auto",  # the layout of a pass, not its values
    "max_length": 16384,
    "checkpoint_every": 20,
    "step_timeout_s": 1800.0,
    "gpus": None,
    "cpu_ranks": 1,
}
LEARNER = OF_THE_PAPER | OFF | WITHOUT_EFFECT | OPEN
"""Every setting of the learner: the paper's, those that it does not have, those that do nothing on-policy without a
mask and with an advisor that is not in the package, and those that it leaves open."""
OF_ADVISORS = {
    None: {},
    "deepseek_8b": {"gpus": [0, 1], "step_timeout_s": 3600.0},
}
METHODS = {
    None: {},
    "thetaevolve": {"objective": "grpo"},
    "ttt_discover": {"objective": "entropic", "kl_penalty": 0.1},
    "ttt_discover_published": {
        "objective": "entropic",
        "kl_penalty": 0.1,
        "learning_rate": 4e-5,
        "betas": [0.9, 0.95],
        "max_grad_norm": 1e9,
        "correction": "decoupled",
        "cap": 2.0,
        "loss_type": "sum",
    },
    "maxk": {"objective": "maxk"},
    "no_rl": {"objective": "none"},
}
"""What differs."""


def laid(*names: str | None) -> Config:
    """These files, one over the other."""
    return resolve([FOLDER / f"{name}.yaml" for name in names if name], environment={})


@pytest.mark.parametrize(("task", "advisor", "method"), list(product(TIMEOUTS, ADVISORS, METHODS)))
def test_every_row_of_the_comparison_has_the_papers_settings(
    task: str, advisor: str | None, method: str | None
) -> None:
    config = laid(task, advisor, method)
    published = method == "ttt_discover_published"
    assert (config.task, config.evaluation.timeout_s) == (task, TIMEOUTS[task])
    reward = config.reward
    assert (reward.scale, reward.lower, reward.upper) == ((1, 0, 1) if published else (5, *BOUNDS[task]))
    assert (reward.exponent, reward.relative_to) == (1, "bounds")
    assert default_horizon(config.stop, config.learner.group_size) == 1000
    assert (config.bound, config.search.threads, config.advisor.temperature) == (0, 8, 1.0)
    assert Path(config.advisor.model).name == ADVISORS[advisor]
    assert config.implementer.model == "gemini/gemini-3.1-pro-preview"
    assert config.implementer.options == {"temperature": 1.0}
    assert (config.prompts.set, config.search.memory, config.advisor.calls) == ("paper", "island", "three")
    assert config.learner.model_dump(mode="json") == LEARNER | OF_ADVISORS[advisor] | METHODS[method]
    assert (config.search.parents, config.search.backtracking, config.search.migration) == (
        ("puct", False, 0) if published else ("tournament", True, 0)
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_learner_gets_these_settings_and_nothing_else_limits_a_step(method: str | None) -> None:
    config = laid("eplb", method)
    expected = LEARNER | METHODS[method]
    trained = TrainerConfig.of(config)
    assert (trained.learning_rate, list(trained.betas)) == (expected["learning_rate"], expected["betas"])
    assert (trained.warmup, trained.limits) == (0, MovementLimits(k3=None, ess=None, sure_k3=None))
    assert (trained.correction.kind, trained.correction.cap) == (expected["correction"], expected["cap"])
    assert trained.kl_penalty == (expected["kl_penalty"] or 0.0)


def test_the_page_names_every_setting_of_the_learner_that_is_not_the_papers() -> None:
    page = (FOLDER.parents[1] / "docs" / "paper.md").read_text()
    assert [key for key in OFF | WITHOUT_EFFECT | OPEN if f"`{key}`" not in page] == []


@pytest.mark.parametrize("method", [*METHODS, "no_rl_api"])
@pytest.mark.parametrize("task", [*TIMEOUTS, "small"])
def test_no_run_of_the_comparison_spends_without_a_limit(task: str, method: str | None) -> None:
    assert laid(task, method).stop.budget is not None


@pytest.mark.parametrize(("task", "advisor"), list(product(TIMEOUTS, ADVISORS)))
def test_a_model_that_writes_the_code_itself_has_the_papers_run_in_all_else(task: str, advisor: str | None) -> None:
    below, above = (flat(laid(task, advisor, method).model_dump()) for method in (None, "end_to_end"))
    changed = {key: value for key, value in above.items() if value != below[key]}
    own = {"advisor.role": "end_to_end", "advisor.calls": "one", "implementer.model": "advisor"}
    assert changed == {**own, "search.drop_ideas": 0}


@pytest.mark.parametrize("task", TIMEOUTS)
def test_the_task_has_the_settings_that_its_file_gives(task: str) -> None:
    spec, given = load_task(task).spec, laid(task).evaluation.settings
    assert given.keys() <= spec.settings.keys()
    assert settings_of(spec, given) == {**spec.settings, **given}


def test_a_later_file_wins_key_by_key_and_leaves_the_rest(tmp_path: Path) -> None:
    below, above = laid("eplb"), laid("eplb", "ttt_discover")
    before, after = flat(below.model_dump(mode="json")), flat(above.model_dump(mode="json"))
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"learner.objective", "learner.kl_penalty"}
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
    other = limited(task, timeout_s=600.0, lower=0.0, upper=1.0, program="hierarchical.py")
    assert (other.spec.timeout_s, other.spec.bounds.lower, other.spec.bounds.upper) == (600.0, 0.0, 1.0)
    assert other.digest == task.digest
    assert limits_of(laid("eplb"), task).spec == other.spec.under(laid("eplb").evaluation.settings)
    assert limited(task).spec == task.spec == limits_of(resolve(None, {"task": "eplb"}, environment={}), task).spec


def test_a_run_may_begin_with_another_file_of_the_folder_and_no_other_is_taken() -> None:
    task = load_task("eplb")
    other = limits_of(laid("eplb"), task)
    assert other.program == (task.folder / "hierarchical.py").read_text() != task.program
    assert other.digest == task.digest
    for name, why in (("../eplb/initial.py", "not in"), ("nowhere.py", "not in"), ("evaluator.py", "EVOLVE-BLOCK")):
        with pytest.raises(UsageError, match=why):
            limited(task, program=name)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"lower": 3.0}, "reward.lower (3.0) must be below the task's bounds.upper ({upper})."),
        ({"upper": -3.0}, "the task's bounds.lower ({lower}) must be below reward.upper (-3.0)."),
        ({"lower": 3.0, "upper": 3.0}, "reward.lower (3.0) must be below reward.upper (3.0)."),
    ],
)
def test_limits_in_the_wrong_order_are_named_as_they_were_given(given: dict[str, Any], says: str) -> None:
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
