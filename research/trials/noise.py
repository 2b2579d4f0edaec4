"""The testbed `columnar` with noise in its score, and what its runs found without it.

The noise follows from table and program, so the score of a program stays the same and a lucky program stays lucky. The
scorer reports the exact score as a further metric. Searches never see it, and figures of these runs are of it: after
each candidate the exact score of the program that is best by the noisy one.
"""

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np

from pace_async.task import load_task

NOISY = "columnar_noisy"
DEVIATION = 0.025
"""Of the noise, in bits: .7 % of the way from the seed program to the best known one."""
NOISE = '''
_exact = score


def score(instances, outputs, seed):
    """The exact score and noise that follows from table and pipelines: normal, deviation {deviation}."""
    import random

    found = _exact(instances, outputs, seed)
    draw = random.Random(f"{{seed}} {{sorted(outputs[0].items())}}")
    return {{**found, "exact": found["score"], "score": found["score"] + draw.gauss(0.0, {deviation})}}
'''


def noisy_task(folder: Path) -> Path:
    """The task's folder below `folder`, made once."""
    made = folder.absolute() / NOISY
    if made.exists():
        return made
    real = load_task("columnar")
    shutil.copytree(real.folder, made, ignore=shutil.ignore_patterns("__pycache__", "cheats"))
    spec, evaluator = made / "task.yaml", made / real.spec.evaluator
    spec.write_text(spec.read_text().replace("name: columnar", f"name: {NOISY}", 1))
    evaluator.write_text(evaluator.read_text() + NOISE.format(deviation=DEVIATION))
    return made


def exact_curve(database: sqlite3.Connection) -> np.ndarray | None:
    """The exact score of the best program by the noisy score, after each candidate. None if the scores have no
    noise."""
    rows = database.execute(
        "select score, metrics from candidates where score is not null or lease is not null "
        "order by lease is not null, at, candidate"
    ).fetchall()
    (best, metrics), *others = rows
    exact = json.loads(metrics).get("exact")
    if exact is None:
        return None
    curve: list[float] = []
    for score, metrics in others:
        if score is not None and score > best:
            best, exact = score, json.loads(metrics)["exact"]
        curve.append(float(exact))
    return np.array(curve)
