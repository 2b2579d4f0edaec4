"""Who implements the experiment of a lease, where several models are there and a bandit chooses among them.

Invariant: the choice is committed together with the experiment, and what it rests on are the rollouts whose lease is
closed, so under `--sync` those up to the last group; a resumed run chooses as the uninterrupted one would have.
"""

from pace_async.config import Config
from pace_async.events import ImplementerChosen
from pace_async.implement.shares import parse_shares
from pace_async.runtime.state import RunState
from pace_async.search.bandit import Result, choose_arm
from pace_async.search.draws import generator
from pace_async.search.kinds import kind_of
from pace_async.search.state import Idea


def chosen_implementer(
    config: Config, state: RunState, lease: int, experiment: str | None, idea: Idea | None, now: float
) -> ImplementerChosen | None:
    """None where there is nothing to choose: no experiment, one model, or a draw by weight."""
    models = [share.model for share in parse_shares(config.implementer.model)]
    if experiment is None or len(models) == 1 or config.implementer.choice == "weights":
        return None
    kind = kind_of(experiment, len(idea.trials) if idea is not None else 0)
    draw = generator(config.seed, lease, "bandit")
    arm = choose_arm(models, state.results.values(), kind, draw, config.implementer.cost_weight)
    return ImplementerChosen(lease, kind, arm.model, arm.rate, arm.usd, now)


def result_of(chosen: ImplementerChosen | None, gained: bool, paid: dict[str, float]) -> Result | None:
    """What came of a choice, given what each model was paid for the lease; None where another model took over."""
    if chosen is None or any(model != chosen.model for model in paid):
        return None
    return Result(chosen.lease, chosen.kind, chosen.model, gained, paid.get(chosen.model, 0.0))
