"""Evaluates one program and writes the result: python evaluate.py PROGRAM RESULTS. Replace it by your own.

It runs in one sandbox with the program, which can therefore read it and write its own score. Look at a best program
before you believe it.
"""

import importlib.util
import json
import math
import random
import sys
from pathlib import Path
from types import ModuleType

POINTS = 48
INSTANCES = 3


def main(program: str, results: str) -> None:
    """Writes metrics.json, and feedback.txt for the author of the next program. An exception is the program's fault:
    its last lines are shown to a model that may try again."""
    candidate = load(program)
    draw = random.Random(0)
    lengths: list[float] = []
    for _ in range(INSTANCES):
        points = [[draw.random(), draw.random()] for _ in range(POINTS)]
        tour: list[int] = candidate.tour({"points": points})
        if sorted(tour) != list(range(POINTS)):
            write(results, {"correct": False, "error": "a tour must hold each point once"})
            return
        lengths.append(sum(math.dist(points[a], points[b]) for a, b in zip(tour, tour[1:] + tour[:1], strict=True)))
    write(results, {"correct": True, "length": sum(lengths) / INSTANCES, "longest": max(lengths)})
    worst = lengths.index(max(lengths))
    (Path(results) / "feedback.txt").write_text(f"The longest tour is that of instance {worst}: {max(lengths):.3f}.\n")


def load(path: str) -> ModuleType:
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(results: str, metrics: dict[str, object]) -> None:
    """The metrics, where task.yaml says that they are."""
    (Path(results) / "metrics.json").write_text(json.dumps(metrics))


if __name__ == "__main__":
    main(*sys.argv[1:])
