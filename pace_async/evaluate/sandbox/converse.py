"""The parent's half of a conversation with a driver: the job, then one instance after the other, and the time of each.

Invariants: an instance is written only after the output for the previous one has come, so a program cannot look ahead.
Only the frames that are due, in their order and with the right nonce, count as answers. A result that comes before its
instance was given is a forgery. Payloads are not parsed here. They are a candidate's, and the scorer parses them.

The clock of a call is read here, where a program cannot change it, and runs on from one output to the next, so that
work between calls is counted too. The overhead besides the call (pipes, JSON) is measured by an echo: the same text
with every digit replaced by 1, parsed and written again by the driver before the program is loaded. If the program has
only one thread and can start no other process, the clock is the processor time of its process. Then all its work is
counted, sleeping gains nothing, and other processes on a busy machine cost it nothing. Otherwise it is wall clock,
which is never less than the processor time.
"""

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pace_async.evaluate.following import Follower, Value
from pace_async.evaluate.pruning import Bar
from pace_async.evaluate.sandbox.cgroup import Group
from pace_async.evaluate.sandbox.cold import FirstProcess
from pace_async.evaluate.sandbox.inside.frame import ECHO, KINDS, LOADED, LONGEST_HEADER, MALFORMED, READY, RESULT
from pace_async.evaluate.sandbox.wiring import CHUNK, Descriptors, Sink, write_all
from pace_async.programs.languages import PROGRAM_ENDED

ECHOES = 6  # the first, which is not timed, warms up
MARK = b"pace "
TOO_EARLY = "it wrote a line before it was given an instance for it: one line is due for each"
_SCHEDULER = 2  # the kind of per-process clock that counts nanoseconds as the scheduler sees them


@dataclass(frozen=True, slots=True)
class Process:
    """A program that runs as a separate process: the command, variables of its environment, and its files (a `bundle`).
    `most`: the command builds it, and may leave so many bytes. Without `one_thread` it may start threads also if it is
    timed, and its time is that of its control group."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    files: bytes
    most: int | None = None
    one_thread: bool = True


@dataclass(frozen=True, slots=True)
class Command:
    """An evaluator of the user's, which runs beside the program. Words of `argv` may hold {program}, {results} and
    {task}. `task` is the folder that is copied for it, `files` (a `bundle`) are written over the copy, the first of
    them is the program, and `path` are folders of the copy for its import path. `results` are the names of the files
    in the folder of results that are wanted, each of at most `most` bytes. With `packages` it imports those of the
    Python that runs pace. `removed` are files that are taken out of the copy, and `folder` is where the command runs
    in it."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    task: str
    program: str
    files: bytes
    path: Sequence[str]
    results: Sequence[str]
    most: int
    packages: bool = True
    removed: Sequence[str] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """The driver's job: call `entry` of the program once for each instance. `files` are the modules beside the program,
    by file name. `instances` are JSON texts of one line each. The calls of a `timed` job are timed: the program gets
    one thread, and the overhead of sending an instance and receiving an output is measured first, without the program.
    With `process`, that command is run instead of a function. With `command`, the task's evaluator is run, and its one
    output is a JSON mapping of the files that it left: their text, or their size if they are too long. `variables` are
    in the environment of all of these. A `cold` job is never run in a fork of a warm parent. A `bar` stops it where its
    values fall below: those that the command reports, or those that `value` gives of the outputs so far."""

    program: str
    entry: str
    instances: Sequence[str]
    timed: bool = False
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    process: Process | None = None
    command: Command | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    cold: bool = False
    bar: Bar | None = None
    value: Value | None = None

    @property
    def following(self) -> bytes:
        """What follows the head on the driver's pipe."""
        work = self.process or self.command
        return b"" if work is None else work.files

    @property
    def one_thread(self) -> bool:
        """Whether the program may start no thread and no process."""
        return self.timed and (self.process is None or self.process.one_thread)

    @property
    def in_lines(self) -> bool:
        """Whether the program answers in lines, and not the driver in frames."""
        return self.process is not None and self.process.most is None


