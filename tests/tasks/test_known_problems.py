"""The problems of geometry that need no data: seed programs, catalogues, and programs that cheat."""

import json
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.task import Task, load_task, split_block
from tests.support.modules import load

SEEDS = {
    "heilbronn_convex": 0.000756,
    "heilbronn_triangle": 0.000401,
    "hexagon_packing": 7.073,
    "kissing_11": 220,
    "min_distance_ratio": 28.95,
    "min_distance_ratio_3d": 22.36,
}
"""What the seed programs score."""
TOGETHER: dict[str, dict[str, Any]] = {
    "heilbronn_convex": {"steps": 250, "stride": 1.0, "starts": 4, "polish": 8},
    "heilbronn_triangle": {"steps": 400, "stride": 0.003, "starts": 16, "polish": 12},
    "hexagon_packing": {"steps": 150, "stride": 0.05, "squeeze": 4.0, "noise": 0.3},
    "kissing_11": {"length": "four", "family": "signs", "rounds": 100},
    "min_distance_ratio": {"steps": 150, "stride": 0.003, "starts": 4, "polish": 4},
    "min_distance_ratio_3d": {"steps": 150, "stride": 0.003, "starts": 4, "polish": 4},
}
"""Settings that fit each other."""


@cache
def loaded(name: str) -> tuple[Task, ModuleType]:
    task = load_task(name)
    return task, load(task.folder / task.spec.evaluator, f"{name}_evaluator")


def score_of(name: str, program: str) -> float:
    """The score of trusted program text, whose outputs go through JSON as in a run."""
    task, evaluator = loaded(name)
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(program, namespace)
    instances = evaluator.instances(0)
    outputs = [namespace[task.spec.entry](instance) for instance in instances]
    return float(evaluator.score(instances, json.loads(json.dumps(outputs)))["score"])


def edited(name: str, **settings: Any) -> str:
    before, block, after = split_block(loaded(name)[0].program)
    for mechanism, option in settings.items():
        block = apply_edit(block, MechanismEdit(mechanism, option))
    return before + block + after


def cheats() -> list[Any]:
    """Every program that cheats, with its task."""
    files = [(name, file) for name in SEEDS for file in sorted((load_task(name).folder / "cheats").glob("*.py"))]
    return [pytest.param(name, file, id=f"{name}-{file.stem}") for name, file in files]


@pytest.mark.parametrize("name", SEEDS)
def test_the_seed_program_scores_what_its_readme_says_the_same_twice(name: str) -> None:
    task, _ = loaded(name)
    score = score_of(name, task.program)
    assert score == pytest.approx(SEEDS[name], rel=1e-3)
    assert score_of(name, task.program) == score
    assert f"{SEEDS[name]:g}" in (task.folder / "README.md").read_text()


@pytest.mark.parametrize("name", SEEDS)
def test_the_bounds_begin_beyond_the_seed_program_and_end_at_the_best_known(name: str) -> None:
    spec = loaded(name)[0].spec
    assert spec.target is not None
    assert spec.group in {"packing", "combinatorics"}
    assert spec.fitness.progress(SEEDS[name]) == 0.0
    assert spec.fitness.progress(spec.target) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("name", SEEDS)
def test_every_mechanism_holds_the_seeds_value_and_its_options_run(name: str) -> None:
    task, _ = loaded(name)
    assert task.catalogue_path is not None
    block = split_block(task.program)[1]
    for mechanism in load_catalogue(task.catalogue_path).mechanisms:
        assert len(mechanism.options) >= 3
        texts = [apply_edit(block, MechanismEdit(mechanism.name, option)) for option in mechanism.options]
        assert texts.count(block) == 1
        assert score_of(name, edited(name, **{mechanism.name: mechanism.options[1]})) > 0


@pytest.mark.parametrize("name", TOGETHER)
def test_settings_that_fit_each_other_reach_more_than_half_of_the_way(name: str) -> None:
    target = loaded(name)[0].spec.target
    assert target is not None
    score = score_of(name, edited(name, **TOGETHER[name]))
    assert 0.5 < (score - SEEDS[name]) / (target - SEEDS[name]) < 1


@pytest.mark.parametrize(("name", "file"), cheats())
def test_a_program_that_cheats_gains_nothing(name: str, file: Any) -> None:
    task, evaluator = loaded(name)
    namespace: dict[str, Any] = {}
    exec(file.read_text(), namespace)
    instances = evaluator.instances(0)
    outputs = [namespace[task.spec.entry](instance) for instance in instances]
    try:
        score = evaluator.score(instances, outputs)["score"]
    except ValueError as error:
        assert str(error)
    else:
        assert task.spec.fitness.reaches(SEEDS[name], score)
