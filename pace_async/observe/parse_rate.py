"""The share of the advisor's answers that parse, and whether it has fallen.

A rollout parses if each of its answers does. The share has fallen if the last RECENT rollouts have clearly more that do
not parse than all before them: by the same gap and the same test by which a learning advisor goes back to an earlier
version (`staleness.rollback`). An advisor that learns nothing has no version to go back to, so this is said for every
advisor with a model. One without a model gives no answers, and nothing is said about it. Pure.
"""

from collections.abc import Mapping, Sequence

from pace_async.population.reading.progress import RECENT
from pace_async.registry.advisors import advisor_of
from pace_async.staleness.rollback import GAP, LEVEL, Count, chance


def answers_of(
    advisor: str, outcomes: Mapping[str, int], recent: Sequence[bool]
) -> tuple[Mapping[str, int], Sequence[bool]]:
    """The outcomes and the last candidates that show answers: none for an advisor that has no model."""
    return (outcomes, recent) if advisor_of(advisor).has_model else ({}, ())


def parse_rate(outcomes: Mapping[str, int]) -> float | None:
    """The share over all candidates, None without one. `outcomes` counts them."""
    done = sum(outcomes.values())
    return 1 - outcomes.get("unparsed", 0) / done if done else None


def lately(recent: Sequence[bool]) -> float | None:
    """The share over the last candidates, None without one. `recent` says of each whether it parsed."""
    return sum(recent) / len(recent) if recent else None


def fallen(outcomes: Mapping[str, int], recent: Sequence[bool]) -> str | None:
    """The alarm as a sentence, None where there is none. `recent` are the last RECENT of all."""
    last = Count(len(recent), len(recent) - sum(recent))
    before = Count(sum(outcomes.values()) - last.rollouts, outcomes.get("unparsed", 0) - last.unparsed)
    if last.rollouts < RECENT or before.rollouts < RECENT:
        return None
    if last.share - before.share < GAP or chance(last, before) >= LEVEL:
        return None
    return (
        f"{last.unparsed} of the last {last.rollouts} answers cannot be parsed, {100 * before.share:.0f} % before: "
        "`pace show RUN CANDIDATE --prompts` shows one; advisor.max_tokens may be too small"
    )


def share_text(outcomes: Mapping[str, int], recent: Sequence[bool]) -> str:
    """`97 %`, with the last ones beside it where there are more."""
    rate, last = parse_rate(outcomes), lately(recent)
    if rate is None or last is None:
        return ""
    shown = f"{100 * rate:.0f} %"
    return shown if sum(outcomes.values()) <= len(recent) else f"{shown}, of the last {len(recent)} {100 * last:.0f} %"
