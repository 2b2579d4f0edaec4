"""Somebody kills a program on a node, and not the actor: it ends as on one machine."""

import os
import shutil
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
import psutil
import pytest

from pace_async.evaluate.base import Limits
from pace_async.evaluate.on_ray.placed import PlacedActor
from tests.doubles.evaluators import request
from tests.support.ray_held import DEADLINE_S, opened, outcomes
from tests.support.ray_nodes import NEEDS_RAY, RayNodes

pytestmark = [NEEDS_RAY, pytest.mark.long, pytest.mark.timeout(300)]
NEEDS_BUBBLEWRAP = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
NAME = f"runs{os.getpid()}"
WAITS = f"""
import ctypes, signal


def f(instance):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    ctypes.CDLL(None).prctl(15, {NAME.encode()})
    signal.sigwait([signal.SIGUSR1])
    return 7
"""
"""Names its process, and waits for a signal, which may have come before."""
CHARGED = "ended without a result (SIGKILL)"
Whom = Literal["program", "sandbox"]


class Programs:
    """The processes of programs of an actor, one after another."""

    def __init__(self, placed: PlacedActor) -> None:
        self._actor = psutil.Process(placed.ready.pid)
        self._seen: set[int] = set()

    async def next(self) -> psutil.Process:
        """Wait until another one runs."""
        with anyio.fail_after(DEADLINE_S):
            while True:
                for process in self._actor.children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        if process.name() == NAME and process.pid not in self._seen:
                            self._seen.add(process.pid)
                            return process
                await anyio.sleep(0.05)  # the kernel does not tell

    def sandbox_of(self, program: psutil.Process) -> psutil.Process:
        """The first process of its sandbox."""
        return next(parent for parent in reversed(program.parents()) if parent.ppid() == self._actor.pid)


@pytest.mark.fault("Machines", "a program killed on a node")
@pytest.mark.parametrize(
    ("killed", "attempts", "details", "score"),
    [
        pytest.param(
            ["program"],
            [(1, "candidate_error", False), (2, "ok", True)],
            ["killed: run once more, alone", ""],
            7,
            id="program",
        ),
        pytest.param(
            ["program", "program"],
            [(1, "candidate_error", False), (2, "candidate_error", True)],
            ["killed: run once more, alone", CHARGED],
            None,
            id="program_twice",
        ),
        pytest.param(
            ["sandbox"],
            [(1, "infrastructure_error", False), (2, "ok", True)],
            ["sandbox_killed: another process ended it with SIGKILL", ""],
            7,
            id="sandbox",
            marks=NEEDS_BUBBLEWRAP,
        ),
    ],
)
async def test_a_program_killed_on_a_node_runs_once_more_there_and_its_actor_is_not_lost(
    killed: list[Whom],
    attempts: list[tuple[int, str, bool]],
    details: list[str],
    score: float | None,
    cluster: RayNodes,
    tmp_path: Path,
) -> None:
    """A second kill counts as the program's own end. A kill of its whole sandbox is a failure of the machine."""
    async with opened(cluster, tmp_path, slots=1) as on_ray:
        on_ray.let_go()
        (placed,) = on_ray.evaluator.fleet.living
        asked, programs = replace(request(WAITS), limits=Limits(2 * DEADLINE_S, 512, 1 << 20)), Programs(placed)
        await on_ray.evaluator.submit(asked)
        for whom in killed:
            program = await programs.next()
            (program if whom == "program" else programs.sandbox_of(program)).kill()
        if score is not None:
            (await programs.next()).send_signal(signal.SIGUSR1)
        found, made = await outcomes(on_ray, asked)
        assert (made, found.score) == (attempts, score)
        assert [attempt.detail for attempt in found.attempts] == details
        assert {attempt.node for attempt in found.attempts} == {placed.node.name}
        assert on_ray.evaluator.fleet.living == [placed]
        assert on_ray.said == []
