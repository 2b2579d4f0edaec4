"""The parent's half of a conversation with a driver: the job, then one instance after the other, and the time of each.

Invariant: an instance is written only after the output for the previous one has come, so a program cannot look ahead.
The clock of a call is read here, where a program cannot touch it, and runs on from one output to the next, so that work
done between calls is counted too. What it counts besides the call (pipes, JSON) is what an echo takes: the same text
with every digit a 1, parsed and written again by the driver before the program is loaded.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pace_async.evaluate.sandbox.clocks import Moment, last_descendant, now
from pace_async.evaluate.sandbox.cold import FirstProcess
from pace_async.evaluate.sandbox.frames import Answers
from pace_async.evaluate.sandbox.pipes import CHUNK, Descriptors, Sink, write_all

ECHOES = 6  # the first, which is not timed, warms up


@dataclass(frozen=True, slots=True)
class Job:
    """What a driver is to do: call `entry` of the program once for each instance. `files` are the modules beside the
    program, by file name. `instances` are JSON texts of one line each. The calls of a `timed` job are timed: the
    program gets one thread, and the cost of giving an instance and taking an output is measured first, without it."""

    program: str
    entry: str
    instances: Sequence[str]
    timed: bool = False
    files: Mapping[str, str] = field(default_factory=dict[str, str])


class Conversation:
    """`calls` are the seconds of each output in `answers`; `echoes` those of each timed echo. With `processor`, what is
    counted is processor time of the driver."""

    def __init__(self, job: Job, nonce: str, sink: Sink, processor: bool) -> None:
        self.answers = Answers(nonce, len(job.instances), ECHOES if job.timed else 0)
        self.calls: list[float] = []
        self.echoes: list[float] = []
        self._job, self._sink, self._processor = job, sink, processor
        self._driver: int | None = None
        self._unsent = b""
        self._began: Moment = now(None)

    def open(self, descriptor: int, head: bytes) -> None:
        """Write as much of the head as fits into the pipe before the driver reads, so that it need not wait."""
        os.set_blocking(descriptor, False)
        self._unsent = head + b"\n"
        self._unsent = self._unsent[os.write(descriptor, self._unsent[:CHUNK]) :]

    async def hold(self, mine: Descriptors, descriptor: int, first: FirstProcess) -> None:
        """Until there is nothing left to give; then close `descriptor` and read to the end of the pipe."""
        if await write_all(descriptor, self._unsent):
            await self._give_all(descriptor, first)
        mine.close(descriptor)
        while not self._sink.done:
            await self._sink.read()
            self.answers.read_on(self._sink.data)

    def end(self) -> None:
        """Read what came since, and stop a clock that still runs: the program has ended."""
        self.answers.read_on(self._sink.data)
        if len(self.answers.outputs) > len(self.calls):
            self.calls.append(self._lap())

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
            self.calls.append(self._lap())

    def _lap(self) -> float:
        """Seconds since the last time that this was asked."""
        before, self._began = self._began, now(self._driver)
        return self._began.since(before)

    async def _give(self, descriptor: int, line: str, heard: Callable[[], bool]) -> bool:
        return await write_all(descriptor, line.encode() + b"\n") and await self._hear(heard)

    async def _hear(self, heard: Callable[[], bool]) -> bool:
        """Wait for a frame. False once it cannot come any more."""
        while not heard():
            if self.answers.over or self._sink.done:
                return False
            await self._sink.read()
            self.answers.read_on(self._sink.data)
        return True


def blank(instance: str) -> str:
    """JSON text of the same length and shape that says nothing of the numbers in it."""
    return re.sub("[0-9]", "1", instance)
