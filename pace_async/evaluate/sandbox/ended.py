"""How a candidate's run ended, in the supervisor's words. Pure.

Invariant: this is the one place that says why a run ended. `verdict` maps each reason to an outcome, and looks at
nothing else to choose it.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pace_async.evaluate.sandbox.frames import Answers
from pace_async.evaluate.sandbox.usage import Usage

EndReason = Literal[
    "lost",
    "never_ready",
    "forged",
    "overflow",
    "wall_clock",
    "processor_time",
    "answered",
    "raised",
    "malformed",
    "memory_error",
    "out_of_memory",
    "killed",
    "exited",
]
"""lost: the sandbox was ended from outside, where no candidate reaches. never_ready: the driver ended before it was
ready to load the program. forged: the result pipe carried something else than the frames that were due. overflow: more
than the output limit came through a pipe. wall_clock, processor_time: the time limit was reached. answered: every
instance has its output. raised: the program raised. malformed: an output is no JSON. memory_error: Python had no
memory. out_of_memory: the control group killed. killed: SIGKILL or SIGTERM by an unknown sender. exited: the program
ended itself, or a signal that only a program causes ended it."""

KILLS = (-signal.SIGKILL, -signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Ended:
    """What the supervisor saw. `calls` are the seconds of each output in `answers`, `echoes` those of each echo;
    `exit_code` is negative for a signal. `survivors` is true if something still held the candidate's pipes a second
    after its group was killed; `stopped` if the supervisor ended the run; `out_of_time` if the processor time was used
    up, by all processes together where a control group counts them; `out_of_memory` if the control group killed and an
    output is missing. `usage` is known where the run timed out. `lost` is the kind and detail of the fault if the
    sandbox was ended from outside."""

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
    lost: tuple[str, str] | None = None

    @property
    def reason(self) -> EndReason:
        """Why the run ended. What the machine or the supervisor did comes before what the program said."""
        if self.lost is not None:
            return "lost"
        return self._supervised() or self._answered() or self._ended_itself()

    def _supervised(self) -> EndReason | None:
        if not self.answers.ready and self.answers.forged is None:
            return "never_ready"
        if self.answers.forged is not None:
            return "forged"
        if self.overflowed is not None:
            return "overflow"
        if self.timed_out:
            return "wall_clock"
        return "processor_time" if self.out_of_time else None

    def _answered(self) -> EndReason | None:
        match self.answers.failure:
            case None if len(self.answers.outputs) == self.answers.instances:
                return "answered"
            case "memory":
                return "memory_error"
            case "error" if not self.out_of_memory:
                return "raised"
            case "malformed":
                return "malformed"
            case _:
                return None

    def _ended_itself(self) -> EndReason:
        if self.out_of_memory:
            return "out_of_memory"
        return "killed" if self.exit_code in KILLS and not self.stopped else "exited"
