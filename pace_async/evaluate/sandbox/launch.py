"""Run programs in a sandbox, each once: forked by a warm parent while that can be trusted, started cold otherwise.

Returns the supervisor's observations. `verdict` says what the end of a run means, and no program is run twice here
because of how it ended.

Invariants: when `launch` returns or is cancelled, the candidate's process group has been killed, its pipes are closed
and no descriptor or directory of it is left. Nothing that a candidate does can keep `launch` waiting beyond the time
limit and a few seconds of grace, and at most the output limit is kept of its output.

A candidate of a `CandidateRunner` runs in a warm fork only after the self-check was passed in such a fork. A failure of
the warm parent never affects a candidate's outcome: if the parent refuses, dies or forks a process that never reports
ready, the program is started cold at once, and so is every later one. That is reported once.
"""

import json
import logging
import os
import secrets
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path

import anyio
import anyio.to_thread

from pace_async.errors import InfrastructureFault
from pace_async.evaluate.following import Follower
from pace_async.evaluate.pruning import Reports
from pace_async.evaluate.sandbox import cold, leftovers
from pace_async.evaluate.sandbox.cgroup import Group
from pace_async.evaluate.sandbox.converse import ECHOES, Command, Conversation, Job, Process
from pace_async.evaluate.sandbox.inside.frame import LONGEST_HEADER
from pace_async.evaluate.sandbox.inside.warm import RESULT
from pace_async.evaluate.sandbox.tiers import Limits, Plan, Tier
from pace_async.evaluate.sandbox.usage import Usage, measure
from pace_async.evaluate.sandbox.verdict import JobResult, judge, one_line
from pace_async.evaluate.sandbox.warm import WarmParent, start_warm_parent
from pace_async.evaluate.sandbox.wiring import Sink, Wiring
from pace_async.programs.compiled import parts_of
from pace_async.removal import remove_tree

DRAIN_S = 1.0
LEAST_S = 0.1
TAIL_BYTES = 4096
EVALUATOR_TAIL_BYTES = 128 << 10
"""What is kept of the output of a command task's evaluator, whose last line may hold the metrics."""
EVALUATOR_TIMES = 16
"""How many times output_mb such an evaluator may print. Only the end is kept, but reading takes this process's time."""

log = logging.getLogger(__name__)

Proof = Callable[[Tier, WarmParent, Sequence[Path]], Awaitable[str]]
"""Tries whether the forks of a parent, which has these folders hidden, are confined. Returns why not, or nothing."""


class CandidateRunner:
    """`hidden` are folders that no candidate may read. `say` is called at most once, with the reason why candidates are
    started cold although warm starts were asked for."""

    def __init__(self, tier: Tier, hidden: Sequence[Path], say: Callable[[str], Awaitable[None]] | None = None) -> None:
        self._tier, self._hidden = tier, hidden
        self._say = say
        self._warm: WarmParent | None = None

    @property
    def is_warm(self) -> bool:
        """Whether the next candidate will be forked from a warm parent."""
        return self._warm is not None

    @property
    def hides_files(self) -> bool:
        """Whether candidates can open only the files and devices that they are given."""
        return "files" in self._tier.claims

    async def warm_up(self, imports: Sequence[str], prove: Proof) -> None:
        """Start a parent with these imports, if the tier has one, and use it if `prove` finds its forks confined as
        well as a cold start."""
        try:
            parent = start_warm_parent(self._tier, self._hidden, imports)
        except OSError as error:
            await self._tell(error.strerror or str(error))
            return
        if parent is None:
            return
        self._warm = parent
        await parent.ready()
        if not parent.broken and (unproven := await prove(self._tier, parent, self._hidden)):
            parent.give_up(unproven)
        if parent.broken:
            await self._go_cold(parent)

    async def close(self) -> None:
        """End the warm parent."""
        parent, self._warm = self._warm, None
        if parent is not None:
            await parent.close()

    async def run(self, job: Job, limits: Limits) -> JobResult:
        """How the program ended. Raises InfrastructureFault if the machine did not start it."""
        parent = None if job.cold else self._warm
        if parent is not None:
            try:
                ended = await launch(self._tier, job, limits, self._hidden, parent)
                verdict = judge(ended)
                if verdict.outcome != "infrastructure_error":
                    return ended
                parent.give_up(verdict.detail)
            except InfrastructureFault as fault:
                parent.give_up(str(fault))
            await self._go_cold(parent)
        return await launch(self._tier, job, limits, self._hidden)

    async def _go_cold(self, parent: WarmParent) -> None:
        """The first caller reports it. A parent that is given up has no candidates left."""
        if self._warm is parent:
            self._warm = None
            await parent.close()
            await self._tell(parent.broken)

    async def _tell(self, reason: str) -> None:
        text = f"candidates are started cold from here on: {one_line(reason)}"
        if self._say is None:
            log.warning("%s", text)
        else:
            await self._say(text)


