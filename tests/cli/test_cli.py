"""The command line: a person's mistake is one sentence and an exit code, and writes nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import Shell

PACE = str(Path(sys.executable).with_name("pace"))


@pytest.mark.long
@pytest.mark.fault("Replay and learner", "a negative bound is refused", only="max_staleness")
@pytest.mark.fault("Configuration and terminal", "no such task", only="There is no task 'nosuch'")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nosuch"], "There is no task 'nosuch'"),
        (["run", "circle_packin"], "did you mean 'circle_packing'?"),
        (["run", "--set", "learner.kk=2"], "did you mean 'learner.k'?"),
        (["run", "--set", "learner.k"], "--set takes KEY=VALUE"),
        (["run", "--max-staleness", "-1"], "max_staleness"),
        (["run", "--sync", "--threads", "12"], "as many threads as a group has rollouts"),
        (["run", "--sync", "--staleness-policy", "drop"], "under sync nothing can become too old"),
        (["run", "--objective", "ppo"], "objective"),
        (["run", "--engine", "ollama"], "there is embedded, vllm, tinker and http"),
        (["run", "--implementer", "gpt"], "--implementer gpt"),
        (["run", "--implementer", "catalgo", "--dry-run"], "did you mean catalog?"),
        (["run", "--advisor", "nowhere"], "--advisor nowhere"),
        (["run", "--config", "missing.yaml"], "Cannot read missing.yaml"),
        (["resume", "nosuch"], "There is no run 'nosuch'"),
        (["status", "nosuch"], "There is no run 'nosuch'"),
        (["eval", "circle_packing", "missing.py"], "Cannot read missing.py"),
        (["advantages", "--k", "9", "1", "2"], "k must lie between 1 and"),
    ],
)
def test_a_mistake_is_one_sentence_with_exit_code_2_and_writes_nothing(
    arguments: list[str], says: str, shell: Shell
) -> None:
    done = shell.pace(*arguments)
    assert done.code == 2, done.err
    assert says in done.err
    assert "Traceback" not in done.err
    said = [line for line in done.err.splitlines() if not line.startswith("pace: proving the sandbox")]
    assert len(said) == 1
    assert shell.files() == []


def test_an_unknown_flag_is_refused_with_exit_code_2(tmp_path: Path) -> None:
    """By the program that is installed."""
    done = subprocess.run([PACE, "run", "--max-stale", "2"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "--max-stale" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_broken_task_names_the_file_and_the_field(tmp_path: Path, shell: Shell) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "task.yaml").write_text("name: mine\ndirectoin: maximize\n")
    done = shell.pace("run", str(folder))
    assert done.code == 2
    assert "task.yaml" in done.err
    assert "did you mean 'direction'?" in done.err


@pytest.mark.fault("Configuration and terminal", "a seed program that fails")
def test_a_seed_program_that_fails_is_refused_before_anything_is_written(tmp_path: Path, shell: Shell) -> None:
    folder = tmp_path / "tasks" / "broken"
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text(
        "name: broken\nbackground: b\ncoding_requirements: c\ndirection: maximize\nbounds: {lower: 0, upper: 1}\n"
        "entry: f\ntimeout_s: 5\nmemory_mb: 512\ndeterministic: true\ncatalogue: catalogue.yaml\n"
    )
    (folder / "catalogue.yaml").write_text("mechanisms:\n  - {name: x, about: a number, options: [1, 2]}\n")
    (folder / "initial.py").write_text("# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\ndef f(i):\n    return 1 / 0\n")
    (folder / "evaluator.py").write_text(
        "def instances(seed):\n    return [1]\ndef score(instances, outputs):\n    return {'score': 1.0}\n"
    )
    done = shell.pace("run", "broken")
    assert done.code == 5, done.err
    assert "ZeroDivisionError" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["tasks"]


@pytest.mark.fault("Configuration and terminal", "--dry-run writes and calls nothing")
def test_dry_run_prints_the_configuration_and_writes_nothing(tmp_path: Path, shell: Shell) -> None:
    done = shell.pace("run", "--dry-run", "--verbose", "--max-staleness", "3", "--candidates", "9")
    assert done.code == 0
    assert "max_staleness: 3" in done.out
    assert "candidates: 9" in done.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("Configuration and terminal", "precedence")
def test_precedence_is_flag_then_environment_then_file_then_default(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.yaml").write_text("search: {threads: 3}\nlearner: {k: 2, group_size: 6}\n")
    monkeypatch.setenv("PACE_LEARNER__K", "3")
    monkeypatch.setenv("PACE_LEARNER__GROUP_SIZE", "7")
    found = shell.pace("config", "show", "--config", "run.yaml", "--set", "learner.group_size=5", "--json")
    config = json.loads(found.out)
    assert (config["learner"]["group_size"], config["learner"]["k"]) == (5, 3)
    assert (config["search"]["threads"], config["search"]["ideas_kept"]) == (3, 5)


def test_advantages_are_printed_for_programs(shell: Shell) -> None:
    done = shell.pace("advantages", "--objective", "grpo", "--k", "2", "--json", "-1", "0", "1")
    assert json.loads(done.out)["advantages"] == pytest.approx([-1.2247449, 0.0, 1.2247449])
    done = shell.pace("advantages", "--objective", "grpo", "--k", "2", "1", "1", "-1", "-1")
    assert done.out.splitlines() == ["1   +1.000000", "1   +1.000000", "-1  -1.000000", "-1  -1.000000"]
    done = shell.pace("advantages", "--k", "2", "--json", "1", "1")
    assert json.loads(done.out)["advantages"] is None
    assert json.loads(done.out)["skipped"] is True


def test_advantages_of_a_group_of_which_one_branch_has_collapsed_are_shown_as_the_setting_says(shell: Shell) -> None:
    failures = ["--alpha", "0.5", "--json", *["0"] * 6, "-1", "-1"]
    found = json.loads(shell.pace("advantages", *failures).out)
    assert found == {"advantages": pytest.approx([3**-0.5] * 6 + [-(3**0.5)] * 2), "skipped": False}
    found = json.loads(shell.pace("advantages", "--collapsed", "skip", *failures).out)
    assert found == {"advantages": None, "skipped": True, "reason": "frontier branch collapsed"}
    refused = shell.pace("advantages", "--collapsed", "both", *failures)
    assert (refused.code, refused.out) == (2, "")
    assert "--collapsed takes other_branch or skip, not 'both'" in refused.err


@pytest.mark.parametrize("rewards", [["5"], ["--objective", "grpo", "1", "2", "3"], ["--objective", "entropic", "7"]])
def test_fewer_rewards_than_the_usual_k_are_taken(rewards: list[str], shell: Shell) -> None:
    done = shell.pace("advantages", *rewards)
    assert (done.code, done.err) == (0, "")
    assert shell.pace("advantages", "--k", "4", *rewards).code == 2


def test_rewards_too_far_apart_are_not_reported_as_without_signal(shell: Shell) -> None:
    done = shell.pace("advantages", "1e300", "-1e300", "0", "1")
    assert (done.code, done.out) == (0, "skipped: the spread of these rewards is not finite\n")
    assert "carries no signal" in shell.pace("advantages", "1", "1", "1", "1").out


def test_the_bundled_task_is_listed(shell: Shell) -> None:
    rows = json.loads(shell.pace("task", "list", "--json").out)
    assert "circle_packing" in {row["task"] for row in rows}


def test_help_loads_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "sqlalchemy", "pydantic", "httpx")
    code = f"import sys, pace_async.cli.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_score_comes_from_the_sandbox_as_json(tmp_path: Path, shell: Shell) -> None:
    from pace_async.task import load_task

    task = load_task("circle_packing")
    done = shell.pace("eval", "circle_packing", str(task.folder / "initial.py"), "--json")
    found = json.loads(done.out)
    assert found["outcome"] == "ok"
    assert found["score"] == pytest.approx(0.9598, abs=1e-3)
    (tmp_path / "bad.py").write_text("def pack(instance):\n    raise ValueError('no')\n")
    found = json.loads(shell.pace("eval", "circle_packing", "bad.py", "--json").out)
    assert (found["outcome"], found["score"]) == ("candidate_error", None)
    assert "no" in found["detail"]
