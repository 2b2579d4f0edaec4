"""The problems ZDT1 to ZDT3 as tasks (Zitzler, Deb and Thiele, 2000): two objectives, whose front is known."""

from pathlib import Path

from pace_async.task import Task, load_task

STEPS = 10
TASK = """\
name: {name}
background: Numbers between 0 and 1 that make f1 and f2 small.
coding_requirements: f returns {variables} numbers.
objectives:
  - {{metric: f1, direction: minimize, bounds: {{lower: 0, upper: 1}}{constraint}}}
  - {{metric: f2, direction: minimize, bounds: {{lower: {least}, upper: 6}}}}
entry: f
timeout_s: 10
memory_mb: 256
deterministic: true
catalogue: catalogue.yaml
"""
EVALUATOR = """\
import math

SHAPES = {{
    "zdt1": lambda f, g: 1 - math.sqrt(f / g),
    "zdt2": lambda f, g: 1 - (f / g) ** 2,
    "zdt3": lambda f, g: 1 - math.sqrt(f / g) - f / g * math.sin(10 * math.pi * f),
}}


def instances(seed):
    return [None]


def score(instances, outputs):
    x = outputs[0]
    if not isinstance(x, list) or len(x) != {variables} or not all(0 <= one <= 1 for one in x):
        raise ValueError("{variables} numbers between 0 and 1")
    g = 1 + 9 * sum(x[1:]) / (len(x) - 1)
    return {{"score": 0.0, "f1": x[0], "f2": g * SHAPES["{name}"](x[0], g)}}
"""


def zdt_task(folder: Path, name: str, variables: int = 4, *, at_most: float | None = None) -> Task:
    """A task whose catalogue has each of the variables in tenths. The seed program lies far from the front. `at_most`
    is a constraint on f1."""
    folder.mkdir(parents=True)
    constraint = "" if at_most is None else f", at_most: {at_most}"
    least = -1 if name == "zdt3" else 0
    values = {"name": name, "variables": variables, "constraint": constraint, "least": least}
    (folder / "task.yaml").write_text(TASK.format(**values))
    (folder / "evaluator.py").write_text(EVALUATOR.format(**values))
    lines = [f"x{number} = 0.5" for number in range(variables)]
    program = [*lines, "", "", "def f(instance):", f"    return [{', '.join(f'x{n}' for n in range(variables))}]"]
    (folder / "initial.py").write_text("\n".join(["# EVOLVE-BLOCK-START", *program, "# EVOLVE-BLOCK-END", ""]))
    options = [number / STEPS for number in range(STEPS + 1)]
    entries = [f"  - name: x{n}\n    about: variable {n}\n    options: {options}\n" for n in range(variables)]
    (folder / "catalogue.yaml").write_text("mechanisms:\n" + "".join(entries))
    return load_task(str(folder))
