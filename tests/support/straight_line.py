"""The synchronous loop written straight down: no event loop, no gate, no leases to wait for, no database.

The oracle for equality. Each round every island makes one rollout (one whose machine was lost makes another), the group
is trained, the next round begins. It uses the pure rooms and the simulated outside world, and nothing of `runtime`.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pace_async.advise.advisor import Advice, Sampling, ServedAdvisor, advise
from pace_async.config import Config
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.implement.base import Experiment
from pace_async.objectives import NO_SPREADS, Collapsed, advantages, alpha_at
from pace_async.programs.compiled import program_hash
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import group_digest
from pace_async.reward import reward
from pace_async.search.actions import after_action, decide
from pace_async.search.draws import derive, generator
from pace_async.search.islands import after_advice, after_evaluation, context_of, first_island, goal_of
from pace_async.search.parents import choose_migrant, fitter, parent_of
from pace_async.search.state import Island, Member, Rules, Shown, Trial, rules_of
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import HORIZON, SimulatedFaults
from pace_async.simulate.stages import SimulatedEngine, SimulatedEvaluator, SimulatedImplementer, World
from pace_async.staleness.rollback import NO_GROUPS, Count, Health
from pace_async.task import Task

T = TypeVar("T")
Row = tuple[Any, ...]


@dataclass
class Result:
    """Rows as in the population: see `ROLLOUTS`, `GROUPS` and `ACTIONS` in the tests."""

    rollouts: list[Row] = field(default_factory=list[Row])
    groups: list[Row] = field(default_factory=list[Row])
    health: Health = NO_GROUPS
    actions: list[Row] = field(default_factory=list[Row])


def now(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


def asked(task: Task, lease: int, program: str, seed: int) -> EvaluationRequest:
    return EvaluationRequest.of(task.spec, EvaluationId("straight", lease), program, seed)


@dataclass
class Fresh:
    """Scores that claim to be a new best are tried on fresh seeds, by an evaluator around the simulated one."""

    seeds: tuple[int, ...]
    around: Callable[[InTaskEvaluator], InTaskEvaluator]
    tries: list[Row] = field(default_factory=list[Row])


def straight_line(config: Config, task: Task, faults: SimulatedFaults, fresh: Fresh | None = None) -> Result:
    world = World(seed=config.seed, turns=0)
    world.serve(0, None)
    islands = {
        n: first_island(n, Member(0, task.program, task.spec.bounds.lower)) for n in range(1, config.search.threads + 1)
    }
    result, order = Result(), list(islands)
    elites: dict[int, Member] = {}
    pools: dict[int, Shown] = {}
    bounds, direction = task.spec.bounds, task.spec.direction
    rules = rules_of(config.search, direction, goal_of(direction, bounds.lower, bounds.upper))
    lease = evaluated = version = groups = 0
    limit = config.stop.candidates or 0
    while evaluated < limit:
        turns, group, found = order[: limit - evaluated], list[tuple[int, Advice, float]](), dict[int, list[Member]]()
        ended: dict[int, Shown] = {}
        while turns:
            island, lease = turns.pop(0), lease + 1
            migrant = _act(config, islands, island, elites, pools, rules, lease, result)
            done = _rollout(
                config, task, faults, world, islands, island, migrant, lease, version, rules, result, elites, fresh
            )
            if done is None:
                turns.append(island)
            else:
                group.append((lease, *done))
                found[island] = [member for member in islands[island].members if member.candidate == lease]
                ended[island] = Shown(lease, islands[island].ideas)
            order.remove(island)
            order.append(island)
        evaluated += len(group)
        if len(group) < config.learner.group_size:
            break
        groups += 1
        version = _train(config, faults, world, sorted(group, key=lambda rollout: rollout[0]), groups, version, result)
        for island, members in found.items():
            for member in members:
                elites[island] = fitter(direction, elites.get(island), member)
        pools |= ended
    return result


def _act(
    config: Config,
    islands: dict[int, Island],
    number: int,
    elites: dict[int, Member],
    pools: dict[int, Shown],
    rules: Rules,
    lease: int,
    result: Result,
) -> Member | None:
    island = islands[number]
    draws = partial(generator, config.seed, lease, "action")
    acted = decide(island, elites, pools, rules, lease=lease, draw=draws, at=0.0)
    if acted is None:
        draw = generator(config.seed, lease, "migrant")
        search = config.search
        return choose_migrant(
            elites, island, rules.direction, draw, probability=search.migration, size=search.tournament_size
        )
    result.actions.append((lease, number, acted.action, acted.candidate, acted.partner, acted.momentum))
    arriving = pools[acted.partner].ideas if acted.partner is not None else ()
    islands[number] = after_action(island, acted, arriving, rules)
    return elites[acted.partner] if acted.partner is not None else None


def _rollout(
    config: Config,
    task: Task,
    faults: SimulatedFaults,
    world: World,
    islands: dict[int, Island],
    island: int,
    migrant: Member | None,
    lease: int,
    version: int,
    rules: Rules,
    result: Result,
    elites: dict[int, Member],
    fresh: Fresh | None,
) -> tuple[Advice, float] | None:
    spec, search = task.spec, config.search
    parent = migrant or parent_of(islands[island], search, spec.direction, generator(config.seed, lease, "parent"))
    advice = now(
        advise(
            ServedAdvisor(SimulatedEngine(world, faults.unparsed_every, Bytes())),
            task,
            context_of(islands[island], parent, spec.direction),
            lease=lease,
            next_idea=islands[island].next_idea,
            sampling=Sampling(
                seed=config.seed,
                ideas_kept=search.ideas_kept,
                trials_shown=search.trials_shown,
                summary_from=search.summary_from,
                max_prompt_tokens=config.advisor.max_prompt_tokens,
            ),
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
        judge = SimulatedEvaluator(
            world, spec.bounds.lower, faults.highest(spec.bounds), faults.fails_every, faults.lost
        )
        found = now(judge.run(asked(task, lease, program, config.evaluation.seed)))
        if found.outcome == "infrastructure_error":
            return None
        if fresh is not None and found.score is not None:
            rivals = (*islands[island].members, *elites.values())
            if all(found.score > rival.score for rival in rivals):
                found = _confirmed(config, task, fresh, fresh.around(judge), program, lease, found.score)
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
        islands[island], parent=parent.candidate, idea=advice.idea, trial=trial, member=member, rules=rules
    )
    digest = program_hash(program) if program is not None else None
    result.rollouts.append(
        (lease, island, version, parent.candidate, advice.experiment, digest, found.outcome, found.score, earned)
    )
    return advice, earned


def _confirmed(
    config: Config, task: Task, fresh: Fresh, judge: InTaskEvaluator, program: str, lease: int, claimed: float
) -> Evaluation:
    bounds, held = task.spec.bounds, False
    for number, seed in enumerate(fresh.seeds, start=1):
        own = now(judge.run(asked(task, 0, task.program, seed))).score
        tried = now(judge.run(asked(task, lease, program, seed))).score
        if own is not None and tried is not None:
            held = tried - own >= 0.5 * (claimed - bounds.lower) - 0.05 * (bounds.upper - bounds.lower)
        fresh.tries.append((lease, number, tried, own, held))
        if held:
            return Evaluation("ok", claimed, 0.0)
    return Evaluation("suspicious", None, 0.0)


def _train(
    config: Config,
    faults: SimulatedFaults,
    world: World,
    group: list[tuple[int, Advice, float]],
    number: int,
    version: int,
    result: Result,
) -> int:
    alpha = alpha_at("linear", number - 1, HORIZON, spreads=NO_SPREADS)
    rewards = [earned for _, _, earned in group]
    learner = config.learner
    found = advantages(learner.objective, rewards, k=learner.k, alpha=alpha, collapsed=learner.collapsed)
    unparsed = sum(advice.unparsed is not None for _, advice, _ in group)
    result.health = result.health.after(version, {version: Count(len(group), unparsed)})
    digest, state = "", "skipped"
    if not isinstance(found, Collapsed):
        rollouts = tuple(
            TrainedRollout(lease, advantage, earned, tuple(TrainedCall.of(call) for call in advice.calls))
            for (lease, advice, earned), advantage in zip(group, found, strict=True)
        )
        keeps = result.health.needed
        digest = group_digest(Group(number, version, config.learner.objective, alpha, 0, rollouts, keeps=keeps))
        if not faults.discard_every or number % faults.discard_every:
            state = "trained"
            world.served, world.weights = version + 1, derive(world.weights or 0, digest)
    result.groups.append((number, version, state, alpha, digest))
    return world.served
