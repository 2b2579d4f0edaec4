"""Folders of small tasks."""

from pathlib import Path

SUM = """
def instances(seed):
    return [{"x": 1}, {"x": 2}]

def score(instances, outputs):
    if any(type(output) is not int for output in outputs):
        raise ValueError("whole numbers are wanted")
    return {"score": float(sum(outputs))}
"""


TASK = """\
name: mine
background: A sum.
coding_requirements: Return a whole number.
direction: maximize
bounds: {lower: 0, upper: 100}
entry: f
timeout_s: 5
memory_mb: 256
deterministic: true
catalogue: catalogue.yaml
"""


CATALOGUE = "mechanisms:\n  - {name: x, about: a number, options: [1, 2]}\n"


PROGRAM = "# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\ndef f(instance):\n    return x * instance['x']\n"


def write(folder: Path, **files: str) -> None:
    folder.mkdir(exist_ok=True)
    content = {"task.yaml": TASK, "evaluator.py": SUM, "catalogue.yaml": CATALOGUE, "initial.py": PROGRAM}
    content |= {name.replace("__", "."): text for name, text in files.items()}
    for name, text in content.items():
        (folder / name).write_text(text)