async def launch(
    tier: Tier, job: Job, limits: Limits, hidden: Sequence[Path], warm: WarmParent | None = None
) -> JobResult:
    """Run the job in a process forked by `warm`, a parent in the same tier with the same folders hidden, or in a
    process started for it. Raises InfrastructureFault if the machine did not start it."""
    try:
        if warm is None:
            return await _launched_cold(tier, job, limits, hidden)
        waiting = await warm.prefork.take(limits.memory_mb)
        with closing(waiting):
            plan = tier.plan(limits, hidden, None)
            warm.prefork.refill(limits.memory_mb)
            return await _run(plan, job, limits, waiting.wiring, _Start(waiting.started, RESULT))
    except OSError as error:
        raise InfrastructureFault("sandbox_start", error.strerror or str(error)) from None


@dataclass(frozen=True, slots=True)
class _Start:
    """The way in which the first process is started. `result` and `members` are the driver's numbers of its result
    pipe, and of the control groups that it has to join."""

    process: Callable[[], Awaitable[cold.FirstProcess]]
    result: int
    members: Sequence[int] = ()


async def _launched_cold(tier: Tier, job: Job, limits: Limits, hidden: Sequence[Path]) -> JobResult:
    async with _scratch(tier.needs_scratch) as scratch:
        return await _launched_in(scratch, tier, job, limits, hidden)


async def _launched_in(scratch: Path | None, tier: Tier, job: Job, limits: Limits, hidden: Sequence[Path]) -> JobResult:
    with closing(Wiring.open(limits.memory_mb, tier.isolates)) as wiring:
        plan = tier.plan(limits, hidden, scratch)
        if scratch is not None and plan.scratch_owner is not None:
            os.chown(scratch, plan.scratch_owner, plan.scratch_owner)

        async def start() -> cold.FirstProcess:
            return cold.start(plan, scratch, wiring.given, wiring.mine, one_thread=job.one_thread)

        result, *members = wiring.given[RESULT:]
        return await _run(plan, job, limits, wiring, _Start(start, result, members))


async def _run(plan: Plan, job: Job, limits: Limits, wiring: Wiring, start: _Start) -> JobResult:
    nonce = secrets.token_hex(16)
    head = _head(plan, job, nonce, start)
    most = limits.output_bytes
    name = "standard output" if job.in_lines else "the result"
    result = Sink(wiring.answers, name, most + _framing(job))
    streams = ("standard output", "standard error")
    tail, drained = TAIL_BYTES, most
    if job.command is not None:
        tail, drained = EVALUATOR_TAIL_BYTES, EVALUATOR_TIMES * most
        streams = tuple(f"{stream}: more than {drained >> 20} MiB, which output_mb sets" for stream in streams)
    reports = Reports(job.bar) if job.bar is not None else None
    follower = None
    if reports is not None and job.value is not None:
        follower = Follower(reports, job.value, len(job.instances))
    hear = reports.hear if reports is not None and follower is None else None
    stdout = Sink(wiring.stdout, streams[0], drained, tail, hear)
    stderr = Sink(wiring.stderr, streams[1], drained, tail)
    talk = Conversation(job, nonce, result, "seccomp" in plan.confinement, wiring.group, follower)
    began = time.monotonic()
    talk.open(wiring.job, head)
    process = await start.process()
    watch = _Watch(process, wiring, limits, talk, (result, stdout, stderr), reports, follower)
    usage: Usage | None = None
    async with nullcontext() if follower is None else follower.beside():
        try:
            wiring.hand_over()
            await watch.until_over()
            seconds = time.monotonic() - began
            if watch.timed_out:
                usage = measure(process.pid, wiring.group)
        finally:
            code = await process.kill()
        survivors = await watch.drained()
        talk.end()
    return JobResult(
        answers=talk.answers,
        calls=talk.calls,
        echoes=talk.echoes,
        stdout=bytes(stdout.data),
        stderr=bytes(stderr.data),
        exit_code=code,
        stopped=not watch.exited,
        timed_out=watch.timed_out,
        out_of_time=watch.used_up or _out_of_time(plan, code, process.processor_s),
        overflowed=watch.overflowed,
        out_of_memory=wiring.group is not None and not talk.answers.complete and wiring.group.out_of_memory(),
        survivors=survivors,
        seconds=seconds,
        usage=usage,
        lost=process.lost,
        curve=reports.curve or None if reports is not None else None,
        missed=_missed(reports, follower, watch),
    )


