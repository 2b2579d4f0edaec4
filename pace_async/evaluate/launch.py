"""Run one program in a sandbox, once, and say what was seen. What it means is decided by `verdict`.

Invariant: when `launch` returns or is cancelled, the candidate's process group has been killed, its pipes are closed
and no descriptor or directory of it is left. Nothing that a candidate does can keep `launch` waiting beyond the time
limit and a few seconds of grace, and no more than the output limit is kept of what it says.
"""

import json
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from pace_async.errors import InfrastructureFault
from pace_async.evaluate import cold, leftovers
from pace_async.evaluate.cgroup import Group
from pace_async.evaluate.converse import ECHOES, Conversation
from pace_async.evaluate.frames import Answers
from pace_async.evaluate.inside.frame import LONGEST_HEADER
from pace_async.evaluate.inside.warm import RESULT
from pace_async.evaluate.pipes import Sink
from pace_async.evaluate.tiers import Launch, Limits, Tier
from pace_async.evaluate.usage import Usage, measure
from pace_async.evaluate.warm import WarmParent
from pace_async.evaluate.wiring import Wiring
from pace_async.evaluate.work import Work
from pace_async.programs import parts_of

DRAIN_S = 1.0
LEAST_S = 0.1
TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Ended:
    """What was seen from outside. `calls` are the seconds of each output in `answers`, `echoes` those of each echo;
    `exit_code` is negative for a signal. `survivors` is true if something still held the candidate's pipes a second
    after its group was killed; `stopped` if this supervisor ended it, and not itself; `out_of_time` if it ended because
    it had used up its processor time, all its processes together where a control group counts them; `out_of_memory` if
    it did not answer all and its control group killed for want of memory. `usage` is known where it timed out."""

    answers: Answers
    calls: Sequence[float]
    echoes: Sequence[float]
    stdout: bytes
    stderr: bytes
    exit_code: int
    stopped: bool
    timed_out: bool
    out_of_time: bool
    overflowed: str | None
    out_of_memory: bool
    survivors: bool
    seconds: float
    usage: Usage | None = None


async def launch(
    tier: Tier, work: Work, limits: Limits, hidden: Sequence[Path], warm: WarmParent | None = None
) -> Ended:
    """In a process forked by `warm`, a parent in the same tier with the same folders hidden, or in one started for it.
    Raises InfrastructureFault if the machine would not start it, or lost it together with its parent."""
    try:
        if warm is None:
            return await _launched_cold(tier, work, limits, hidden)
        waiting = await warm.spares.take(limits.memory_mb)
        with closing(waiting):
            plan = tier.launch(limits, hidden, None)
            warm.spares.refill(limits.memory_mb)
            return await _run(plan, work, limits, waiting.wiring, waiting.started, RESULT, ())
    except OSError as error:
        raise InfrastructureFault("sandbox_start", error.strerror or str(error)) from None


async def _launched_cold(tier: Tier, work: Work, limits: Limits, hidden: Sequence[Path]) -> Ended:
    with closing(Wiring.open(limits.memory_mb, tier.name != "none")) as wiring, _scratch(tier.needs_scratch) as scratch:
        plan = tier.launch(limits, hidden, scratch)
        if scratch is not None and plan.scratch_owner is not None:
            os.chown(scratch, plan.scratch_owner, plan.scratch_owner)

        async def start() -> cold.FirstProcess:
            return cold.start(plan, scratch, wiring.given, wiring.mine, one_thread=work.timed)

        result, *members = wiring.given[RESULT:]
        return await _run(plan, work, limits, wiring, start, result, members)


