"""The exact evaluators of geometry on small cases whose values are known."""

import math
from itertools import combinations, product
from typing import Any

import pytest

from pace_async.task import load_task
from tests.support.modules import load


def score(task: str, output: Any, **instance: int) -> float:
    """The score of one output for an instance of another size."""
    found = load_task(task)
    evaluator = load(found.folder / found.spec.evaluator, f"{task}_evaluator")
    return float(evaluator.score([{"seed": 0, **instance}], [output])["score"])


def test_three_points_are_worth_their_share_of_the_triangle() -> None:
    low = math.nextafter(math.sqrt(3) / 2, 0)
    assert score("heilbronn_triangle", [[0, 0], [1, 0], [0.5, 0.5]], n=3) == pytest.approx(1 / math.sqrt(3))
    assert score("heilbronn_triangle", [[0, 0], [1, 0], [0.5, low]], n=3) == pytest.approx(1.0)


@pytest.mark.parametrize("point", [[0.5, 0.8660254037844387], [0.5, -5e-324], [-5e-324, 0.0], [1.0, 5e-324]])
def test_a_point_outside_the_triangle_by_the_least_float_is_refused(point: list[float]) -> None:
    with pytest.raises(ValueError, match="outside"):
        score("heilbronn_triangle", [[0, 0], [1, 0], point], n=3)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e8])
def test_the_triangles_of_a_square_are_half_of_it_at_every_scale(scale: float) -> None:
    square = [[0, 0], [scale, 0], [scale, scale], [0, scale]]
    assert score("heilbronn_convex", square, n=4) == 0.5
    assert score("min_distance_ratio", square, n=4, dimensions=2) == 2.0


def test_the_diagonal_of_a_cube_is_the_root_of_three() -> None:
    cube = [list(corner) for corner in product((-0.0, 1.0), repeat=3)]
    assert score("min_distance_ratio_3d", cube, n=8, dimensions=3) == 3.0


def test_two_hexagons_may_touch_and_not_overlap() -> None:
    assert score("hexagon_packing", [[0, 0, 0]], n=1) == 1.0
    assert score("hexagon_packing", [[0, 0, math.tan(math.pi / 12)]], n=1) == pytest.approx(2 / math.sqrt(3))
    root = math.sqrt(3)
    above, below = (root, math.nextafter(root, 0)) if root * root > 3 else (math.nextafter(root, 2), root)
    assert score("hexagon_packing", [[0, 0, 0], [0, above, 0]], n=2) == pytest.approx(3.0)
    assert score("hexagon_packing", [[-1, 0, 0], [1, 0, 0]], n=2) == 2.0
    with pytest.raises(ValueError, match="overlap"):
        score("hexagon_packing", [[0, 0, 0], [0, below, 0]], n=2)


def roots(scale: int) -> list[list[int]]:
    """The 24 roots of D4, scaled."""
    return [
        [scale * (a * (k == i) + b * (k == j)) for k in range(4)]
        for i, j in combinations(range(4), 2)
        for a, b in product((-1, 1), repeat=2)
    ]


@pytest.mark.parametrize("scale", [1, 10**14])
def test_the_roots_of_d4_are_24_spheres_and_one_step_nearer_they_overlap(scale: int) -> None:
    assert score("kissing_11", roots(scale), dimensions=4) == 24
    moved = roots(scale)
    moved[0][0] -= 1
    with pytest.raises(ValueError, match="nearer"):
        score("kissing_11", moved, dimensions=4)