@dataclass(slots=True)
class _Watch:
    """Watches one candidate until its first process ends or a limit is reached. `sinks` are the result, standard output
    and standard error. `exited`: the first process ended. `used_up`: the processor time is used up. `pruned`: what it
    reported, or a value of its outputs, fell below its bar. `timed_out`: the watch ended by none of them, nor by a pipe
    with too much data."""

    process: cold.FirstProcess
    wiring: Wiring
    limits: Limits
    talk: Conversation
    sinks: tuple[Sink, Sink, Sink]
    reports: Reports | None = None
    follower: Follower | None = None
    exited: bool = False
    used_up: bool = False
    pruned: bool = False
    timed_out: bool = False

    @property
    def overflowed(self) -> str | None:
        return next((sink.name for sink in self.sinks if sink.full), None)

    async def until_over(self) -> None:
        """Drive the conversation and read the pipes meanwhile."""
        with anyio.move_on_after(self.limits.seconds):
            async with anyio.create_task_group() as tg:
                tg.start_soon(self._converse, tg.cancel_scope)
                tg.start_soon(self._bound, tg.cancel_scope)
                if self.follower is not None:
                    tg.start_soon(self._followed, self.follower, tg.cancel_scope)
                for sink in self.sinks[1:]:
                    tg.start_soon(self._read, sink, tg.cancel_scope)
                await anyio.wait_readable(self.process.ended)
                self.exited = True
                tg.cancel_scope.cancel()
        ended = self.exited or self.used_up or self.pruned or self.talk.done
        self.timed_out = not ended and self.overflowed is None

    async def drained(self) -> bool:
        """Read the rest of the pipes. Returns whether a process still holds them after DRAIN_S."""
        with anyio.move_on_after(DRAIN_S) as draining:
            for sink in self.sinks:
                await sink.read_on()
        return draining.cancelled_caught

    async def _converse(self, scope: anyio.CancelScope) -> None:
        await self.talk.hold(self.wiring.mine, self.wiring.job, self.process)
        if self.sinks[0].full or self.talk.done:
            scope.cancel()

    async def _bound(self, scope: anyio.CancelScope) -> None:
        self.used_up = await _used_up(self.wiring.group, self.limits.processor_limit_s)
        if self.used_up:
            scope.cancel()

    async def _followed(self, follower: Follower, scope: anyio.CancelScope) -> None:
        await follower.missed.wait()
        self.pruned = True
        scope.cancel()

    async def _read(self, sink: Sink, scope: anyio.CancelScope) -> None:
        while not sink.done and not self.pruned:
            await sink.read()
            self.pruned = self.follower is None and self.reports is not None and self.reports.missed is not None
        if sink.full or self.pruned:
            scope.cancel()


def _missed(reports: Reports | None, follower: Follower | None, watch: _Watch) -> float | None:
    """The value that the last report would have needed. A command that ended before it could be stopped has its
    score, and what is followed is stopped wherever it stands."""
    if reports is None or (follower is None and (not watch.pruned or watch.talk.answers.complete)):
        return None
    return reports.missed


async def _used_up(group: Group | None, limit: float) -> bool:
    """Wait until the group's processes have used `limit` seconds of processor time together. Returns False at once if
    no control group counts them. The next reading is not before all processors together could have used the rest."""
    while group is not None and (used := group.processor_s()) is not None:
        if used >= limit:
            return True
        await anyio.sleep(max((limit - used) / len(os.sched_getaffinity(0)), LEAST_S))
    return False


def _out_of_time(plan: Plan, code: int, used: float) -> bool:
    """A process 1 of its namespaces ignores the kernel's SIGXCPU, and is killed a second of work later."""
    limit = plan.confinement.get("limits", {}).get("RLIMIT_CPU")
    return code == -signal.SIGXCPU or (code == -signal.SIGKILL and limit is not None and used >= limit - 1)


def _head(plan: Plan, job: Job, nonce: str, start: _Start) -> bytes:
    """The head of the job: the program and its settings."""
    # It was compiled for its digest, and compiling it again takes a quarter of a launch.
    parts = parts_of(job.program) if job.process is None and job.command is None else ()
    head = {
        "nonce": nonce,
        "result": start.result,
        "path": [str(path) for path in plan.imports] if job.command is None or job.command.packages else [],
        "variables": dict(job.variables),
        "confinement": {**plan.confinement, "cgroups": start.members, "one_thread": job.one_thread},
        "program": job.program,
        "parts": [(part.above, part.code.hex()) for part in parts],
        "files": dict(job.files),
        "process": _description_of(job.process, "one_thread"),
        "command": _description_of(job.command, "packages"),
        "entry": job.entry,
        "echoes": ECHOES if job.timed else 0,
        "instances": len(job.instances),
    }
    return json.dumps(head).encode()


def _description_of(work: Process | Command | None, *left_out: str) -> dict[str, object] | None:
    """What the driver is told of it. Its files follow the head."""
    if work is None:
        return None
    values = {field.name: getattr(work, field.name) for field in fields(work) if field.name not in ("files", *left_out)}
    return {**values, "environment": dict(work.environment), "size": len(work.files)}


def _framing(job: Job) -> int:
    """Bytes that the result pipe may carry besides outputs: the echoes, at most as long as they came, and headers."""
    echoes = ECHOES * max(map(len, job.instances), default=0) if job.timed else 0
    return (len(job.instances) + ECHOES + 3) * LONGEST_HEADER + echoes


@asynccontextmanager
async def _scratch(needed: bool) -> AsyncGenerator[Path | None]:
    if not needed:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix=leftovers.prefix()))
    try:
        yield folder
    finally:
        with anyio.CancelScope(shield=True):  # a program may have made a million files
            await anyio.to_thread.run_sync(remove_tree, folder)
