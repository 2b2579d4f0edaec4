"""What the end of a run means: the outcome of a program, and whether the end is believed at once. Pure.

Invariants: `infrastructure_error` is never within a candidate's power. It is given only where the sandbox was lost from
outside, or where the driver had not yet said that it was about to load the program. From then on every end is the
program's own, with two exceptions that are doubted once (`doubt`). A doubted program runs once more, alone, and the
second end is judged whatever it is, so no program runs more than twice.
"""

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pace_async.evaluate.sandbox.ended import Ended, EndReason
from pace_async.evaluate.sandbox.usage import starved
from pace_async.events import Outcome

DETAIL_CHARACTERS = 300
LAST_BYTES = 8192
"""How many bytes of a program's output are searched for its last line."""

OUTCOMES: Mapping[EndReason, Outcome] = {
    "lost": "infrastructure_error",
    "never_ready": "infrastructure_error",
    "forged": "suspicious",
    "overflow": "output_overflow",
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
class Verdict:
    """`outputs` are the candidate's, one unparsed JSON text for each instance. They are there where the outcome is ok,
    and have still to be scored."""

    outcome: Outcome
    detail: str = ""
    outputs: tuple[bytes, ...] = ()


def judge(ended: Ended) -> Verdict:
    """The outcome of one run, before scoring."""
    reason = ended.reason
    outputs = tuple(ended.answers.outputs) if reason == "answered" else ()
    return Verdict(OUTCOMES[reason], _detail(ended, reason), outputs)


def doubt(ended: Ended, share: float) -> Doubt | None:
    """Why a program may not be to blame for its end: it timed out and was kept from its `share` of a processor, or an
    unknown sender killed it. None where the end is believed at once."""
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


def _detail(ended: Ended, reason: EndReason) -> str:
    match reason:
        case "lost":
            return one_line(": ".join(ended.lost or ()))
        case "never_ready":
            return one_line(_never_ready(ended))
        case "forged":
            return f"the result pipe carried {ended.answers.forged}"
        case "overflow":
            return f"too much on {ended.overflowed}"
        case "wall_clock" | "processor_time":
            return f"stopped after {ended.seconds:.1f} s"
        case "answered":
            return ""
        case "memory_error":
            return "MemoryError"
        case "raised" | "malformed":
            return one_line(_text(ended.answers.reason))
        case "out_of_memory":
            return "killed for want of memory"
        case "killed" | "exited":
            last = _last_line(ended.stderr)
            detail = f"ended without a result ({_ending(ended.exit_code)})"
            return one_line(f"{detail}: {last}" if last else detail)


def _never_ready(ended: Ended) -> str:
    what = "the sandbox was not ready in time" if ended.timed_out else f"the sandbox ended ({_ending(ended.exit_code)})"
    return f"{what}: {last}" if (last := _last_line(ended.stderr)) else what


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
    """The driver's own words. A candidate can forge them, and then they are only odd words."""
    try:
        value: object = json.loads(payload) if len(payload) < 1 << 16 else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, str) else "no reason given"
