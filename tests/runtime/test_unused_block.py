"""A block that cannot matter: `pace task check` and a run with a model as implementer refuse it."""

import json
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.implement.assemble import refuse_unused_block, unused_block
from pace_async.runtime.children.advisor_choice import served_by
from pace_async.task import load_task
from tests.support.command_line import Shell
from tests.support.command_tasks import PROGRAM as SHELL_PROGRAM
from tests.support.command_tasks import make_command_task, make_python_task
from tests.support.task_folders import PROGRAM, write

OVERRIDDEN = (
    "# EVOLVE-BLOCK-START\nx = 1\n\n\ndef f(instance):\n    return x * instance['x']\n# EVOLVE-BLOCK-END\n"
    "\n\ndef f(instance):\n    return x * instance['x']\n"
)
WHY = "`f`, which the evolve block defines, is bound again outside it (line 10)"
FIXED_ENTRY = (
    "# EVOLVE-BLOCK-START\nx = 1\n\n\ndef g(y):\n    return x * y\n# EVOLVE-BLOCK-END\n"
    "\n\ndef f(instance):\n    return g(instance['x'])\n"
)


BROKEN = "def instances(seed):\n    return [1]\n\n\ndef score(instances, outputs):\n    raise ValueError('no')\n"
"""An evaluator after which a check tries nothing else."""


def finding(shell: Shell, name: str) -> dict[str, object] | None:
    """What the check of a task says of its block."""
    document = json.loads(shell.pace("task", "check", name, "--json").out)
    return next((one for one in document["checks"] if one["check"] == "the block can matter"), None)


def test_the_check_refuses_a_block_that_cannot_matter_and_says_nothing_of_others(shell: Shell) -> None:
    write(shell.folder / "mine", initial__py=OVERRIDDEN, evaluator__py=BROKEN)
    found = finding(shell, "./mine")
    assert found is not None
    assert (found["ok"], found["found"]) == (False, f"{WHY}: what a model writes there is ignored")
    write(shell.folder / "mine", initial__py=FIXED_ENTRY, evaluator__py=BROKEN)
    assert finding(shell, "./mine") is None


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_run_with_a_model_refuses_it_before_anything_is_written(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, dry: list[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    write(shell.folder / "mine", initial__py=OVERRIDDEN)
    said = shell.pace("run", "./mine", "--implementer", "openai/gpt-5", "--advisor", "reader", *dry)
    assert said.code == 2
    assert f"initial.py: {WHY}, so what --implementer openai/gpt-5 writes there would be ignored" in said.err
    assert not (shell.folder / "runs").exists()


def test_only_what_a_model_or_an_agent_writes_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "mine", initial__py=OVERRIDDEN)
    task = load_task(str(tmp_path / "mine"))
    refuse_unused_block("catalog", task)
    for model in ("openai/gpt-5", "catalog:1,openai/gpt-5:1", "agent"):
        with pytest.raises(UsageError, match="`f`, which the evolve block defines"):
            refuse_unused_block(model, task)
    config = Config.model_validate({"implementer": {"model": "openai/gpt-5"}})
    assert [one.ok for one in served_by(config, task) if one.role == "implementer"] == [False]
    write(tmp_path / "mine", initial__py=PROGRAM)
    refuse_unused_block("openai/gpt-5", load_task(str(tmp_path / "mine")))


def test_of_a_command_task_it_is_only_a_warning(tmp_path: Path, shell: Shell) -> None:
    evaluator = "def evaluate(program):\n    raise ValueError('no')\n"
    task = make_python_task(tmp_path / "mine", evaluator, OVERRIDDEN)
    assert unused_block(task) == WHY
    refuse_unused_block("openai/gpt-5", task)
    found = finding(shell, "./mine")
    assert found is not None
    assert (found["ok"], found["warning"]) == (True, True)


def test_a_program_in_another_language_is_not_read(tmp_path: Path) -> None:
    task = make_command_task(tmp_path / "mine", program=SHELL_PROGRAM + "x=4\n")
    assert unused_block(task) == ""
