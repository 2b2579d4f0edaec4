"""The synchronous loop written straight down: no event loop, no gate, no leases to wait for, no database.

The oracle for equality. Each round every island makes one rollout (one whose machine was lost makes another), the group
is trained, the next round begins. It uses the pure rooms and the simulated outside world, and nothing of `runtime`.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pace_async.advise.advisor import Advice, Sampling, ServedAdvisor, advise
from pace_async.advise.prompts import ProseWording
from pace_async.config import Config
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.implement.base import Experiment
from pace_async.objectives import NO_SPREADS, Collapsed, advantages, alpha_at
from pace_async.programs.compiled import program_hash
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import group_digest
from pace_async.reward import RewardRule
from pace_async.search.actions import after_action, decide
from pace_async.search.draws import derive, generator
from pace_async.search.islands import after_advice, after_evaluation, context_of, first_island
from pace_async.search.parents import choose_migrant, fitter, parent_of
from pace_async.search.state import Island, Member, Neighbours, Rules, SearchContext, Trial, VisiblePool, rules_of
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
    loop = _Loop(config, task, faults, world, islands, fresh)
    order, elites, pools = list(islands), loop.elites, loop.pools
    lease = evaluated = version = groups = 0
    limit = config.stop.candidates or 0
    while evaluated < limit:
        turns, group, found = order[: limit - evaluated], list[tuple[int, Advice, float]](), dict[int, list[Member]]()
        ended: dict[int, VisiblePool] = {}
        while turns:
            island, lease = turns.pop(0), lease + 1
            done = loop.rollout(island, lease, version)
            if done is None:
                turns.append(island)
            else:
                group.append((lease, *done))
                found[island] = [member for member in islands[island].members if member.candidate == lease]
                ended[island] = VisiblePool(lease, islands[island].ideas)
            order.remove(island)
            order.append(island)
        evaluated += len(group)
        if len(group) < config.learner.group_size:
            break
        groups += 1
        version = loop.train(sorted(group, key=lambda rollout: rollout[0]), groups, version)
        for island, members in found.items():
            for member in members:
                elites[island] = fitter(task.spec.fitness, elites.get(island), member)
        pools |= ended
    return loop.result


@dataclass
class _Loop:
    """The state of the loop. `elites` and `pools` are what the islands show one another: as of the last group."""

    config: Config
    task: Task
    faults: SimulatedFaults
    world: World
    islands: dict[int, Island]
    fresh: Fresh | None
    elites: dict[int, Member] = field(default_factory=dict[int, Member])
    pools: dict[int, VisiblePool] = field(default_factory=dict[int, VisiblePool])
    result: Result = field(default_factory=Result)

    @property
    def rules(self) -> Rules:
        return rules_of(self.config.search, self.task.spec.fitness)

    def act(self, number: int, lease: int) -> Member | None:
        """Let an island act if it is due. Returns the parent that comes from another island, if one does."""
        island, others = self.islands[number], Neighbours(self.elites, self.pools)
        draws = partial(generator, self.config.seed, lease, "action")
        acted = decide(island, others, self.rules, lease=lease, draw=draws, at=0.0)
        if acted is None:
            draw, search = generator(self.config.seed, lease, "migrant"), self.config.search
            return choose_migrant(
                self.elites,
                island,
                self.rules.fitness,
                draw,
                probability=search.migration,
                size=search.tournament_size,
            )
        self.result.actions.append((lease, number, acted.action, acted.candidate, acted.partner, acted.momentum))
        arriving = self.pools[acted.partner].ideas if acted.partner is not None else ()
        self.islands[number] = after_action(island, acted, arriving, self.rules)
        return self.elites[acted.partner] if acted.partner is not None else None

    def rollout(self, number: int, lease: int, version: int) -> tuple[Advice, float] | None:
        """One rollout of an island: its advice and its reward, or None if its machine was lost."""
        migrant = self.act(number, lease)
        spec, search, seed = self.task.spec, self.config.search, self.config.seed
        island = self.islands[number]
        parent = migrant or parent_of(island, search, generator(seed, lease, "parent"))
        advice = self.advice(context_of(island, parent, spec.fitness), lease)
        island = self.islands[number] = after_advice(island, advice.pool, advice.next_idea)
        program = None
        found = Evaluation("unparsed", None, 0.0)
        if advice.experiment is not None:
            idea = next(idea.description for idea in advice.pool if idea.number == advice.idea)
            experiment = Experiment(lease=lease, idea=idea, description=advice.experiment)
            program = now(SimulatedImplementer(self.world).implement(self.task, parent, experiment)).program
            found = self.evaluated(program, lease, (*island.members, *self.elites.values()))
            if found.outcome == "infrastructure_error":
                return None
        earned = RewardRule.of(self.config.reward, spec).of_score(found.score, parent=0.0, seed=0.0)
        member = Member(lease, program, found.score) if program is not None and found.score is not None else None
        trial = Trial(lease, advice.experiment, found.outcome, found.score) if advice.experiment is not None else None
        self.islands[number] = after_evaluation(
            island, parent=parent.candidate, idea=advice.idea, trial=trial, member=member, rules=self.rules
        )
        digest = program_hash(program) if program is not None else None
        self.result.rollouts.append(
            (lease, number, version, parent.candidate, advice.experiment, digest, found.outcome, found.score, earned)
        )
        return advice, earned

    def advice(self, context: SearchContext, lease: int) -> Advice:
        config, search = self.config, self.config.search
        return now(
            advise(
                ServedAdvisor(SimulatedEngine(self.world, self.faults.unparsed_every, Bytes())),
                ProseWording(self.task),
                context,
                lease=lease,
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

    def evaluated(self, program: str, lease: int, rivals: Sequence[Member]) -> Evaluation:
        """The evaluation, confirmed on fresh seeds if it claims to beat all rivals."""
        bounds, faults = self.task.spec.bounds, self.faults
        judge = SimulatedEvaluator(self.world, bounds.lower, faults.highest(bounds), faults.fails_every, faults.lost)
        found = now(judge.run(asked(self.task, lease, program, self.config.evaluation.seed)))
        score, fresh = found.score, self.fresh
        if fresh is None or score is None or not all(score > rival.score for rival in rivals):
            return found
        return confirmed(self.task, fresh, fresh.around(judge), program, lease, score)

    def train(self, group: list[tuple[int, Advice, float]], number: int, version: int) -> int:
        """Train a group of (lease, advice, reward). Returns the version that is served afterwards."""
        alpha = alpha_at("linear", number - 1, HORIZON, spreads=NO_SPREADS)
        rewards = [earned for _, _, earned in group]
        learner = self.config.learner
        found = advantages(learner.objective, rewards, k=learner.k, alpha=alpha, collapsed=learner.collapsed)
        unparsed = sum(advice.unparsed is not None for _, advice, _ in group)
        self.result.health = self.result.health.after(version, {version: Count(len(group), unparsed)})
        digest, state = "", "skipped"
        if not isinstance(found, Collapsed):
            rollouts = tuple(
                TrainedRollout(lease, advantage, earned, tuple(TrainedCall.of(call) for call in advice.calls))
                for (lease, advice, earned), advantage in zip(group, found, strict=True)
            )
            keeps = self.result.health.needed
            digest = group_digest(
                Group(number, version, self.config.learner.objective, alpha, 0, rollouts, keeps=keeps)
            )
            if not self.faults.discard_every or number % self.faults.discard_every:
                state = "trained"
                self.world.served, self.world.weights = version + 1, derive(self.world.weights or 0, digest)
        self.result.groups.append((number, version, state, alpha, digest))
        return self.world.served


def confirmed(task: Task, fresh: Fresh, judge: InTaskEvaluator, program: str, lease: int, claimed: float) -> Evaluation:
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
