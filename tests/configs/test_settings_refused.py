"""Settings that no run can have, and limits that hold wherever they were given: each mistake is one sentence."""

import os
from pathlib import Path

import pytest

from pace_async.config import StopConfig
from pace_async.configure import known_keys, resolve
from pace_async.errors import UsageError
from pace_async.task import load_task
from tests.support.command_line import Shell
from tests.support.task_folders import TASK, write

NOT_FINITE = ("nan", "inf", "-inf")
NUMBERS = [
    key
    for key in known_keys()
    if key.startswith(("stop.", "learner.", "faults.", "advisor.", "reward.", "search."))
    and isinstance(getattr(getattr(resolve(environment={}), key.partition(".")[0]), key.partition(".")[2]), float)
]


@pytest.mark.fault("Configuration and terminal", "a value out of range")
@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("key", [*NUMBERS, "stop.minutes", "stop.budget", "stop.target", "learner.kl_penalty"])
def test_a_number_that_is_not_finite_is_refused_in_every_setting(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=key.replace(".", r"\.")):
        resolve(None, {key: float(value)}, environment={})


@pytest.mark.parametrize("value", NOT_FINITE)
def test_it_is_refused_in_pairs_and_mappings_too(value: str) -> None:
    for key, given in (
        ("learner.betas", [0.9, float(value)]),
        ("implementer.options", {"temperature": float(value)}),
        ("implementer.options", {"extra": {"deep": [float(value)]}}),
        ("evaluation.settings", {"weight": float(value)}),
    ):
        with pytest.raises(UsageError, match=key.replace(".", r"\.")):
            resolve(None, {key: given}, environment={})


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ("{lower: 1, upper: 1}", "must be below"),
        ("{lower: 2, upper: 1}", "must be below"),
        ("{lower: .nan, upper: 1}", "finite"),
        ("{lower: 0, upper: .nan}", "finite"),
        ("{lower: -.inf, upper: 1}", "finite"),
        ("{lower: 0, upper: .inf}", "finite"),
    ],
)
def test_bounds_between_which_nothing_can_be_measured_are_refused(tmp_path: Path, bounds: str, says: str) -> None:
    write(tmp_path / "mine", task__yaml=TASK.replace("{lower: 0, upper: 100}", bounds))
    with pytest.raises(UsageError, match=f"bounds.*{says}"):
        load_task(str(tmp_path / "mine"))


@pytest.mark.parametrize("line", ["target: .nan", "timeout_s: .inf", "settings: {load: .inf}"])
def test_a_tasks_other_numbers_are_finite_too(tmp_path: Path, line: str) -> None:
    text = TASK.replace("timeout_s: 5\n", "") if line.startswith("timeout_s") else TASK
    write(tmp_path / "mine", task__yaml=f"{text}{line}\n")
    with pytest.raises(UsageError, match=line.partition(":")[0]):
        load_task(str(tmp_path / "mine"))


@pytest.mark.parametrize(
    ("given", "candidates"),
    [
        ({}, 240),
        ({"updates": 3}, None),
        ({"minutes": 3}, None),
        ({"budget": 3}, 240),
        ({"updates": None}, 240),
        ({"updates": 3, "candidates": 40}, 40),
        ({"minutes": 3, "candidates": None}, None),
    ],
)
def test_only_the_default_limit_of_candidates_gives_way(given: dict[str, object], candidates: int | None) -> None:
    assert StopConfig.model_validate(given).candidates == candidates


@pytest.mark.parametrize("flag", ["--updates", "--minutes"])
def test_a_limit_given_elsewhere_holds_beside_a_flag(shell: Shell, flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.folder / "run.yaml").write_text("stop: {candidates: 40}\n")
    plan = shell.pace("run", "--dry-run", flag, "9", "--config", "run.yaml").out
    assert "stops        at 40 candidates, or 9 " in plan
    assert "at 30 candidates, or 9 " in shell.pace("run", "--dry-run", flag, "9", "--set", "stop.candidates=30").out
    assert "stops        at 9 " in shell.pace("run", "--dry-run", flag, "9").out
    monkeypatch.setenv("PACE_STOP__CANDIDATES", "20")
    assert "at 20 candidates, or 9 " in shell.pace("run", "--dry-run", flag, "9").out


def test_a_mistake_in_the_environment_a_program_or_a_seed_is_one_sentence(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(shell.folder / "mine")
    (shell.folder / "mine" / "initial.py").write_bytes(b"# EVOLVE-BLOCK-START\nx = '\xff'\n# EVOLVE-BLOCK-END\n")
    (shell.folder / "large.py").touch()
    os.truncate(shell.folder / "large.py", 10 << 30)  # without a byte on the disk
    monkeypatch.setenv("PACE_LEARNER__K", "[")
    for arguments, says in (
        (["config", "show"], "variable PACE_LEARNER__K: '[' is not a YAML value"),
        (["task", "check", "circle_packing", "--seed", "-1"], "evaluation.seed"),
        (["eval", "./mine", "mine/initial.py"], "initial.py is not UTF-8 text"),
        (["eval", "circle_packing", "large.py"], "large.py has more than 64 MiB, so it is no program."),
    ):
        said = shell.pace(*arguments)
        assert (said.code, said.out) == (2, "")
        assert says in said.err
        assert len(said.err.strip().splitlines()) == 1
