"""Small tasks for tests of evaluation, written into a folder."""

from pathlib import Path
from textwrap import dedent

from pace_async.task import Task, load_task

EVALUATOR = """
def instances(seed):
    return [{"x": seed + i} for i in range(3)]

def score(instances, outputs):
    for instance, output in zip(instances, outputs):
        if not isinstance(output, (int, float)) or isinstance(output, bool):
            raise ValueError("each output must be a number")
    return {"score": sum(outputs), "count": len(outputs)}
"""
DOUBLE = "def f(instance):\n    return 2 * instance['x']\n"


def make_task(
    folder: Path,
    evaluator: str = EVALUATOR,
    *,
    deterministic: bool = True,
    timeout_s: float = 30.0,
    memory_mb: int = 256,
) -> Task:
    """A task whose entry is `f(instance)`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.yaml").write_text(
        f"name: {folder.name}\nbackground: A sum.\ncoding_requirements: Return a number.\ndirection: maximize\n"
        f"bounds: {{lower: 0, upper: 10}}\nentry: f\ntimeout_s: {timeout_s}\nmemory_mb: {memory_mb}\noutput_mb: 1\n"
        f"deterministic: {str(deterministic).lower()}\n"
    )
    (folder / "evaluator.py").write_text(dedent(evaluator))
    (folder / "initial.py").write_text(f"# EVOLVE-BLOCK-START\n{DOUBLE}# EVOLVE-BLOCK-END\n")
    return load_task(str(folder))
