"""A full disk, and bytes that a disk has changed: a run pauses, shows it and goes on, or it ends with a sentence and a
resume goes on. The real database, simulated stages, a real small disk."""

import time
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pace_async.errors import GaveUp
from pace_async.learn.base import Learner, Step
from pace_async.population.reading.reader import open_readonly
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.stages import World
from tests.faults.invariants import assert_sound, candidates_of
from tests.support.changed_stages import change_stages
from tests.support.short_runs import SHAPE, goes_on_to_its_end
from tests.support.simulated_runs import Simulated, settings, simulated
from tests.support.small_disk import fill, small_disk


@dataclass
class Waits:
    """A clock on which each wait takes `seconds`. At the wait `until` the disk has room again."""

    filler: Path
    until: int
    seconds: float = 1.0
    waits: int = 0
    seen: str = ""
    run: Simulated | None = None

    def now(self) -> float:
        return time.time() + self.waits * self.seconds

    def monotonic(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        self.waits += 1
        if self.run is not None:
            self.seen = self.run.core.bus.view.stalled
        if self.waits == self.until:
            self.filler.unlink()
        await anyio.lowlevel.checkpoint()


def faults_of(folder: Path) -> list[str]:
    with open_readonly(folder / "population.db") as reader:
        return [row["kind"] for row in reader.query("select kind from faults order by at")]


@pytest.mark.fault("Disk, everywhere", "no space for a group file: paused, told, and gone on by itself")
async def test_without_room_for_a_group_a_run_pauses_shows_it_and_goes_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "groups", 8192) as disk:
        clock = Waits(fill(disk), until=3)
        async with simulated(tmp_path, settings(**SHAPE), World(seed=9)) as run:
            clock.run = run
            change_stages(run.core, clock=clock)
            with anyio.fail_after(100):
                assert await drive(run.core) == "done"
            assert run.core.bus.view.stalled == ""
        assert clock.seen == "the disk is full"
    assert faults_of(tmp_path) == ["disk_full"] * 3 + ["disk_back"]
    assert_sound(tmp_path / "population.db", finished=True)
    assert len(candidates_of(tmp_path / "population.db")) == 41


@pytest.mark.long
@pytest.mark.fault("Disk, everywhere", "no space for a group file: ended by patience, and resumed")
async def test_a_disk_full_beyond_patience_ends_the_run_with_a_sentence_and_a_resume_goes_on(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "groups", 8192) as disk:
        filler = fill(disk)
        async with simulated(tmp_path, settings(**SHAPE), World(seed=9)) as run:
            change_stages(run.core, clock=Waits(filler, until=0, seconds=250.0))
            told = (
                r"^The next group could not be written for 600 s \(disk_full: .*No space left.*\); `pace resume` goes"
            )
            with anyio.fail_after(100), pytest.raises(GaveUp, match=told):
                await drive(run.core)
        assert faults_of(tmp_path) == ["disk_full"] * 4
        with open_readonly(tmp_path / "population.db") as reader:
            assert reader.status()["state"] == "gave_up"
        filler.unlink()
        await goes_on_to_its_end(tmp_path)


class Damaging:
    """A learner before whom the first group's file is changed by the disk, and the second's is lost."""

    def __init__(self, inner: Learner) -> None:
        self._inner = inner
        self._given = 0

    async def train(self, group: Path) -> Step:
        self._given += 1
        self._damage(group)
        return await self._inner.train(group)

    def _damage(self, group: Path) -> None:
        if self._given == 1:
            whole = group.read_bytes()
            group.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        if self._given == 3:
            group.unlink()


@pytest.mark.long
@pytest.mark.fault("Disk, everywhere", "a byte flipped in a group file is noticed before it is trained on")
async def test_a_group_that_the_disk_has_changed_or_lost_is_written_again_from_the_rows(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(**SHAPE), World(seed=9)) as run:
        assert run.core.stages.learner is not None
        change_stages(run.core, learner=Damaging(run.core.stages.learner))
        with anyio.fail_after(100):
            assert await drive(run.core) == "done"
        digests = await run.store.query("select digest from groups order by group_number")
    assert faults_of(tmp_path) == ["group_unreadable"] * 2
    assert_sound(tmp_path / "population.db", finished=True)
    async with simulated(tmp_path / "undamaged", settings(**SHAPE), World(seed=9)) as run:
        assert await drive(run.core) == "done"
        assert len(digests) == len(await run.store.query("select digest from groups"))
