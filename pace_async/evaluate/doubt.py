"""Which ends of a program are not believed at first: it is run once more, alone, and what comes of that counts. Pure.

Invariant: a program is not charged for what its neighbours or the machine may have done to it, and none can have itself
run more than twice: whatever it did the first time, the second end is judged. A kill counts as somebody else's only if
this program's supervisor did not send it and its control group did not: where the sender cannot be known, the same end
alone is the program's own.
"""

import signal
from typing import Literal

from pace_async.evaluate.launch import Ended
from pace_async.evaluate.usage import starved

Doubt = Literal["starved", "killed"]
KILLS = (-signal.SIGKILL, -signal.SIGTERM)


def doubt(ended: Ended, share: float) -> Doubt | None:
    """Why the program may not be to blame: it ran out of time and was kept from its share of a processor, or it was
    killed by nobody knows whom. None where the end is its own, or where it never began."""
    answers = ended.answers
    if not answers.ready or answers.forged is not None or answers.failure is not None or answers.complete:
        return None
    if ended.timed_out:
        usage = ended.usage
        return "starved" if usage is not None and starved(usage, ended.seconds, share) else None
    if ended.stopped or ended.out_of_time or ended.out_of_memory:
        return None
    return "killed" if ended.exit_code in KILLS else None