async def _run(
    plan: Launch,
    work: Work,
    limits: Limits,
    wiring: Wiring,
    start: Callable[[], Awaitable[cold.FirstProcess]],
    result: int,
    members: Sequence[int],
) -> Ended:
    """`result` and `members` are what the driver calls its result pipe and the control groups it has yet to join."""
    nonce = secrets.token_hex(16)
    job = _job(plan, work, nonce, result, members)
    most = limits.output_bytes
    sinks = (
        Sink(wiring.answers, "the result", most + _framing(work)),
        Sink(wiring.stdout, "standard output", most, TAIL_BYTES),
        Sink(wiring.stderr, "standard error", most, TAIL_BYTES),
    )
    talk = Conversation(work, nonce, sinks[0], processor="seccomp" in plan.confinement)
    began = time.monotonic()
    talk.open(wiring.job, job)
    process = await start()
    exited = out_of_time = False
    usage: Usage | None = None
    try:
        wiring.hand_over()
        with anyio.move_on_after(limits.seconds):
            async with anyio.create_task_group() as tg:

                async def watch(sink: Sink) -> None:
                    await sink.read_on()
                    if sink.full:
                        tg.cancel_scope.cancel()

                async def hold() -> None:
                    await talk.hold(wiring.mine, wiring.job, process)
                    if sinks[0].full:
                        tg.cancel_scope.cancel()

                async def bound() -> None:
                    nonlocal out_of_time
                    out_of_time = await _used_up(wiring.group, limits.processor_limit_s)
                    if out_of_time:
                        tg.cancel_scope.cancel()

                tg.start_soon(hold)
                tg.start_soon(bound)
                for sink in sinks[1:]:
                    tg.start_soon(watch, sink)
                await anyio.wait_readable(process.ended)
                exited = True
                tg.cancel_scope.cancel()
        seconds = time.monotonic() - began
        timed_out = not exited and not out_of_time and not any(sink.full for sink in sinks)
        if timed_out:
            usage = measure(process.pid, wiring.group)
    finally:
        code = await process.kill()
    if process.lost:
        raise InfrastructureFault(*process.lost)
    with anyio.move_on_after(DRAIN_S) as draining:
        for sink in sinks:
            await sink.read_on()
    talk.end()
    return Ended(
        answers=talk.answers,
        calls=talk.calls,
        echoes=talk.echoes,
        stdout=bytes(sinks[1].data),
        stderr=bytes(sinks[2].data),
        exit_code=code,
        stopped=not exited,
        timed_out=timed_out,
        out_of_time=out_of_time or _out_of_time(plan, code, process.processor_s),
        overflowed=next((sink.name for sink in sinks if sink.full), None),
        out_of_memory=wiring.group is not None and not talk.answers.complete and wiring.group.out_of_memory(),
        survivors=draining.cancelled_caught,
        seconds=seconds,
        usage=usage,
    )


async def _used_up(group: Group | None, limit: float) -> bool:
    """Wait until all in the group have used so much processor time together; False at once where nobody counts it. It
    is asked no sooner than all processors could have used up what was left."""
    while group is not None and (used := group.processor_s()) is not None:
        if used >= limit:
            return True
        await anyio.sleep(max((limit - used) / len(os.sched_getaffinity(0)), LEAST_S))
    return False


def _out_of_time(plan: Launch, code: int, used: float) -> bool:
    """A process 1 of its namespaces ignores the kernel's SIGXCPU, and is killed a second of work later."""
    limit = plan.confinement.get("limits", {}).get("RLIMIT_CPU")
    return code == -signal.SIGXCPU or (code == -signal.SIGKILL and limit is not None and used >= limit - 1)


def _job(plan: Launch, work: Work, nonce: str, result: int, members: Sequence[int]) -> bytes:
    parts = parts_of(work.program)  # compiled for its digest: for the candidate that would be a quarter of its work
    head = {
        "nonce": nonce,
        "result": result,
        "path": [str(path) for path in plan.imports],
        "confinement": {**plan.confinement, "cgroups": members, "one_thread": work.timed},
        "program": "" if parts else work.program,
        "parts": [(part.above, part.code.hex()) for part in parts],
        "files": dict(work.files),
        "entry": work.entry,
        "echoes": ECHOES if work.timed else 0,
        "instances": len(work.instances),
    }
    return json.dumps(head).encode()


def _framing(work: Work) -> int:
    """What the result pipe may carry besides outputs: the echoes, written at most as wide as they came, and headers."""
    echoes = ECHOES * max(map(len, work.instances), default=0) if work.timed else 0
    return (len(work.instances) + ECHOES + 3) * LONGEST_HEADER + echoes


@contextmanager
def _scratch(needed: bool) -> Generator[Path | None]:
    if not needed:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix=leftovers.prefix()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
