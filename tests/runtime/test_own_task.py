"""A problem of a user's own is searched with the defaults: from `pace task init` in an empty folder to scores."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import search

EVALUATOR = """
from itertools import combinations

def instances(seed):
    return [7]

def score(instances, outputs):
    points = outputs[0]
    if not isinstance(points, list) or len(points) != 7:
        raise ValueError("seven points are asked for")
    if not all(isinstance(x, float) and 0 <= x <= 1 for point in points for x in point):
        raise ValueError("a point is two numbers between 0 and 1")
    return {"score": min(
        abs((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])) / 2 for a, b, c in combinations(points, 3)
    )}
"""
PROGRAM = """
import math
import random
from itertools import combinations

# EVOLVE-BLOCK-START
arrangement = "circle"
climb_moves = 50
stride = 0.02
shrinkage = 1.0
luck = 1
# EVOLVE-BLOCK-END

def smallest(points):
    return min(
        abs((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])) / 2 for a, b, c in combinations(points, 3)
    )

def place(count):
    draw = random.Random(luck)
    if arrangement == "circle":
        points = [[0.5 + 0.4 * f(i * 6.2831 / count) for f in (math.cos, math.sin)] for i in range(count)]
    elif arrangement == "scatter":
        points = [[draw.random(), draw.random()] for _ in range(count)]
    else:
        points = [[(i + 0.5) / count, (i * 3 % count + 0.5) / count] for i in range(count)]
    best, reach = smallest(points), stride
    for _ in range(climb_moves):
        i = draw.randrange(count)
        old = points[i]
        points[i] = [min(1.0, max(0.0, x + draw.gauss(0, reach))) for x in old]
        now = smallest(points)
        if now > best:
            best = now
        else:
            points[i] = old
        reach *= shrinkage
    return points
"""
CATALOGUE = """
mechanisms:
  - {name: arrangement, about: where points begin, options: ["circle", "scatter", "lattice"]}
  - {name: climb_moves, about: moves that are tried, options: [50, 100, 200, 400]}
  - {name: stride, about: size of a move, options: [0.005, 0.02, 0.08, 0.25]}
  - {name: shrinkage, about: how moves become smaller, options: [1.0, 0.9995, 0.998]}
  - {name: luck, about: random numbers, options: [1, 2, 3, 4, 5, 6, 7]}
"""
TASK = """
name: seven_points
background: Place seven points in the unit square. The smallest triangle of three of them must be large.
coding_requirements: place(count) returns a list of count points, each two numbers between 0 and 1.
direction: maximize
bounds: {lower: 0.02, upper: 0.0839}
entry: place
timeout_s: 20
memory_mb: 512
deterministic: true
catalogue: catalogue.yaml
"""


@pytest.mark.long
@pytest.mark.nightly
def test_four_of_five_candidates_of_a_task_that_no_advisor_was_trained_on_have_a_score(tmp_path: Path) -> None:
    assert search(tmp_path, ["task", "init", "seven_points"]).code == 0
    files = {"evaluator.py": EVALUATOR, "initial.py": PROGRAM, "catalogue.yaml": CATALOGUE, "task.yaml": TASK}
    for name, text in files.items():
        (tmp_path / "seven_points" / name).write_text(text)
    done = search(tmp_path, ["run", "seven_points", "--candidates", "48", "--display", "plain"])
    assert done.code == 0, done.err
    assert "advisor reader, chosen for this task" in done.err
    status = json.loads(search(tmp_path, ["status", "seven_points-1", "--json"]).out)
    assert status["candidates"] == 48
    assert status["scored"] >= 0.8 * 48
    assert status["few_scores"] is None
