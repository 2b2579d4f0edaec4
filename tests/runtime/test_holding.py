"""A person who pauses a run and lets it go on changes when it opens leases, and nothing else."""

import io
import logging
from pathlib import Path

import anyio
import pytest

from pace_async.events import RunStateChanged
from pace_async.observe.fold import fold
from pace_async.observe.output import Output
from pace_async.observe.plain import PlainDisplay
from pace_async.observe.rich_display import RichDisplay
from pace_async.observe.sections import standing
from pace_async.population.memory import MemoryPopulation
from pace_async.runtime.start import keys
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import FAULTLESS, TINY_TASK, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from tests.doubles.keyboards import Typed
from tests.support.simulated_runs import settings, simulated
from tests.support.virtual_runs import ROLLOUTS, durations

CONFIG = settings(stop__candidates=12, search__threads=3, learner__group_size=4, learner__k=2)


def driven(folder: Path, *, paused: bool) -> list[tuple[object, ...]]:
    """The rollouts of a whole run under virtual time, perhaps with a pause at its beginning."""
    folder.mkdir()
    world, population = World(durations=durations(1)), MemoryPopulation(header_of(CONFIG, TINY_TASK))
    world.serve(0, None)

    async def process() -> None:
        await population.commit(seed_program(TINY_TASK))
        made = SimulatedRun(CONFIG, TINY_TASK, VirtualClock(), world, folder, FAULTLESS, Bytes())
        core = made.core(population.load(), population)
        core.hold(paused)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drive, core)
            await anyio.sleep(60.0)
            assert (core.state.next_lease().lease == 1) == paused  # every thread waits
            assert core.stopping is None
            core.hold(False)

    run_virtually(process)
    return [tuple(row.values()) for row in run_virtually(lambda: population.query(ROLLOUTS))]


def test_a_run_that_was_paused_has_the_candidates_of_one_that_was_not(tmp_path: Path) -> None:
    expected = driven(tmp_path / "plain", paused=False)
    assert len(expected) == 12
    assert driven(tmp_path / "held", paused=True) == expected


async def test_a_pause_is_shown_and_is_over_when_it_is_taken_back(tmp_path: Path) -> None:
    async with simulated(tmp_path, CONFIG, World()) as run:
        core = run.core
        await core.record(RunStateChanged("running", "", 5.0))
        for _ in range(2):
            core.hold(True)  # the second one changes nothing
        view = core.bus.view
        assert (core.held, view.held) == (True, True)
        assert [note.text for note in view.notes].count("paused: no new candidates") == 1
        assert standing(view)[0] == "paused by p, what is in flight goes on"
        assert standing(fold(view, RunStateChanged("draining", "interrupted", 6.0)))[0] == "draining"
        core.hold(False)
        assert not core.bus.view.held
        assert standing(core.bus.view)[0] == "running"


async def test_the_keys_of_a_run_pause_it_show_its_best_program_and_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    display = RichDisplay(Output(io.StringIO()), {"TERM": "xterm"})
    async with simulated(tmp_path, CONFIG, World()) as run:
        core = run.core
        held: list[bool] = []
        keyboard = Typed("pbp ", lambda key: held.append(core.held))
        monkeypatch.setattr(keys.Keyboard, "of", lambda: keyboard)
        obey = keys.keys_on(display)
        assert obey is not None
        core.hold(True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(obey, core)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert held == [False, False, True, False]
        assert display.panels.shown == "best"
        assert core.state.best is not None
        assert display.panels.program(0) == core.state.best.program
        assert keyboard.left


async def test_keys_that_cannot_be_read_are_reported_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    display = RichDisplay(Output(io.StringIO()), {"TERM": "xterm"})
    monkeypatch.setattr(keys.Keyboard, "of", lambda: Typed("p", error=OSError("the terminal is gone")))
    async with simulated(tmp_path, CONFIG, World()) as run:
        obey = keys.keys_on(display)
        with caplog.at_level(logging.WARNING):
            assert await drive(run.core, keys=obey) == "done"
        assert not run.core.held
    assert caplog.messages.count("keys are not read any more: OSError: the terminal is gone") == 1
    assert not display.panels.keys


def test_a_display_without_panels_takes_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys.Keyboard, "of", lambda: Typed(""))
    assert keys.keys_on(PlainDisplay(Output(io.StringIO()))) is None
