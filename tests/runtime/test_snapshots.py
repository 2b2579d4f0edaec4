"""A resume from a snapshot is the one that folds all facts, and a snapshot that is of no use is none."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.events import EpochInForce, FaultSeen, RescoreBegan
from pace_async.observe.followed import Followed
from pace_async.observe.history import check_views, taken_up, view_of
from pace_async.observe.model import RunView
from pace_async.observe.watching import Source, ViewUpdate
from pace_async.population.connect import Place, engine
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.snapshots import newest_snapshot
from pace_async.population.store import Store
from pace_async.population.writing.write_snapshots import snapshot_kept
from pace_async.runtime.run import snapshots
from pace_async.runtime.run.snapshots import Snapshots
from pace_async.runtime.start.restore import restore
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import SimulatedFaults, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.state.run_state import RunState
from tests.doubles.clocks import Impatient
from tests.support.catalogues import with_sites
from tests.support.comparing_states import differences
from tests.support.every_fact import change, problems
from tests.support.population_facts import empty_place, rescored
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import REACH, SEARCH

pytestmark = pytest.mark.usefixtures("both")
EVERY = 60
RUNS: dict[str, dict[str, object]] = {
    "pools": {"search__parents": "puct"},
    "memory": {"search__memory": "run", "advisor__calls": "one"},
}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EVERY", EVERY)
    monkeypatch.setattr(snapshots, "BYTES", 10**6)


@dataclass(slots=True)
class Keeping:
    """Passes every snapshot on, and has them all."""

    store: Store
    kept: list[tuple[int, tuple[bytes, bytes]]] = field(default_factory=list[tuple[int, tuple[bytes, bytes]]])

    def keep_snapshot(self, seq: int, encode: Callable[[], tuple[bytes, bytes]]) -> None:
        both = encode()
        self.kept.append((seq, both))
        self.store.keep_snapshot(seq, lambda: both)


async def driven(store: Store, folder: Path, config: Config) -> Keeping:
    """The run of this configuration, begun or resumed, to its end."""
    task = with_sites(folder)
    if not (await store.query("select run_id from runs")):
        await store.create_run(header_of(config, task))
        await store.commit(seed_program(task))
    record = await store.load()
    world, faults = World(seed=3), SimulatedFaults(reach=REACH, lost=frozenset({5, 9, 10}), discard_every=2)
    served = record.run_state.served
    world.serve(served, folder / "versions" / f"{served:06d}" if served else None)
    core = SimulatedRun(config, task, Impatient(), world, folder, faults, Bytes()).core(record, store)
    taken, keeping = await taken_up(record.run_id, store), Keeping(store)
    core.recorder.snapshots = Snapshots(keeping, core.state, taken.follower, taken.seq, taken.since)
    assert await drive(core) == "done"
    return keeping


async def taken(store: Store, config: Config) -> tuple[RunState, RunView]:
    """The state and the view that a resume begins with."""
    record = await store.load()
    return restore(record, config), await view_of(record, config.stop, store)


def looked_at(place: Place) -> ViewUpdate:
    """What `pace watch` shows at first."""
    with open_readonly(place) as reader:
        return Source(reader, lambda: (True, ""), None).look()


def put(place: Place, run_id: int, seq: int, both: tuple[bytes, bytes]) -> None:
    """Make this the newest snapshot."""
    writer = engine(place, "write")
    with writer.begin() as connection:
        snapshot_kept(connection, run_id, seq, 0.0, *both)
    writer.dispose()


def wrong_of(place: Place) -> list[str]:
    """What `pace db check` finds wrong."""
    with open_readonly(place) as reader:
        return [*problems(place), *(line for check in check_views(reader) for line in check.wrong)]


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
async def test_from_every_snapshot_of_a_run_a_resume_has_the_same_state_and_view(name: str, tmp_path: Path) -> None:
    place = empty_place(tmp_path)
    config, more = (settings(**SEARCH, seed=3, stop__candidates=number, **RUNS[name]) for number in (40, 60))
    async with Store.open(place) as store:
        keeping = await driven(store, tmp_path, config)
    async with Store.open(place) as store:  # the last one is written by now
        [row] = await store.query("select seq from snapshots")
        assert row["seq"] == keeping.kept[-1][0]
        kept = [*keeping.kept, *(await driven(store, tmp_path, more)).kept]
    assert wrong_of(place) == []
    # How many there are the threads' turns decide. At the end no decision is open, so each run has one at least.
    assert len(kept) > len(keeping.kept) >= 1
    async with Store.open(place) as store:
        run_id = (await store.standing()).run_id
        change(place, "delete from snapshots")
        state, view = await taken(store, more)
        looked = looked_at(place)
        assert view.candidates == 60
        for seq, both in kept:
            await store._write(
                lambda connection, seq=seq, both=both: snapshot_kept(connection, run_id, seq, 0.0, *both)
            )  # pyright: ignore[reportPrivateUsage]
            from_it = await taken(store, more)
            assert differences(state, from_it[0]) == [] and from_it[1] == view, seq
            assert looked_at(place) == looked
        put(place, run_id, *kept[len(kept) // 2])
    assert wrong_of(place) == []


UNREADABLE: dict[str, tuple[str, list[str]]] = {
    "another version": ("update snapshots set version = '0.1'", []),
    "each as the other": (
        "update snapshots set state = view, view = state",
        ["does not read: the state does not read", "does not read"],
    ),
    "other bytes": (
        "update snapshots set state = (select logprobs from advisor_calls limit 1), "
        "view = (select spans from advisor_calls limit 1)",
        ["the checksum", "the checksum"],
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", UNREADABLE)
async def test_a_snapshot_that_does_not_read_is_the_same_as_none(name: str, tmp_path: Path) -> None:
    place, config = empty_place(tmp_path), settings(**SEARCH, seed=3, stop__candidates=24)
    statement, says = UNREADABLE[name]
    async with Store.open(place) as store:
        await driven(store, tmp_path, config)
        before = await taken(store, config)
    change(place, statement)
    found = wrong_of(place)
    assert len(found) == len(says) and all(word in line for word, line in zip(says, found, strict=True)), found
    async with Store.open(place) as store:
        after = await taken(store, config)
    assert differences(before[0], after[0]) == [] and before[1] == after[1]


@pytest.mark.long
async def test_a_snapshot_of_other_facts_is_named(tmp_path: Path) -> None:
    place, config = empty_place(tmp_path), settings(**SEARCH, seed=3, stop__candidates=24)
    async with Store.open(place) as store:
        keeping = await driven(store, tmp_path, config)
    seq = keeping.kept[-1][0]
    change(place, f"update snapshots set seq = {seq - 30}")
    found = wrong_of(place)
    assert any(f"the snapshot of {seq - 30} facts has another running" in line for line in found), found
    assert found[-1] == f"the view in the snapshot of {seq - 30} facts is not theirs"
    change(place, "update snapshots set seq = 100000")
    async with Store.open(place) as store:  # of facts that are not there
        assert await store.read(lambda connection: newest_snapshot(connection, 1)) is None


async def test_a_corrected_evaluator_voids_the_snapshot(tmp_path: Path) -> None:
    place, config = empty_place(tmp_path), settings(**SEARCH, seed=3, stop__candidates=24)
    async with Store.open(place) as store:
        await driven(store, tmp_path, config)
    async with Store.open(place) as store:
        last = (await store.load()).run_state.last_lease
        [count] = await store.query("select count(*) as snapshots from snapshots")
        await store.commit(RescoreBegan(1, "mended", None, 7000.0), rescored(0, 1.0), EpochInForce(1, last, 7002.0))
        assert (count["snapshots"], await store.query("select * from snapshots")) == (1, [])


async def test_where_it_is_not_known_what_was_written_no_snapshot_is_kept(tmp_path: Path) -> None:
    config = settings(**SEARCH, seed=3, stop__candidates=24)
    async with Store.open(empty_place(tmp_path)) as store:
        await store.create_run(header_of(config, with_sites(tmp_path)))
        await store.commit(seed_program(with_sites(tmp_path)))
        state, keeping = restore(await store.load(), config), Keeping(store)
        fault = FaultSeen("engine", "timeout", "", None, 1.0)
        for certain in (True, False):
            snaps = Snapshots(keeping, state, Followed(await store.header()), 2, EVERY - 1)
            if not certain:
                snaps.stop()
            snaps.after((fault,))
            assert [seq for seq, _ in keeping.kept] == [3]


async def test_a_snapshot_that_cannot_be_made_is_none_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> tuple[bytes, bytes]:
        raise RuntimeError("no such state")

    config = settings(**SEARCH, seed=3)
    place = empty_place(tmp_path)
    async with Store.open(place) as store:
        await store.create_run(header_of(config, with_sites(tmp_path)))
        store.keep_snapshot(1, broken)
        await store.commit(seed_program(with_sites(tmp_path)))
    assert "no snapshot of 1 facts was kept" in caplog.text and "no such state" in caplog.text
    async with Store.open(place) as store:
        await store.load()
        assert await store.query("select * from snapshots") == []
