"""The share of the advisor's answers that parse, and whether it is low or has fallen.

A rollout parses if each of its answers does. The share is low if hardly one of the last RECENT rollouts parses. It has
fallen if clearly more of them do not parse than of all before them: by the same gap and the same test by which a
learning advisor goes back to an earlier version (`staleness.rollback`). An advisor that learns nothing has no version
to go back to, so this is said for every advisor with a model. One without a model gives no answers, and nothing is said
about it. Pure.
"""

from collections.abc import Mapping, Sequence

from pace_async.events.causes import CandidateAnswers
from pace_async.population.reading.progress import RECENT
from pace_async.registry.advisors import advisor_of
from pace_async.staleness.rollback import GAP, LEVEL, Count, chance

LOW = 0.25
"""The share is low up to here. At a half, groups still hold answers of both kinds to learn from."""


def answers_of(
    advisor: str, outcomes: Mapping[str, int], recent: Sequence[CandidateAnswers]
) -> tuple[Mapping[str, int], Sequence[CandidateAnswers]]:
    """The outcomes and the last candidates that show answers: none for an advisor that has no model."""
    return (outcomes, recent) if advisor_of(advisor).has_model else ({}, ())


def parse_rate(outcomes: Mapping[str, int]) -> float | None:
    """The share over all candidates, None without one. `outcomes` counts them."""
    done = sum(outcomes.values())
    return 1 - outcomes.get("unparsed", 0) / done if done else None


def lately(recent: Sequence[CandidateAnswers]) -> float | None:
    """The share over the last candidates, None without one. `recent` says what became of the answers of each."""
    return sum(entry.answers == "parsed" for entry in recent) / len(recent) if recent else None


def alarm_of(outcomes: Mapping[str, int], recent: Sequence[CandidateAnswers], run: str) -> str | None:
    """The alarm as a sentence, None where there is none. `recent` are the last RECENT of all, and `run` is the run's
    name as a command takes it."""
    last = Count(len(recent), sum(entry.answers != "parsed" for entry in recent))
    before = Count(sum(outcomes.values()) - last.rollouts, outcomes.get("unparsed", 0) - last.unparsed)
    low, gap = 1 - last.share <= LOW, last.share - before.share
    fallen = before.rollouts >= RECENT and gap >= GAP and chance(last, before) < LEVEL
    if last.rollouts < RECENT or not (low or fallen):
        return None
    earlier = f", {100 * before.share:.0f} % before" if before.rollouts else ""
    return f"{last.unparsed} of the last {last.rollouts} answers cannot be parsed{earlier}: {_cause(recent, run)}"


def _cause(recent: Sequence[CandidateAnswers], run: str) -> str:
    """Why, and what to do. The last that was cut off is named, if one was."""
    unparsed = [entry for entry in recent if entry.answers != "parsed"]
    cut_off = [entry for entry in unparsed if entry.answers == "cut_off"]
    share = len(cut_off) / len(unparsed)
    look = f"`pace show {run} {(cut_off or unparsed)[-1].candidate} --prompts` shows one"
    if not share:
        return f"they do not have the format that was asked for, and none was cut off by length; {look}"
    return (
        f"{100 * share:.0f} % of these were cut off by length: raise advisor.max_tokens, or "
        f"advisor.max_tokens_by_call for one kind of call; {look}"
    )


def share_text(outcomes: Mapping[str, int], recent: Sequence[CandidateAnswers]) -> str:
    """`97 %`, with the last ones beside it where there are more."""
    rate, last = parse_rate(outcomes), lately(recent)
    if rate is None or last is None:
        return ""
    percentage = f"{100 * rate:.0f} %"
    return (
        percentage
        if sum(outcomes.values()) <= len(recent)
        else f"{percentage}, of the last {len(recent)} {100 * last:.0f} %"
    )
