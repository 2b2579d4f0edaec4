"""What failures of simulated nodes cost a run. The seconds come from its rows, as those of a real run would."""

from typing_extensions import TypedDict

from pace_async.population.reading.timings import AttemptedSeconds
from pace_async.simulate.nodes import Nodes


class NodesPart(TypedDict):
    """The part of a prediction that describes nodes: amounts, shares of 0 to 1, and seconds. `attempts` are all that
    ended, those among them that were lost because their node died or because they were preempted. An attempt waited
    `queue_seconds` for its slot, in the mean. `away` is the share of the nodes' time for which they were away, `waste`
    that of the used slot seconds that was lost. `aborted` counts the rollouts that the runtime gave up."""

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


def losses_of(
    nodes: Nodes, attempts: tuple[AttemptedSeconds, AttemptedSeconds], aborted: int, seconds: float
) -> NodesPart:
    """The losses of a run that took so many virtual seconds. `attempts` are those that ended by themselves, and those
    that were lost."""
    ended, lost = attempts
    deaths, away = nodes.deaths(seconds)
    count = ended.attempts + lost.attempts
    spent = ended.seconds + lost.seconds
    return {
        "nodes": nodes.shape.count,
        "slots": nodes.shape.slots,
        "node_deaths": deaths,
        "away": away / (nodes.shape.count * seconds),
        "attempts": count,
        "lost_to_node_deaths": nodes.ended["node_died"],
        "lost_to_preemption": nodes.ended["preempted"],
        "lost_slot_seconds": lost.seconds,
        "waste": lost.seconds / spent if spent else 0.0,
        "queue_seconds": (ended.queue_seconds + lost.queue_seconds) / count if count else 0.0,
        "aborted": aborted,
    }
