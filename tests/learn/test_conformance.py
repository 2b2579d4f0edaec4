"""What every learner must do: the child process on a toy, the simulated one, and the double of tests."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pace_async.errors import InfrastructureFault
from pace_async.learn.base import GROUP_UNREADABLE, Learner
from pace_async.learn.client import ProcessLearner
from pace_async.learn.settings import TrainerConfig
from pace_async.replay.groupfile import read_digested
from pace_async.simulate.stages import SimulatedLearner, World
from scripts.benchmarks.toys import write_llama
from tests.doubles.learners import ScriptedLearner
from tests.support.learn_toys import VOCAB, written_groups

pytestmark = pytest.mark.timeout(300)  # a start imports torch and TRL


@pytest.fixture(params=["process", "simulated", "scripted"])
async def learner(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Learner]:
    if request.param == "process":
        toy = write_llama(tmp_path / "model", vocab=VOCAB, width=16, layers=1)
        async with ProcessLearner(toy, tmp_path / "out", TrainerConfig(learning_rate=1e-3)) as process:
            yield process
    elif request.param == "simulated":
        yield SimulatedLearner(World(), tmp_path / "out")
    else:
        versions = [tmp_path / f"{version:06d}" for version in range(3)]
        for folder in versions:
            folder.mkdir()
        yield ScriptedLearner(versions)


@pytest.mark.long
async def test_a_group_is_trained_once_and_an_unreadable_one_never(learner: Learner, tmp_path: Path) -> None:
    first, second = written_groups(tmp_path, 2)
    step = await learner.train(first)
    assert (step.update, step.version, step.reason, step.digest) == (0, 1, "", read_digested(first)[1])
    assert step.weights is not None
    assert step.weights.is_dir()
    assert step.seconds >= 0.0

    again = await learner.train(first)
    assert (again.update, again.version, again.digest, again.weights) == (0, 1, step.digest, step.weights)

    written = second.read_bytes()
    second.write_bytes(written[: len(written) // 2])
    for unreadable in (second, tmp_path / "gone"):
        with pytest.raises(InfrastructureFault) as fault:
            await learner.train(unreadable)
        assert fault.value.kind == GROUP_UNREADABLE

    second.write_bytes(written)
    after = await learner.train(second)
    assert (after.update, after.version, after.digest) == (1, 2, read_digested(second)[1])
    assert after.weights not in (None, step.weights)
