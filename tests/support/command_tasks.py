"""Small tasks whose evaluator runs beside the program."""

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from pace_async.task import Task, load_task

PROGRAM = "# EVOLVE-BLOCK-START\nx=3\n# EVOLVE-BLOCK-END\necho $((x * 7))\n"
SHELL = """\
    value=$(sh "$1") || exit 3
    echo "{\\"combined_score\\": $value, \\"correct\\": true}" > "$2/metrics.json"
    echo "a larger x than in $value" > "$2/feedback.txt"
"""
"""An evaluator whose score is the number that a shell program prints."""
SOURCED = 'RESULTS=$2\n. "$1"\n'
"""An evaluator that does whatever the program says."""


def make_command_task(
    folder: Path,
    evaluator: str = SHELL,
    *,
    program: str = PROGRAM,
    name: str = "initial.sh",
    more: Mapping[str, object] | None = None,
) -> Task:
    """A task whose shell evaluator gets the program's path and the folder of results. `more` replaces fields."""
    folder.mkdir(parents=True, exist_ok=True)
    fields: dict[str, object] = {
        "name": folder.name,
        "kind": "command",
        "language": "shell",
        "background": "A number.",
        "coding_requirements": "It prints one.",
        "direction": "maximize",
        "bounds": {"lower": 0, "upper": 100},
        "program": name,
        "evaluate": ["sh", "evaluate.sh", "{program}", "{results}"],
        "timeout_s": 30,
        "memory_mb": 256,
        "output_mb": 1,
        "deterministic": True,
        **(more or {}),
    }
    (folder / "task.yaml").write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))
    (folder / "evaluate.sh").write_text(dedent(evaluator))
    (folder / name).write_text(program)
    return load_task(str(folder))


def make_python_task(folder: Path, evaluator: str, program: str, **more: object) -> Task:
    """A task whose evaluator is the function `evaluate` of a Python file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "evaluator.py").write_text(dedent(evaluator))
    python = {"evaluate": None, "language": "python", "metrics": {"python": "evaluate"}}
    return make_command_task(folder, "", program=dedent(program), name="initial.py", more={**python, **more})
