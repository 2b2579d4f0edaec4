"""What failures of simulated nodes cost a run. The seconds come from its rows, as those of a real run would."""

from dataclasses import dataclass

from typing_extensions import TypedDict

from pace_async.population.reading.timings import AttemptedSeconds
from pace_async.simulate.nodes import Nodes, NodesShape


class NodesPart(TypedDict):
    """The part of a prediction that describes nodes: amounts, shares of 0 to 1, and seconds."""

    nodes: int
    slots: int
    node_deaths: int
    away: float
    attempts: int
    lost_to_node_deaths: int
    lost_to_preemption: int
    lost_slot_seconds: float
    waste: float
    queue_seconds: float
    aborted: int


@dataclass(frozen=True, slots=True)
class Losses:
    """Of one run: how often a node died, the share of the nodes' time for which they were away, all attempts that
    ended, and those that were lost, because their node died or because they were preempted. `lost_seconds` of
    `slot_seconds` were spent in lost attempts. An attempt waited `queue_seconds` for its slot, in the mean. `aborted`
    counts the rollouts that the runtime gave up."""

    shape: NodesShape
    deaths: int
    away: float
    attempts: int
    node_died: int
    preempted: int
    lost_seconds: float
    slot_seconds: float
    queue_seconds: float
    aborted: int

    @property
    def waste(self) -> float:
        """The share of the used slot seconds that was lost."""
        return self.lost_seconds / self.slot_seconds if self.slot_seconds else 0.0

    def told(self) -> NodesPart:
        """The values that `pace simulate --json` prints."""
        return {
            "nodes": self.shape.count,
            "slots": self.shape.slots,
            "node_deaths": self.deaths,
            "away": self.away,
            "attempts": self.attempts,
            "lost_to_node_deaths": self.node_died,
            "lost_to_preemption": self.preempted,
            "lost_slot_seconds": self.lost_seconds,
            "waste": self.waste,
            "queue_seconds": self.queue_seconds,
            "aborted": self.aborted,
        }


def losses_of(
    nodes: Nodes, attempts: tuple[AttemptedSeconds, AttemptedSeconds], aborted: int, seconds: float
) -> Losses:
    """The losses of a run that took so many virtual seconds. `attempts` are those that ended by themselves, and those
    that were lost."""
    ended, lost = attempts
    deaths, away = nodes.deaths(seconds)
    count = ended.attempts + lost.attempts
    return Losses(
        shape=nodes.shape,
        deaths=deaths,
        away=away / (nodes.shape.count * seconds),
        attempts=count,
        node_died=nodes.ended["node_died"],
        preempted=nodes.ended["preempted"],
        lost_seconds=lost.seconds,
        slot_seconds=ended.seconds + lost.seconds,
        queue_seconds=(ended.queue_seconds + lost.queue_seconds) / count if count else 0.0,
        aborted=aborted,
    )
