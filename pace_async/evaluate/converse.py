"""The parent's half of a conversation with a driver: the job, then one instance after the other, and the time of each.

Invariant: an instance is written only after the output for the previous one has come, so a program cannot look ahead;
and a call's clock runs here, from before the first byte of its instance is written until its output is whole, so a
program cannot touch it. What that time holds besides the call (pipes, JSON, waking up) is what an echo takes: the same
text with every digit a 1, parsed and written again by the driver before the program is loaded.
"""

import os
import re
import time
from collections.abc import Callable

from pace_async.evaluate.frames import Answers
from pace_async.evaluate.pipes import Descriptors, Sink, write_all
from pace_async.evaluate.work import Work


class Conversation:
    """`calls` are the seconds of each output in `answers`; `echoes` those of each echo."""

    def __init__(self, work: Work, nonce: str, sink: Sink) -> None:
        self.answers = Answers(nonce, len(work.instances), work.echoes)
        self.calls: list[float] = []
        self.echoes: list[float] = []
        self._work, self._sink = work, sink
        self._began = 0.0

    async def hold(self, mine: Descriptors, descriptor: int, job: bytes) -> None:
        """Until there is nothing left to give; then close `descriptor` and read to the end of the pipe."""
        os.set_blocking(descriptor, False)
        if await write_all(descriptor, job + b"\n"):
            await self._give_all(descriptor)
        mine.close(descriptor)
        while not self._sink.done:
            await self._sink.read()
            self.answers.read_on(self._sink.data)

    def end(self) -> None:
        """Read what came since, and stop a clock that still runs: the program has ended."""
        self.answers.read_on(self._sink.data)
        if len(self.answers.outputs) > len(self.calls):
            self.calls.append(time.perf_counter() - self._began)

    async def _give_all(self, descriptor: int) -> None:
        answers, instances = self.answers, self._work.instances
        for number in range(self._work.echoes):
            if not await self._give(descriptor, blank(instances[0]), lambda n=number: answers.echoed > n):
                return
            self.echoes.append(time.perf_counter() - self._began)
        if not await self._hear(lambda: answers.loaded):
            return
        for number, instance in enumerate(instances):
            answers.given += 1
            if not await self._give(descriptor, instance, lambda n=number: len(answers.outputs) > n):
                return
            self.calls.append(time.perf_counter() - self._began)

    async def _give(self, descriptor: int, line: str, heard: Callable[[], bool]) -> bool:
        data = line.encode() + b"\n"
        self._began = time.perf_counter()
        return await write_all(descriptor, data) and await self._hear(heard)

    async def _hear(self, heard: Callable[[], bool]) -> bool:
        """Whether what is awaited came; False once it cannot come any more."""
        while not heard():
            if self.answers.over or self._sink.done:
                return False
            await self._sink.read()
            self.answers.read_on(self._sink.data)
        return True


def blank(instance: str) -> str:
    """JSON text of the same length and shape that says nothing of the numbers in it."""
    return re.sub("[0-9]", "1", instance)
