"""The example of each language: its seed program scores, and so does each way in which the catalogue changes it."""

import shutil
import sys
from pathlib import Path

import pytest

from pace_async.config import EvaluationConfig
from pace_async.evaluate.assemble import open_evaluator
from pace_async.implement.catalogue import MechanismEdit, apply_edit, load_catalogue
from pace_async.programs.languages import LANGUAGES
from pace_async.runtime.start.new_task import make_task, templates
from pace_async.task import Task, editable, load_task
from tests.doubles.evaluators import scored

EDITS = {"start": "nearest", "improve": "both", "tries": 1000, "heat": 0.05, "draw": 3}
SEED_SCORE = 24.76268099932229
"""The same in each language: the points in the order in which they are given."""


def _needs(language: str) -> "pytest.MarkDecorator":
    """Skips, with a reason that the summary counts, where the language is not installed."""
    one = LANGUAGES[language]
    missing = [tool for tool in one.tools if shutil.which(tool) is None]
    source = f"apt-get install {one.packages}" if one.packages else "Debian 12 has no package of it"
    return pytest.mark.skipif(bool(missing), reason=f"{one.title} is not installed ({source})")


OTHERS = [pytest.param(name, marks=_needs(name)) for name in templates() if name != "python"]


def _example(folder: Path, language: str) -> Task:
    make_task("tours", folder / "tours", language)
    return load_task(str(folder / "tours"))


def _edited(task: Task, edits: dict[str, str | int | float]) -> str:
    before, block, after = editable(task.program)
    for name, option in edits.items():
        block = apply_edit(block, MechanismEdit(name, option), task.spec.written_in)
    return before + block + after


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
@pytest.mark.parametrize("language", OTHERS)
async def test_the_example_of_a_language_scores_and_gets_better_by_its_catalogue(tmp_path: Path, language: str) -> None:
    task = _example(tmp_path, language)
    async with open_evaluator(task, EvaluationConfig(), log=tmp_path / "log") as evaluator:
        seed = await scored(evaluator, task.program)
        assert (seed.outcome, seed.score) == ("ok", pytest.approx(SEED_SCORE, abs=1e-9)), seed
        better = await scored(evaluator, _edited(task, EDITS))
        assert better.outcome == "ok" and better.score is not None, better
        assert better.score < 6.7, better
        broken = await scored(evaluator, task.program.replace("tour(", "tour(("))
        assert broken.outcome == "candidate_error", broken
        assert broken.detail.startswith("the build failed: "), broken
        assert f"initial.{LANGUAGES[language].suffix}" in broken.detail, broken


@pytest.mark.parametrize("language", templates())
def test_the_block_of_each_example_holds_the_algorithm_and_not_the_reading_of_instances(
    tmp_path: Path, language: str
) -> None:
    before, block, after = editable(_example(tmp_path, language).program)
    assert all(name in block for name in ("improve", "changed", "tries", "tour"))
    assert "best_length" in block or "bestLength" in block
    assert not any(name in before + after for name in ("best_length", "bestLength"))
    assert (len(after.splitlines()) == 1) == (language == "python")


@pytest.mark.parametrize("language", templates())
def test_every_option_of_the_catalogue_can_be_set_in_the_example_of_each_language(
    tmp_path: Path, language: str
) -> None:
    task = _example(tmp_path, language)
    assert task.catalogue_path is not None
    for mechanism in load_catalogue(task.catalogue_path).mechanisms:
        changed = {_edited(task, {mechanism.name: option}) for option in mechanism.options}
        assert len(changed) == len(mechanism.options)
        assert task.program in changed
