"""What a long run keeps on disk and in memory does not grow, and a learner killed then goes on from it, exactly."""

from pathlib import Path

import anyio
import psutil
import pytest

from pace_async.errors import InfrastructureFault, UsageError
from pace_async.learn.client import ProcessLearner
from pace_async.learn.lineage import Lineage
from pace_async.learn.settings import TrainerConfig
from pace_async.replay.groupfile import forget_before, write_group
from pace_async.weights import checkpoint_digests
from tests.support.learn_toys import random_group

SETTINGS = TrainerConfig(learning_rate=1e-3, checkpoint_every=2)
UPDATES = 8

pytestmark = pytest.mark.timeout(300)  # each start imports torch and TRL


def write(folder: Path, update: int) -> Path:
    """The file of the group that trains version `update`. The runtime skipped every third number."""
    path = folder / f"{update + update // 2 + 1:06d}.safetensors"
    write_group(path, random_group(seed=update, update=update, number=int(path.stem), rollouts=3))
    return path


def kill_child() -> None:
    for process in psutil.Process().children():
        if "pace_async.learn.process" in " ".join(process.cmdline()):
            process.kill()


@pytest.mark.long
@pytest.mark.nightly
async def test_a_learner_killed_between_sparse_checkpoints_goes_on_from_what_was_kept(
    toy: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "groups", tmp_path / "out"
    straight = Lineage(toy, tmp_path / "straight", SETTINGS)
    straight.start([])
    expected = [
        checkpoint_digests(Path(str(straight.train(write(tmp_path / "copy", update)).weights)))
        for update in range(UPDATES)
    ]
    recorded: list[Path] = []

    async def train(learner: ProcessLearner, update: int) -> None:
        path = write(folder, update)
        step = await learner.train(path)
        assert step.version == update + 1
        assert step.weights is not None
        assert checkpoint_digests(step.weights) == expected[update]
        recorded.append(path)
        assert step.oldest_group is not None
        forget_before(step.oldest_group)

    async with ProcessLearner(toy, out, SETTINGS) as learner:
        for update in range(UPDATES - 3):
            await train(learner, update)
        kill_child()  # at version 5; the last checkpoint is that of version 4
        with pytest.raises(InfrastructureFault, match="learner_died"):
            await learner.train(write(folder, UPDATES - 3))
        await train(learner, UPDATES - 3)
    assert not recorded[0].exists()
    async with ProcessLearner(toy, out, SETTINGS, recorded) as learner:  # the runtime was restarted
        assert learner.version == UPDATES - 2
        await train(learner, UPDATES - 2)
        again = await learner.train(recorded[-1])
        assert again.version == UPDATES - 1, "delivered twice, trained once"
        await train(learner, UPDATES - 1)
    kept = sorted(path.name for path in folder.iterdir())
    assert kept == [path.name for path in recorded[-3:]], "those since the oldest of two checkpoints, 6 and 8"
    assert sorted(entry.name for entry in (out / "checkpoints").iterdir()) == ["000006", "000008"]
    assert sorted(entry.name for entry in (out / "versions").iterdir()) == ["000006", "000007", "000008"]


@pytest.mark.long
async def test_a_call_beyond_the_length_limit_says_which_setting_to_raise(toy: Path, tmp_path: Path) -> None:
    path = write(tmp_path, 0)
    async with ProcessLearner(toy, tmp_path / "out", TrainerConfig(max_length=9)) as learner:
        with anyio.fail_after(200), pytest.raises(UsageError, match=r"learner\.max_length is 9: raise it.*pace resume"):
            await learner.train(path)


def test_only_older_groups_and_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    for name in (
        "000001.safetensors",
        "000009.safetensors",
        "000010.safetensors",
        "000011.safetensors",
        "notes.safetensors",
        ".000010.safetensors.42.tmp",
        "000002.txt",
    ):
        (tmp_path / name).write_text("")
    forget_before(tmp_path / "000010.safetensors")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"000010.safetensors", "000011.safetensors", "notes.safetensors", "000002.txt"}
