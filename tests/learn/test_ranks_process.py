"""The learner as several processes on the processor: one version each group, whatever happens to a rank.

One test, because every rank of each learner that is started imports TRL.
"""

from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest

from pace_async.errors import InfrastructureFault, PaceBug
from pace_async.learn.client import ChildLimits, ProcessLearner
from pace_async.learn.lineage import Lineage
from pace_async.learn.settings import TrainerConfig
from pace_async.replay.group import Group
from pace_async.replay.groupfile import read_digested, write_group
from scripts.benchmarks.toys import write_llama
from tests.support.checkpoint_gap import gap_of
from tests.support.engine_models import plain_logprobs
from tests.support.learn_toys import VOCAB, written_groups

SETTINGS = TrainerConfig(learning_rate=1e-4, checkpoint_every=2, served_type=True)
TWO = ChildLimits(cards=("", ""), start_s=900.0)
THREE = replace(TWO, cards=("", "", ""))
EQUAL = 1e-6

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("toy") / "model", vocab=VOCAB, width=16, layers=2)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The last one makes version 5 from version 2."""
    folder = tmp_path_factory.mktemp("groups")
    paths = written_groups(folder, 5)
    rewritten = {1: {"keeps": (2,)}, 2: {"keeps": (2,)}, 3: {"keeps": (2,)}, 4: {"restores": 2}}
    for place, changes in rewritten.items():
        group: Group = read_digested(paths[place])[0]
        write_group(paths[place], replace(group, **changes))
    return paths


@pytest.fixture(scope="module")
def alone(toy: Path, groups: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Weights of versions 1, 2, … as one process makes them."""
    lineage = Lineage(toy, tmp_path_factory.mktemp("alone"), SETTINGS)
    lineage.start([])
    kept = tmp_path_factory.mktemp("kept")
    made: list[Path] = []
    for group in groups:
        weights = Path(str(lineage.train(group).weights))
        made.append(weights.rename(kept / weights.name))
    return made


def ranks() -> list[psutil.Process]:
    """The learner's processes that this test has started, rank 0 first."""
    found = [child for child in psutil.Process().children() if "pace_async.learn.process" in " ".join(child.cmdline())]
    return sorted(found, key=lambda child: child.environ().get("RANK", "0"))


@pytest.mark.fault("Machines", "a rank of the learner killed while another waits")
@pytest.mark.fault("Replay and learner", "one of several ranks killed in the middle of a step")
@pytest.mark.fault("Sick, not dead", "one of several ranks of a learner that hangs or dies ends all of them")
@pytest.mark.nightly
async def test_ranks_make_the_versions_of_one_process_and_one_that_dies_or_hangs_ends_all_of_them(
    toy: Path, groups: list[Path], alone: list[Path], tmp_path: Path
) -> None:
    async with ProcessLearner(toy, tmp_path, SETTINGS, limits=replace(TWO, hung_s=60.0)) as learner:
        assert await learner.ready() == toy
        first = await learner.train(groups[0])
        assert first.weights is not None and gap_of(first.weights, alone[0]) < EQUAL
        assert await learner.logprobs(1, (2, 3), (4, 5)) == pytest.approx(
            plain_logprobs(first.weights, (2, 3), (4, 5), 1.0), abs=1e-4
        )
        assert await learner.train(groups[0]) == first
        with pytest.raises(PaceBug, match="trains version 3"):
            await learner.train(groups[3])
        killed = ranks()
        killed[1].suspend()  # so the step cannot end before it dies
        faults: list[str] = []
        async with anyio.create_task_group() as tasks:

            async def train() -> None:
                with pytest.raises(InfrastructureFault) as fault:
                    await learner.train(groups[1])
                faults.append(fault.value.kind)

            tasks.start_soon(train)
            await anyio.wait_all_tasks_blocked()
            killed[1].kill()
        assert faults == ["learner_died"]
        assert [process.is_running() for process in killed] == [False, False]
        second = await learner.train(groups[1])
        assert second.weights is not None and gap_of(second.weights, alone[1]) < EQUAL
        assert (second.version, learner.version, len(ranks())) == (2, 2, 2)
        stopped = ranks()
        stopped[1].suspend()
        with pytest.raises(InfrastructureFault, match="learner_hung"):
            await learner.train(groups[2])
        assert [process.is_running() for process in stopped] == [False, False]
    async with ProcessLearner(toy, tmp_path, SETTINGS, groups[:2], limits=THREE) as learner:
        third = await learner.train(groups[2])
        assert third.weights is not None and gap_of(third.weights, alone[2]) < EQUAL
        fourth = await learner.train(groups[3])
        assert fourth.weights is not None and gap_of(fourth.weights, alone[3]) < EQUAL
        restored = await learner.train(groups[4])
        assert restored.metrics["restored"] == 2.0
        assert restored.weights is not None and gap_of(restored.weights, alone[1]) < EQUAL
        ended = ranks()
        ended[1].kill()
        assert (await learner.wait_lost()).kind == "learner_died"
        assert [process.is_running() for process in ended] == [False, False, False]