class Conversation:
    """`calls` are the seconds of each output in `answers`, and `echoes` those of each timed echo. With `processor`,
    they are processor time: of the driver, or of the whole `group` if a program may have threads. A `follower` is told
    of each output."""

    def __init__(
        self,
        job: Job,
        nonce: str,
        sink: Sink,
        processor: bool,
        group: Group | None = None,
        follower: Follower | None = None,
    ) -> None:
        self.answers = (Lines if job.in_lines else Answers)(nonce, len(job.instances), ECHOES if job.timed else 0)
        self.calls: list[float] = []
        self.echoes: list[float] = []
        self._job, self._sink, self._processor, self._follower = job, sink, processor, follower
        self._group = group if job.timed and not job.one_thread else None
        self._driver: int | None = None
        self._unsent = b""
        self._began: ClockReading = now(None)

    def open(self, descriptor: int, head: bytes) -> None:
        """Write as much of the head as fits into the pipe before the driver reads, so that it need not wait."""
        os.set_blocking(descriptor, False)
        self._unsent = head + b"\n" + self._job.following
        self._unsent = self._unsent[os.write(descriptor, self._unsent[:CHUNK]) :]

    async def hold(self, mine: Descriptors, descriptor: int, first: FirstProcess) -> None:
        """Converse until all instances are sent. Then close `descriptor` and read to the end of the pipe. A program
        that answers in lines has ended with its last one."""
        if await write_all(descriptor, self._unsent):
            await self._give_all(descriptor, first)
        mine.close(descriptor)
        if self.done:
            return
        while not self._sink.done:
            await self._sink.read()
            self.answers.read_on(self._sink.data)

    @property
    def done(self) -> bool:
        """Whether no further answer can come, although the program may still run."""
        return self._job.in_lines and (self.answers.complete or self.answers.over)

    def end(self) -> None:
        """Read the remaining data, and stop a running clock, because the program has ended."""
        self.answers.read_on(self._sink.data)
        if len(self.answers.outputs) > len(self.calls):
            self._heard()

    def _heard(self) -> None:
        self.calls.append(self._lap())
        if self._follower is not None:
            self._follower.heard(self.answers.outputs, self.calls, self.echoes)

    async def _give_all(self, descriptor: int, first: FirstProcess) -> None:
        answers, instances = self.answers, self._job.instances
        for number in range(answers.echoes):
            if not await self._give(descriptor, blank(instances[0]), lambda n=number: answers.echoed > n):
                return
            if number == 0 and self._processor:
                self._driver = last_descendant(first.pid)
            seconds = self._lap()
            if number > 0:
                self.echoes.append(seconds)
        if not await self._hear(lambda: answers.loaded):
            return
        self._lap()
        for number, instance in enumerate(instances):
            answers.given += 1
            if not await self._give(descriptor, instance, lambda n=number: len(answers.outputs) > n):
                return
            self._heard()

    def _lap(self) -> float:
        """Seconds since the last call of this method."""
        moment = now(self._driver)
        if self._group is not None:
            moment = ClockReading(moment.wall, self._group.processor_s())
        before, self._began = self._began, moment
        return self._began.since(before)

    async def _give(self, descriptor: int, line: str, heard: Callable[[], bool]) -> bool:
        return await write_all(descriptor, line.encode() + b"\n") and await self._hear(heard)

    async def _hear(self, heard: Callable[[], bool]) -> bool:
        """Wait for a frame. Returns False once it cannot come any more."""
        while not heard():
            if self.answers.over or self._sink.done:
                return False
            await self._sink.read()
            self.answers.read_on(self._sink.data)
        return True


