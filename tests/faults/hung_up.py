"""A run in a separate terminal, on standard input: `python -m tests.faults.hung_up FOLDER`.

Prints "evaluating" when its evaluations wait, "draining" when it drains, then the state in which it ended.
"""

import fcntl
import sys
import termios
from pathlib import Path

import anyio

from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.stages import World
from tests.support.short_runs import SHAPE, hold
from tests.support.simulated_runs import settings, simulated


async def main(folder: Path) -> None:
    async with simulated(folder, settings(**SHAPE), World(seed=9)) as run:
        held = hold(run)

        async def let_go() -> None:
            await held.all_wait.wait()
            print("evaluating", flush=True)
            await run.core.wait_until(lambda: run.core.stopping is not None)
            print("draining", flush=True)
            held.let_go.set()

        async with anyio.create_task_group() as group:
            group.start_soon(let_go)
            print(await drive(run.core, signals=True), flush=True)


if __name__ == "__main__":
    fcntl.ioctl(sys.stdin, termios.TIOCSCTTY, 0)
    anyio.run(main, Path(sys.argv[1]))
