"""Scores the answers of twelve bundled seed programs with the evaluators that Galapagos has for the same problems.

    python scripts/checks/galapagos_agreement.py

Each answer is written as a program of Galapagos, and the score of its unchanged evaluator is put beside what it should
be by ours. It needs the package of the extra `galapagos`. Nothing runs in a sandbox: the programs are ours.
"""

import importlib.util
import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pace_async.peers.galapagos import Galapagos
from pace_async.task import Task, load_task

CLOSE = 2e-6
"""Relative difference that is allowed. Only hexagons need it: theirs must be 1e-6 apart, and ours may touch."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A bundled task and the task of Galapagos. `program` is the body of its program, in which `answer` is our answer
    and `score` our score. `theirs` is the score that it should have for a score of ours."""

    own: str
    other: str
    program: str
    theirs: Callable[[float], float]


CENTRES = "def run_packing():\n    return [one[:2] for one in answer], [one[2] for one in answer], score\n"
STEPS = "def run():\n    return answer, score, 0.0, len(answer)\n"
OVERLAP = "def run():\n    return [one * len(answer) / (2 * sum(answer)) for one in answer], score, len(answer)\n"
HEXAGONS = (
    "import math\ndef hexagon_packing_11():\n    wider = 1 + 1e-6\n"
    "    inner = [[x * wider, y * wider, math.degrees(2 * math.atan(t))] for x, y, t in answer]\n"
    "    return inner, [0, 0, 0], score * wider\n"
)
PAIRS = (
    Pair("autocorrelation_1", "first_autocorr_ineq", STEPS, lambda score: 1.5052939684401607 / score),
    Pair("autocorrelation_2", "second_autocorr_ineq", STEPS, lambda score: score / 0.8962799441554086),
    Pair("autocorrelation_3", "third_autocorr_ineq", STEPS, lambda score: 1.4556427953745406 / score),
    Pair("circle_packing", "circle_packing", CENTRES, lambda score: score / 2.635),
    Pair("erdos_min_overlap", "erdos_min_overlap", OVERLAP, lambda score: 0.38092303510845016 / score),
    Pair(
        "heilbronn_convex",
        "heilbronn_convex_13",
        "def heilbronn_convex13():\n    return answer\n",
        lambda score: score / 0.030936889034895654,
    ),
    Pair(
        "heilbronn_triangle",
        "heilbronn_triangle",
        "def heilbronn_triangle11():\n    return answer\n",
        lambda score: score / 0.036529889880030156,
    ),
    Pair("hexagon_packing", "hexagon_packing_11", HEXAGONS, lambda score: 3.930092 / score),
    Pair("kissing_11", "kissing_number", "def kissing_number11():\n    return answer\n", lambda score: score / 593),
    Pair(
        "min_distance_ratio",
        "minimizing_max_min_dist_2",
        "def min_max_dist_dim2_16():\n    return answer\n",
        lambda score: 12.889266112 / score,
    ),
    Pair(
        "min_distance_ratio_3d",
        "minimizing_max_min_dist_3",
        "def min_max_dist_dim3_14():\n    return answer\n",
        lambda score: 4.165849767 / score,
    ),
)
PLACEMENT = """\
def compute_model_placement(gpu_num, models):
    placed = {gpu: [] for gpu in range(gpu_num)}
    for model, gpu in zip(models, answer.pop(0)):
        placed[gpu].append(model)
    return placed
"""


def main() -> None:
    worst = 0.0
    for pair in PAIRS:
        task = load_task(pair.own)
        evaluator = module_of(task.folder / task.spec.evaluator)
        instances = evaluator.instances(0)
        answers = answers_of(task, instances)
        score = float(evaluator.score(instances, answers)["score"])
        worst = max(worst, said(pair.own, pair.theirs(score), scored(pair.other, pair.program, answers[0], score)))
    worst = max(worst, prism())
    print(f"largest relative difference: {worst:.1e}")
    if worst > CLOSE:
        sys.exit(1)


def prism() -> float:
    """The placements of our seed program for the cases of Galapagos, whose score has a share of successes added."""
    task, theirs = load_task("prism"), module_of(Galapagos().folder_of("adrs_prism") / "evaluator.py")
    own = module_of(task.folder / task.spec.evaluator)
    cases = [
        (gpus, [[one.model_size, one.req_rate, one.slo] for one in models])
        for gpus, models in theirs.generate_test_gpu_models()
    ]
    instances = [{"gpus": gpus, "memory": own.MEMORY, "models": models} for gpus, models in cases]
    answers = answers_of(task, instances)
    found = [own.greatest_pressure(*case, answer) for case, answer in zip(cases, answers, strict=True)]
    score = float(len(found) / sum(found))
    return said("prism", score + 1, scored("adrs_prism", PLACEMENT, answers, score))


def said(name: str, expected: float, theirs: float) -> float:
    """Print a row. The relative difference."""
    difference = abs(theirs - expected) / max(abs(expected), 1e-300)
    print(f"{name}: {expected:.10g} by ours, {theirs:.10g} by theirs, {difference:.1e} apart")
    return math.inf if math.isnan(difference) else difference


def answers_of(task: Task, instances: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What the seed program returns for each instance, as JSON would hand it on."""
    program = module_of(task.folder / task.spec.program)
    return [json.loads(json.dumps(getattr(program, task.spec.entry)(instance))) for instance in instances]


def scored(other: str, body: str, answer: Any, score: float) -> float:
    """The score of a program by the evaluator of Galapagos."""
    evaluator = module_of(Galapagos().folder_of(other) / "evaluator.py")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / f"{other}_answer.py"
        program.write_text(f"import json\nanswer = json.loads({json.dumps(answer)!r})\nscore = {score!r}\n{body}")
        return float(evaluator.evaluate(str(program))["combined_score"])


def module_of(path: Path) -> ModuleType:
    """A file as a module of its own, which may import what lies beside it."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


if __name__ == "__main__":
    main()
