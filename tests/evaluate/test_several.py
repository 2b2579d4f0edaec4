"""A task with several objectives: how task.yaml says them, what is refused, and what an evaluation comes to."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pace_async.errors import UsageError
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.several import come_to
from pace_async.task import FULL, Task, load_task
from tests.support.zdt import zdt_task

F1 = {"metric": "f1", "direction": "minimize", "bounds": {"lower": 0, "upper": 1}}
F2 = {**F1, "metric": "f2"}


def with_lines(folder: Path, **changed: Any) -> Task:
    task = zdt_task(folder, "zdt1")
    path = task.folder / "task.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changed}))
    return load_task(str(task.folder))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"objectives": [F1]}, "objectives: 1 given, and 2 to 5 are possible; a single one is the score itself"),
        ({"objectives": [F1, F1]}, "objectives: the metric 'f1' is named 2 times"),
        ({"objectives": [F1, {**F2, "metric": "score"}]}, "'score' is the number that all objectives come to"),
        ({"objectives": [F1, {**F2, "direction": "up"}]}, "objectives.1.direction"),
        ({"objectives": [F1, {**F2, "bounds": {"lower": 1, "upper": 0}}]}, "must be below bounds.upper"),
        ({"objectives": [F1, {**F2, "at_least": 2, "at_most": 1}]}, "nothing is at_least 2 and at_most 1"),
        ({"objectives": [F1, {**F2, "atleast": 2}]}, "unknown field 'objectives.1.atleast'"),
        ({"direction": "minimize"}, "leave out direction: each of the objectives has its own"),
        ({"bounds": {"lower": 0, "upper": 1}}, "leave out bounds: each of the objectives has its own"),
    ],
)
def test_a_mistake_in_the_objectives_is_said_in_one_sentence(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        with_lines(tmp_path / "bad", **changed)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_metrics_come_to_one_score_and_a_missing_one_to_none(tmp_path: Path) -> None:
    spec = zdt_task(tmp_path / "toy", "zdt1", at_most=0.5).spec
    full = come_to(spec, FULL, Evaluation("ok", 7.0, 1.0, metrics={"f1": 0.25, "f2": 1.5}))
    assert full.score == pytest.approx(0.75)
    assert come_to(spec, FULL, Evaluation("ok", 7.0, 1.0, metrics={"f1": 1.0, "f2": 0.0})).score == -0.5
    assert come_to(spec, "cheap", Evaluation("ok", 7.0, 1.0)).score == 7.0
    none = come_to(spec, FULL, Evaluation("ok", 7.0, 1.0, metrics={"f1": 0.5}))
    assert (none.outcome, none.score) == ("invalid_score", None)
    assert none.detail == "the evaluator reported no metric 'f2', which is an objective; it reported: f1"
