"""Pictures of the trials: what a curve shows."""

from pathlib import Path

import pytest

from research.trials.pictures import Panel, Steps, draw_panels


def test_a_curve_is_the_mean_of_its_runs_as_far_as_all_of_them_go() -> None:
    at, mean, error = Steps(5, 10, [[1.0, 2.0, 9.0], [3.0, 2.0]]).mean()
    assert at.tolist() == [5, 15]
    assert mean.tolist() == [2.0, 2.0]
    assert error.tolist() == pytest.approx([1.0, 0.0])


def test_a_picture_names_each_arm_with_its_runs_and_leaves_out_arms_without_any(tmp_path: Path) -> None:
    arms = {"pace": Steps(1, 1, [[0.1, 0.2], [0.2, 0.3]]), "none": Steps(1, 1, [[0.1, 0.1]]), "grpo": Steps(1, 1, [])}
    draw_panels(tmp_path / "picture.svg", [Panel("best score so far", "group", arms)])
    text = (tmp_path / "picture.svg").read_text()
    assert "<!-- pace (2 runs) -->" in text
    assert "<!-- none (1 run) -->" in text
    assert "grpo" not in text
