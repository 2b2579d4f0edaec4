"""The synchronous loop written straight down: no event loop, no gate, no leases to wait for, no database.

The oracle for equality. Each round every island makes one rollout (one whose machine was lost makes another), the group
is trained, the next round begins. It uses the pure rooms and the simulated outside world, and nothing of `runtime`.
"""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pace_async.advise.advisor import Advice, Sampling, advise
from pace_async.config import Config
from pace_async.evaluate.base import Evaluation
from pace_async.implement.base import Experiment
from pace_async.objectives import NO_SPREADS, Collapsed, advantages, alpha_at
from pace_async.programs import program_hash
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import group_digest
from pace_async.reward import reward
from pace_async.search.draws import derive, generator
from pace_async.search.islands import after_advice, after_evaluation, context_of, first_island
from pace_async.search.parents import choose_migrant, choose_parent, fitter
from pace_async.search.state import Island, Member, Trial
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import HORIZON, Habits
from pace_async.simulate.stages import SimulatedEngine, SimulatedEvaluator, SimulatedImplementer, World
from pace_async.task import Task

T = TypeVar("T")
Row = tuple[Any, ...]


@dataclass
class Result:
    """Rows as the population has them; see `ROLLOUTS` and `GROUPS` in the tests."""

    rollouts: list[Row] = field(default_factory=list[Row])
    groups: list[Row] = field(default_factory=list[Row])


def now(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


def straight_line(config: Config, task: Task, habits: Habits) -> Result:
    world = World(seed=config.seed, turns=0)
    world.serve(0, None)
    islands = {
        n: first_island(n, Member(0, task.program, task.spec.bounds.lower)) for n in range(1, config.search.threads + 1)
    }
    result, order = Result(), list(islands)
    elites: dict[int, Member] = {}
    lease = evaluated = version = groups = 0
    limit = config.stop.candidates or 0
    while evaluated < limit:
        turns, group, found = order[: limit - evaluated], list[tuple[int, Advice, float]](), dict[int, list[Member]]()
        while turns:
            island, lease = turns.pop(0), lease + 1
            migrant = choose_migrant(
                elites,
                islands[island],
                task.spec.direction,
                generator(config.seed, lease, "migrant"),
                probability=config.search.migration,
            )
            done = _rollout(config, task, habits, world, islands, island, migrant, lease, version, result)
            if done is None:
                turns.append(island)
            else:
                group.append((lease, *done))
                found[island] = [member for member in islands[island].members if member.candidate == lease]
            order.remove(island)
            order.append(island)
        evaluated += len(group)
        if len(group) < config.learner.group_size:
            break
        groups += 1
        version = _train(config, habits, world, sorted(group, key=lambda rollout: rollout[0]), groups, version, result)
        for island, members in found.items():
            for member in members:
                elites[island] = fitter(task.spec.direction, elites.get(island), member)
    return result


def _rollout(
    config: Config,
    task: Task,
    habits: Habits,
    world: World,
    islands: dict[int, Island],
    island: int,
    migrant: Member | None,
    lease: int,
    version: int,
    result: Result,
) -> tuple[Advice, float] | None:
    spec, search = task.spec, config.search
    draw = generator(config.seed, lease, "parent")
    parent = migrant or choose_parent(
        islands[island].members, spec.direction, draw, size=search.tournament_size, pool=search.tournament_pool
    )
    advice = now(
        advise(
            SimulatedEngine(world, habits.unparsed_every, Bytes()),
            task,
            context_of(islands[island], parent, spec.direction),
            lease=lease,
            next_idea=islands[island].next_idea,
            sampling=Sampling(seed=config.seed, ideas_kept=search.ideas_kept, trials_shown=search.trials_shown),
            now=lambda: 0.0,
        )
    )
    islands[island] = after_advice(islands[island], advice.pool, advice.next_idea)
    program = None
    found = Evaluation("unparsed", None, 0.0)
    if advice.experiment is not None:
        idea = next(idea.description for idea in advice.pool if idea.number == advice.idea)
        experiment = Experiment(lease=lease, idea=idea, description=advice.experiment)
        program = now(SimulatedImplementer(world).implement(task, parent, experiment)).program
        judge = SimulatedEvaluator(world, spec.bounds.lower, spec.bounds.upper, habits.fails_every, habits.lost)
        found = now(judge.evaluate(program, config.evaluation.seed))
        if found.outcome == "infrastructure_error":
            return None
    earned = reward(
        found.score,
        direction=spec.direction,
        lower=spec.bounds.lower,
        upper=spec.bounds.upper,
        scale=config.reward.scale,
        exponent=config.reward.exponent,
    )
    member = Member(lease, program, found.score) if program is not None and found.score is not None else None
    trial = Trial(lease, advice.experiment, found.outcome, found.score) if advice.experiment is not None else None
    islands[island] = after_evaluation(
        islands[island],
        idea=advice.idea,
        trial=trial,
        member=member,
        direction=spec.direction,
        kept=search.members_kept,
    )
    digest = program_hash(program) if program is not None else None
    result.rollouts.append(
        (lease, island, version, parent.candidate, advice.experiment, digest, found.outcome, found.score, earned)
    )
    return advice, earned


def _train(
    config: Config,
    habits: Habits,
    world: World,
    group: list[tuple[int, Advice, float]],
    number: int,
    version: int,
    result: Result,
) -> int:
    alpha = alpha_at("linear", number - 1, HORIZON, spreads=NO_SPREADS)
    rewards = [earned for _, _, earned in group]
    found = advantages(config.learner.objective, rewards, k=config.learner.k, alpha=alpha)
    digest, state = "", "skipped"
    if not isinstance(found, Collapsed):
        rollouts = tuple(
            TrainedRollout(lease, advantage, earned, tuple(TrainedCall.of(call) for call in advice.calls))
            for (lease, advice, earned), advantage in zip(group, found, strict=True)
        )
        digest = group_digest(Group(number, version, config.learner.objective, alpha, 0, rollouts))
        if not habits.discard_every or number % habits.discard_every:
            state = "trained"
            world.served, world.weights = version + 1, derive(world.weights or 0, digest)
    result.groups.append((number, version, state, alpha, digest))
    return world.served