@dataclass(slots=True)
class Answers:
    """The answers for `instances` instances, after `echoes` echoes. `given` is the number of instances sent to the
    driver, and is set by the caller. `failure` is the kind of the frame that ended it early, with `reason` as its
    payload. `forged` describes bytes that should not have come."""

    nonce: str
    instances: int
    echoes: int = 0
    given: int = 0
    ready: bool = False
    echoed: int = 0
    loaded: bool = False
    outputs: list[bytes] = field(default_factory=list[bytes])
    failure: str | None = None
    reason: bytes = b""
    forged: str | None = None
    _read: int = 0

    @property
    def complete(self) -> bool:
        """Whether every instance has its answer, and no unexpected bytes came."""
        return not self.over and len(self.outputs) == self.instances

    @property
    def over(self) -> bool:
        """Whether no further answer is due."""
        return self.failure is not None or self.forged is not None

    @property
    def without_a_result(self) -> str:
        """The message about a program that ended before its last answer."""
        return "ended without a result"

    def read_on(self, data: bytes | bytearray) -> None:
        """Take the complete frames out of the pipe's data so far. An incomplete frame waits for its rest: it is no
        answer and no forgery."""
        while self._read < len(data) and self.forged is None:
            if not self._read_one(data):
                return

    def _read_one(self, data: bytes | bytearray) -> bool:
        """Take the next frame. Returns False if there is no complete one, or none that is due."""
        end = data.find(b"\n", self._read, self._read + LONGEST_HEADER)
        if end < 0:
            begun = len(data) - self._read < LONGEST_HEADER
            if not begun or not MARK.startswith(data[self._read : self._read + len(MARK)]):
                self.forged = "bytes that are not a frame"
            return False
        self.forged, kind, length = _read_header(bytes(data[self._read : end]), self.nonce)
        if self.forged is not None or len(data) < end + 1 + length:
            return False
        if not self._due(kind):
            self.forged = "more than one answer" if self.outputs or self.failure else "a frame before its time"
            return False
        self._take(kind, bytes(data[end + 1 : end + 1 + length]))
        self._read = end + 1 + length
        return True

    def _due(self, kind: str) -> bool:
        if self.failure is not None:
            return False
        match kind:
            case "ready":
                return not self.ready and self.echoed == self.echoes
            case "echo":
                return not self.ready and self.echoed < self.echoes
            case "loaded":
                return self.ready and not self.loaded
            case "result":
                return self.loaded and len(self.outputs) < self.given
            case _:
                return self.ready

    def _take(self, kind: str, payload: bytes) -> None:
        if kind == READY:
            self.ready = True
        elif kind == ECHO:
            self.echoed += 1
        elif kind == LOADED:
            self.loaded = True
        elif kind == RESULT:
            self.outputs.append(payload)
        else:
            self.failure, self.reason = kind, payload


@dataclass(slots=True)
class Lines(Answers):
    """The answers of a program that writes a line for each instance, once the driver's frames have said that it starts.
    What comes after the last output is not read."""

    _searched: int = 0

    @property
    def without_a_result(self) -> str:
        return f"{PROGRAM_ENDED} in the middle of a line" if self._searched > self._read else PROGRAM_ENDED

    def _read_one(self, data: bytes | bytearray) -> bool:
        if not self.loaded:
            return Answers._read_one(self, data)
        if self.over or len(self.outputs) == self.instances:
            return False
        end = data.find(b"\n", max(self._read, self._searched))
        self._searched = len(data) if end < 0 else 0
        if end < 0:
            return False
        if len(self.outputs) >= self.given:
            self.failure, self.reason = MALFORMED, json.dumps(TOO_EARLY).encode()
            return False
        self.outputs.append(bytes(data[self._read : end]))
        self._read = end + 1
        return True


def _read_header(header: bytes, nonce: str) -> tuple[str | None, str, int]:
    parts = header.split(b" ")
    if len(parts) != 4 or parts[0] != b"pace" or not parts[3].isdigit() or len(parts[3]) > 12:
        return "bytes that are not a frame", "", 0
    kind = parts[2].decode("ascii", "replace")
    if parts[1] != nonce.encode():
        return "a frame with the wrong nonce", "", 0
    if kind not in KINDS:
        return "a frame of an unknown kind", "", 0
    return None, kind, int(parts[3])


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Seconds since some beginning. `processor` is None if it cannot be read for the process."""

    wall: float
    processor: float | None

    def since(self, earlier: "ClockReading") -> float:
        """Seconds of work between two moments."""
        if self.processor is None or earlier.processor is None:
            return self.wall - earlier.wall
        return self.processor - earlier.processor


def now(pid: int | None) -> ClockReading:
    """The clocks' values. `pid` is the process whose processor time is read, None for the wall clock alone."""
    try:
        # Linux numbers a process's clock by its id; Python names no function for it.
        used = None if pid is None else time.clock_gettime(~pid << 3 | _SCHEDULER)
    except OSError:  # it has ended
        used = None
    return ClockReading(time.perf_counter(), used)


def last_descendant(pid: int) -> int | None:
    """The process at the end of a chain of only children: the driver, below bubblewrap's processes. None if the kernel
    does not report it, or if the chain branches."""
    try:
        while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if len(children) > 1:
                return None
            pid = int(children[0])
    except OSError:
        return None
    return pid


def blank(instance: str) -> str:
    """JSON text of the same length and shape without its numbers."""
    return re.sub("[0-9]", "1", instance)
