"""How a candidate's run ended, and the outcome that follows. Pure.

Only `JobResult` says why a run ended, and `judge` chooses the outcome by that reason alone. `doubt` says whether the
end may have another cause.

Invariants: a candidate can never cause `infrastructure_error`. It is given only if the sandbox was ended from outside,
or if the driver had not yet reported that it was about to load the program. After that every end is the program's own,
with two exceptions (`doubt`). In these cases the program runs once more, alone, and the second end is judged whatever
it is. So no program runs more than twice.
"""

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pace_async.evaluate.pruning import in_words
from pace_async.evaluate.sandbox.converse import Answers
from pace_async.evaluate.sandbox.usage import Usage, starved
from pace_async.events import Curve, Outcome

DETAIL_CHARACTERS = 300
LAST_BYTES = 8192
"""How many bytes of a program's output are searched for its last line."""
KILLS = (-signal.SIGKILL, -signal.SIGTERM)

EndReason = Literal[
    "lost",
    "never_ready",
    "forged",
    "overflow",
    "pruned",
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
ready to load the program. forged: the result pipe carried something else than the frames that were due. overflow:
more than the output limit came through a pipe. pruned: what it reported fell below its bar. wall_clock,
processor_time: the time limit was reached. answered: every instance has its output. raised: the program raised.
malformed: an output is not JSON. memory_error: Python had no memory. out_of_memory: the control group killed. killed:
SIGKILL or SIGTERM by an unknown sender. exited: the program ended itself, or a signal that only a program causes
ended it."""

OUTCOMES: Mapping[EndReason, Outcome] = {
    "lost": "infrastructure_error",
    "never_ready": "infrastructure_error",
    "forged": "suspicious",
    "overflow": "output_overflow",
    "pruned": "pruned",
    "wall_clock": "timeout",
    "processor_time": "timeout",
    "answered": "ok",
    "raised": "candidate_error",
    "malformed": "invalid_score",
    "memory_error": "out_of_memory",
    "out_of_memory": "out_of_memory",
    "killed": "candidate_error",
    "exited": "candidate_error",
}

Doubt = Literal["starved", "killed"]


@dataclass(frozen=True, slots=True)
class JobResult:
    """The supervisor's observations. `calls` are the seconds of each output in `answers`, `echoes` those of each echo.
    `exit_code` is negative for a signal. `survivors`: a process still held the candidate's pipes a second after its
    group was killed. `stopped`: the supervisor ended the run. `out_of_time`: the processor time was used up, by all
    processes together if a control group counts them. `out_of_memory`: the control group killed and an output is
    missing. `usage` is known if the run timed out. `lost` is the kind and detail of the fault if the sandbox was ended
    from outside. `curve` is what a command task's evaluator or the task's scorer reported, and `missed` the value that
    the last report would have needed where it is stopped for that."""

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
    curve: Curve | None = None
    missed: float | None = None

    @property
    def reason(self) -> EndReason:
        """Why the run ended. Actions of the machine or the supervisor come before messages of the program."""
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
        if self.missed is not None:
            return "pruned"
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outputs` are the candidate's, one unparsed JSON text for each instance. They are set if the outcome is ok, and
    have still to be scored."""

    outcome: Outcome
    detail: str = ""
    outputs: tuple[bytes, ...] = ()


def judge(ended: JobResult) -> Verdict:
    """The outcome of one run, before scoring."""
    reason = ended.reason
    outputs = tuple(ended.answers.outputs) if reason == "answered" else ()
    return Verdict(OUTCOMES[reason], _detail(ended, reason), outputs)


def doubt(ended: JobResult, share: float) -> Doubt | None:
    """Why a program may not be to blame for its end: it timed out and was kept from its `share` of a processor, or an
    unknown sender killed it. None if the end is accepted at once."""
    if ended.answers.failure is not None or ended.answers.complete:
        return None
    match ended.reason:
        case "wall_clock":
            usage = ended.usage
            return "starved" if usage is not None and starved(usage, ended.seconds, share) else None
        case "killed":
            return "killed"
        case _:
            return None


def one_line(text: str) -> str:
    """Printable (no control or direction characters, so that it cannot alter a terminal), short, in one line."""
    read = text[: 8 * DETAIL_CHARACTERS]  # a program may have written megabytes
    words = "".join(character if character.isprintable() else " " for character in read).split()
    line = " ".join(words)
    return line if len(line) <= DETAIL_CHARACTERS else line[: DETAIL_CHARACTERS - 1] + "…"


def _detail(ended: JobResult, reason: EndReason) -> str:
    match reason:
        case "lost":
            return one_line(": ".join(ended.lost or ()))
        case "never_ready":
            return one_line(_never_ready(ended))
        case "forged":
            return f"the result pipe carried {ended.answers.forged}"
        case "overflow":
            return f"too much on {ended.overflowed}"
        case "pruned":
            return in_words(ended.curve or (), ended.missed or 0.0)
        case "wall_clock" | "processor_time":
            return f"stopped after {ended.seconds:.1f} s"
        case "answered":
            return ""
        case "memory_error":
            return "MemoryError"
        case "raised" | "malformed":
            return one_line(_text(ended.answers.reason))
        case "out_of_memory":
            return "killed for lack of memory"
        case "killed" | "exited":
            last = _last_line(ended.stderr)
            detail = f"{ended.answers.without_a_result} ({_ending(ended.exit_code)})"
            return one_line(f"{detail}: {last}" if last else detail)


def _never_ready(ended: JobResult) -> str:
    reason = (
        "the sandbox was not ready in time" if ended.timed_out else f"the sandbox ended ({_ending(ended.exit_code)})"
    )
    return f"{reason}: {last}" if (last := _last_line(ended.stderr)) else reason


def _ending(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def _last_line(data: bytes) -> str:
    lines = data[-LAST_BYTES:].decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _text(payload: bytes) -> str:
    """The driver's own message. A candidate can forge it, and then it is only an odd text."""
    try:
        value: object = json.loads(payload) if len(payload) < 1 << 16 else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, str) else "no reason given"
