"""Whether a score that would be a new best is believed: fresh instances have to bear it out.

Scores come from one hidden set of instances, so a program can reach a best score because it is good at the task or
because it knows that set. Measured is the gain over the task's own program, on the same instances, since one set may be
harder than another:

    gain claimed  g = ±(score − own score) on the hidden instances
    gain kept     k = ±(score − own score) on fresh ones
    the claim holds there if k ≥ SHARE · g − SLACK · (upper − lower)

One set of fresh instances that bears a claim out is enough: an honest program may have had luck with the hidden set, a
program that knows it by heart gains nothing anywhere else. SHARE and SLACK are wide for the same reason: of catalogue
programs of the bundled tasks, whose scores vary by up to half of their gain from seed to seed, hardly one fails three
times. What they let pass is a gain that is half real.
"""

from collections.abc import Iterable

from pace_async.search.state import Member
from pace_async.task import better

SHARE = 0.5
SLACK = 0.05


def claims_best(score: float, members: Iterable[Member], direction: str) -> bool:
    """Whether the score is strictly better than that of every member."""
    return all(better(direction, score, member.score) for member in members)


def bears_out(
    claimed: float, own: float, fresh: float, own_fresh: float | None, *, direction: str, lower: float, upper: float
) -> bool:
    """Whether a `fresh` score bears out the `claimed` one, given the scores of the task's own program on the hidden and
    on the fresh instances; where it has none on these, they count as no harder than the hidden ones."""
    sign = 1.0 if direction == "maximize" else -1.0
    gained = sign * (claimed - own)
    kept = sign * (fresh - (own if own_fresh is None else own_fresh))
    return kept >= SHARE * gained - SLACK * (upper - lower)
