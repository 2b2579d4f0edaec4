"""A finished run for the tests of commands: simulated stages over the real database, made once and copied. It runs
under virtual time, so that its rows are the same on every machine.

The learner of the simulated stages measures nothing, so plausible measures are put into its rows. If a test needs it,
hostile text is put where a model or a program could have put it.
"""

import atexit
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

from pace_async.configure import dump
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.durations import Durations
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from pace_async.task import load_task
from tests.support.command_line import PACE
from tests.support.simulated_runs import settings, simulated

BEGUN = 1_767_225_600.0
"""When it began: 2026-01-01 UTC."""
HOSTILE = (
    '</pre></style><script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'">'
    "<svg onload=\"document.title='owned'\"/>\x1b[31m\x1b]0;owned\x07\u202egnp.exe [bold]x[/bold] \u2028 e\u0301"
)


def pace(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would, its output not a terminal."""
    return subprocess.run(
        [PACE, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=600,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


_made: list[Path] = []


def make_run(folder: Path) -> Path:
    """A finished run of circle_packing in `folder`. It is searched once in a process, then copied. The first one is
    kept in a separate folder, because a test's own folder is removed when the test has passed."""
    if not _made:
        kept = Path(tempfile.mkdtemp(prefix="pace-tests-"))
        atexit.register(shutil.rmtree, kept, ignore_errors=True)
        _made.append(_search(kept / "run", 40))
    return Path(shutil.copytree(_made[0], folder))


def _search(folder: Path, candidates: int) -> Path:
    config = settings(stop__candidates=candidates, search__threads=4, learner__group_size=4, learner__k=2)
    world = World(durations=Durations(1, 2.0, 0.6, None, 0.1, 0.2, 0.01))

    async def search() -> None:
        async with simulated(folder, config, world, SimulatedFaults(discard_every=5), VirtualClock()) as run:
            await drive(run.core, None, signals=False)

    folder.mkdir(parents=True)
    run_virtually(search, start=BEGUN)
    (folder / "config.yaml").write_text(dump(config))
    (folder / "best.py").write_text(load_task("circle_packing").program)
    with sqlite3.connect(folder / "population.db") as database:
        database.execute(
            "update groups set entropy = 3.0 / (1 + group_number), grad_norm = 0.5 + 0.1 * (group_number % 3), "
            "loss = 0.01 * group_number - 0.05, ess = 0.9 where state = 'trained'"
        )
        # What the store takes from the machine's clock, and the end, which takes no virtual time after the last group.
        database.execute("update runs set created_at = ?", (BEGUN,))
        database.execute("update run_states set at = at + 0.001 where state = 'done'")
        forget_journal(database)
    database.close()
    return folder


def forget_journal(database: sqlite3.Connection) -> None:
    """Make the runs those of a version without a journal, because their rows are changed by hand."""
    database.execute("delete from journal")
    database.execute("delete from blobs")
    database.execute("delete from snapshots")


def poison(run: Path) -> None:
    """Hostile text as the best program, and in its idea, experiment, detail, and in a fault."""
    database = sqlite3.connect(run / "population.db")
    with database:
        best = database.execute("select candidate from candidates order by merit desc limit 1").fetchone()[0]
        database.execute("update candidates set program = program || ?, detail = ?, mechanism = ?", (HOSTILE,) * 3)
        database.execute("update experiments set description = ?", (HOSTILE,))
        database.execute("update ideas set description = ?", (HOSTILE,))
        database.execute("update candidates set program = ? where candidate = ?", (f"# {HOSTILE}\nx = 1\n", best))
        database.execute("update groups set reason = ? where state = 'skipped'", (HOSTILE,))
        database.execute("update runs set name = ?, advisor = ?", (HOSTILE, HOSTILE))
        database.execute("insert into faults values (1, 999, ?, ?, ?, null, 1.0)", (HOSTILE,) * 3)
    database.close()


def copy_run(run: Path, folder: Path) -> Path:
    """A copy at folder/runs/circle_packing-1."""
    return Path(shutil.copytree(run, folder / "runs" / "circle_packing-1"))
