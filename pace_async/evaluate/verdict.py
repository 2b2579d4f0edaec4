"""What an ended launch means. Pure.

Invariant: `infrastructure_error` is never within a candidate's power, since it is given only where the driver had not
yet said that it was about to load the program. From then on everything is taken for the candidate's own doing; which
ends are believed only when they come again is `doubt`'s to say. Out of memory is what Python or a control group says.
"""

import json
import signal
from dataclasses import dataclass

from pace_async.evaluate.launch import Ended
from pace_async.events import Outcome

DETAIL_CHARACTERS = 300
LAST_BYTES = 8192
"""Of what a program wrote: where its last line is looked for."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outputs` are the candidate's, one JSON text for each instance and unparsed, where outcome is ok: they have still
    to be scored."""

    outcome: Outcome
    detail: str = ""
    outputs: tuple[bytes, ...] = ()


def judge(ended: Ended) -> Verdict:
    """The outcome of one launch, before scoring."""
    answer = ended.answers
    if not answer.ready and answer.forged is None:
        return Verdict("infrastructure_error", one_line(_never_ready(ended)))
    if answer.forged is not None:
        return Verdict("suspicious", f"the result pipe carried {answer.forged}")
    if ended.overflowed is not None:
        return Verdict("output_overflow", f"too much on {ended.overflowed}")
    if ended.timed_out or ended.out_of_time:
        return Verdict("timeout", f"stopped after {ended.seconds:.1f} s")
    match answer.failure:
        case None if len(answer.outputs) == answer.instances:
            return Verdict("ok", outputs=tuple(answer.outputs))
        case "memory":
            return Verdict("out_of_memory", "MemoryError")
        case "error" if not ended.out_of_memory:
            return Verdict("candidate_error", one_line(_text(answer.reason)))
        case "malformed":
            return Verdict("invalid_score", one_line(_text(answer.reason)))
        case _:
            return _no_answer(ended)


def one_line(text: str) -> str:
    """Printable (no control or direction characters, so that it cannot alter a terminal), short, in one line."""
    read = text[: 8 * DETAIL_CHARACTERS]  # a program may have written megabytes
    words = "".join(character if character.isprintable() else " " for character in read).split()
    line = " ".join(words)
    return line if len(line) <= DETAIL_CHARACTERS else line[: DETAIL_CHARACTERS - 1] + "…"


def _never_ready(ended: Ended) -> str:
    what = "the sandbox was not ready in time" if ended.timed_out else f"the sandbox ended ({_ending(ended.exit_code)})"
    return f"{what}: {last}" if (last := _last_line(ended.stderr)) else what


def _no_answer(ended: Ended) -> Verdict:
    if ended.out_of_memory:
        return Verdict("out_of_memory", "killed for want of memory")
    last = _last_line(ended.stderr)
    detail = f"ended without a result ({_ending(ended.exit_code)})"
    return Verdict("candidate_error", one_line(f"{detail}: {last}" if last else detail))


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
    """The driver's own words; a candidate can have forged them, and then they are only odd words."""
    try:
        value: object = json.loads(payload) if len(payload) < 1 << 16 else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, str) else "no reason given"
