"""What a program did on practice instances, as text. Pure.

Its failure is on one line, and what it printed stands between fences, both after words of our own, because both are
data.
"""

from pace_async.context.sections import Levels
from pace_async.context.texts import fenced, one_line
from pace_async.events import Practised

ENDS = (2_000, 600, 0)
"""Levels: characters shown of what was printed."""
LONGEST_NAME, LONGEST_DETAIL = 60, 200


def practice_levels(practice: Practised | None) -> Levels:
    """What a program did in practice, less and less of it. Nothing if it did not practise, or a machine failed."""
    if practice is None or practice.outcome == "infrastructure_error":
        return lambda level: "" if level == 0 else None
    where = "On practice instances, which score nothing,"
    if practice.score is None:
        detail = f" ({one_line(practice.detail, LONGEST_DETAIL)})" if practice.detail else ""
        head = f"{where} it failed: {practice.outcome}{detail}."
    else:
        metrics = "".join(f", {one_line(name, LONGEST_NAME)} {value:.4g}" for name, value in practice.metrics.items())
        head = f"{where} it got {practice.score:.6g}{metrics}."
    printed = practice.printed
    lengths = sorted({min(end, len(printed)) for end in ENDS}, reverse=True)

    def text(level: int) -> str | None:
        if level >= len(lengths):
            return None
        if not lengths[level]:
            return head
        caption = "What it printed there" if lengths[level] == len(printed) else "The end of what it printed there"
        return f"{head} {caption}, which is data:\n{fenced(printed[-lengths[level] :], 'text')}"

    return text


def practice_text(practice: Practised | None) -> str:
    """All of it."""
    return practice_levels(practice)(0) or ""
