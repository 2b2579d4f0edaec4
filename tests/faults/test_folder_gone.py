"""The folder of a run removed while it runs: one sentence, whatever fails first."""

import shutil
from pathlib import Path

import anyio
import pytest

from pace_async.errors import GaveUp
from pace_async.evaluate.base import Evaluation, EvaluationRequest, Evaluator, evaluate
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.population.lock import RunLock
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start.assemble import keep_best
from pace_async.runtime.start.supervisor import drive
from pace_async.search.state import Member
from pace_async.simulate.stages import World
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import settings, simulated


class Removing(InTaskEvaluator):
    """An evaluator during whose tenth call the folder is removed, or replaced by one in which a run began."""

    def __init__(self, inner: Evaluator, folder: Path, replaced: bool) -> None:
        self._inner, self._folder, self._replaced = inner, folder, replaced
        self._calls = 0

    async def run(self, request: EvaluationRequest) -> Evaluation:
        self._calls += 1
        if self._calls == 10:
            self._remove()
        return await evaluate(self._inner, request)

    def _remove(self) -> None:
        shutil.rmtree(self._folder)
        if self._replaced:
            with RunLock(self._folder):
                pass


@pytest.mark.fault("Disk, everywhere", "the run's folder deleted while it runs: one sentence")
@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
async def test_a_run_whose_folder_is_removed_ends_with_one_sentence(tmp_path: Path, replaced: bool) -> None:
    folder = tmp_path / "run"
    told = f"^The folder {folder} was removed or replaced while"
    with anyio.fail_after(60), pytest.raises(GaveUp, match=told), RunLock(folder) as lock:
        async with simulated(folder, settings(stop__candidates=64), World(seed=2)) as run:
            evaluator = Removing(run.core.stages.evaluator, folder, replaced)
            change_stages(run.core, evaluator=evaluator)
            run.store.guard(lock.refuse_if_gone)
            await drive(run.core)
    assert folder.exists() == replaced, "nothing was made again"


@pytest.mark.fault("Disk, everywhere", "the run's folder deleted while it runs: one sentence")
def test_the_missing_folder_is_named_whatever_fails_first(tmp_path: Path) -> None:
    with pytest.raises(GaveUp, match="was removed or replaced"), RunLock(tmp_path / "run"):
        shutil.rmtree(tmp_path / "run")
        raise FileNotFoundError("learner.log")
    with pytest.raises(FileNotFoundError), RunLock(tmp_path / "run"):
        raise FileNotFoundError("learner.log")


@pytest.mark.fault("Disk, everywhere", "the run's folder deleted while it runs: one sentence")
def test_a_missing_folder_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = Member(candidate=1, program="x = 1\n", score=1.0)
    keep_best(RunPaths(tmp_path / "gone"), ".py", best)
    assert capsys.readouterr().err == ""
    (tmp_path / "best.py").mkdir()
    keep_best(RunPaths(tmp_path), ".py", best)
    assert "best.py could not be written" in capsys.readouterr().err
