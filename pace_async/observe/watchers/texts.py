"""What the advisor said for the rollouts that have not trained, so that a logger can get it with their group.

Invariant: it holds the leases that are open, and no more. Texts longer than LONGEST are cut.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pace_async.events import Advised, Evaluated, GroupShipped, LeaseAborted, LeaseReleased
from pace_async.observe.base import Event
from pace_async.observe.watchers.base import Completion
from pace_async.population.reading.said import Said

LONGEST = 20_000
"""Characters of a completion. A logger does not need more: the rows have all of it."""

SaidFor = Callable[[Sequence[int]], Mapping[int, Said]]
"""What was said for these leases, as far as it is known."""


class OpenTexts:
    """Follows the events of a run. `said` is what an earlier process heard for the leases that are still open."""

    def __init__(self, said: Mapping[int, Said] | None = None) -> None:
        self._said = dict(said or {})
        self._shipped: Mapping[int, Said] = {}

    def take(self, event: Event) -> None:
        match event:
            case Advised(lease=lease, calls=calls, experiment=experiment):
                self._said[lease] = Said(tuple(call.text for call in calls), experiment)
            case Evaluated(lease=lease) if lease in self._said:
                self._said[lease] = replace(self._said[lease], outcome=event.outcome, score=event.score)
            case GroupShipped(leases=leases):
                self._shipped = {lease: self._said.pop(lease) for lease in leases if lease in self._said}
            case LeaseAborted(lease=lease) | LeaseReleased(lease=lease):
                self._said.pop(lease, None)
            case _:
                pass

    def shipped(self, leases: Sequence[int]) -> Mapping[int, Said]:
        """What was said for the leases of the last group."""
        return self._shipped

    @property
    def open(self) -> Mapping[int, Said]:
        """What was said for the leases that are open and have not been shipped."""
        return self._said


def completions_of(group: GroupShipped, said: Mapping[int, Said]) -> tuple[Completion, ...]:
    """A row for each rollout of a group. Unknown values are empty."""
    advantages = group.advantages or (None,) * len(group.leases)
    nothing = Said((), None)
    return tuple(
        Completion(
            candidate=lease,
            staleness=age,
            reward=reward,
            advantage=advantage,
            outcome=said.get(lease, nothing).outcome,
            score=said.get(lease, nothing).score,
            experiment=said.get(lease, nothing).experiment or "",
            completion="\n\n".join(said.get(lease, nothing).answers)[:LONGEST],
        )
        for lease, age, reward, advantage in zip(group.leases, group.staleness, group.rewards, advantages, strict=True)
    )
