"""Predicts the speed of a run of a given shape: the real runtime on simulated stages under virtual time.

Invariant: the same scenario gives the same prediction on any machine. The runtime, its gate, its threads, its learning
loop and its database are those of a real run. Only the implementations behind the seams are simulated, and none of them
fails but the nodes of a scenario that has some.
"""

import os
import secrets
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
from typing_extensions import TypedDict

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.durable import temporary_folder
from pace_async.errors import GaveUp, PaceBug, UsageError
from pace_async.evaluate.base import HIDDEN
from pace_async.evaluate.pruning import Rules
from pace_async.events import Curve, EvaluationAttempted
from pace_async.gc_freeze import start_up_frozen
from pace_async.observe.roofline import Load, Roofline, advice, roofline
from pace_async.population.memory import MemoryPopulation
from pace_async.population.reading.confirmed import repeats_in
from pace_async.population.reading.timings import aborted_leases, attempted_seconds, finished_rollouts
from pace_async.removal import remove_tree
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Handles
from pace_async.simulate.curves import Pruning
from pace_async.simulate.durations import Durations
from pace_async.simulate.losses import NodesPart, losses_of
from pace_async.simulate.nodes import Nodes, NodesShape
from pace_async.simulate.runs import FAULTLESS, TINY_TASK, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.synchronous import synchronous_seconds
from pace_async.simulate.virtual import VirtualClock, run_virtually
from pace_async.task import FULL

ROOM = 16 << 20
"""Bytes of memory that a simulation's files may need."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run's shape. `slots` limits concurrent evaluations. None: one for each thread. With `learns` False nothing is
    trained, so nothing waits for the learner. Evaluations run on `nodes`, if given, which have `slots` together.
    `pruning` ends some of them early. Programs are measured again as `evaluation.repeats` and `repeats_for` say."""

    threads: int
    group_size: int
    bound: int
    durations: Durations
    candidates: int
    policy: str = "pace"
    slots: int | None = None
    seed: int = 0
    learns: bool = True
    nodes: NodesShape | None = None
    pruning: Pruning | None = None
    repeats: int = 0
    repeats_for: str = "bests"

    def synchronous(self) -> "Scenario":
        """The same work behind a barrier, with as many threads as a group has rollouts."""
        return replace(self, threads=self.group_size, bound=0, policy="pace")


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One simulated run. `seconds` are virtual, from the start to the last candidate's score. `utilisation` is the
    share of its threads' time with a lease, `evaluator` the used share of its evaluation slots' time. `staleness`
    counts trained rollouts by age. `trained_evaluation` and `evaluation` are mean seconds of trained and of all
    evaluations. `losses` is set for a scenario with nodes. Where evaluations end early `pruned` counts those that were
    stopped, and `saved` is the share of all their seconds that this saved. `repeats` counts the evaluations of programs
    that had been measured before."""

    scenario: Scenario
    candidates: int
    seconds: float
    utilisation: float
    evaluator: float
    staleness: Mapping[int, int]
    expired: int
    trained_evaluation: float
    evaluation: float
    limits: Roofline
    losses: NodesPart | None = None
    saved: float | None = None
    pruned: int = 0
    repeats: int = 0

    @property
    def per_hour(self) -> float:
        return 3600.0 * self.candidates / self.seconds


class Prediction(TypedDict):
    """What `pace simulate --json` prints. `speedup` is relative to the whole synchronous loop on the same durations.
    Divide it by threads / group_size for the gain per thread. `trained_speedup` leaves out the rollouts that expired.
    Utilisations are shares of 0 to 1. `staleness` counts trained rollouts by their age in updates. `roofline` and
    `terms` are candidates an hour without failures. `nodes` is None without nodes, and `evaluation_saved`, the share of
    the seconds of evaluations that early ends saved, without a rule. `pruned` evaluations were stopped, and
    `repeats` were of programs that had been measured before."""

    speedup: float
    trained_speedup: float
    slot_utilisation: float
    evaluator_utilisation: float
    max_staleness: int
    staleness: dict[str, int]
    expired: int
    candidates: int
    candidates_per_hour: float
    sync_candidates_per_hour: float
    roofline: float
    binding: str
    terms: dict[str, float]
    advice: str
    trained_evaluation_seconds: float
    evaluation_seconds: float
    virtual_seconds: float
    nodes: NodesPart | None
    evaluation_saved: float | None
    pruned: int
    repeats: int


def predict(scenario: Scenario) -> Prediction:
    """The speed of a run. Raises UsageError for nodes on which hardly an evaluation ends."""
    measurement = measure(scenario)
    calm = scenario.nodes is None and scenario.pruning is None and not scenario.repeats
    if calm and (scenario.slots is None or scenario.slots >= scenario.group_size):
        synchronous = synchronous_seconds(
            scenario.durations, candidates=scenario.candidates, group_size=scenario.group_size
        )
    else:
        synchronous = measure(scenario.synchronous()).seconds
    return {
        "speedup": synchronous / measurement.seconds,
        "trained_speedup": synchronous / measurement.seconds * (1.0 - measurement.expired / measurement.candidates),
        "slot_utilisation": measurement.utilisation,
        "evaluator_utilisation": measurement.evaluator,
        "max_staleness": max(measurement.staleness, default=0),
        "staleness": {str(age): amount for age, amount in measurement.staleness.items()},
        "expired": measurement.expired,
        "candidates": measurement.candidates,
        "candidates_per_hour": measurement.per_hour,
        "sync_candidates_per_hour": 3600.0 * scenario.candidates / synchronous,
        "roofline": 3600.0 * measurement.limits.limit,
        "binding": measurement.limits.binding,
        "terms": {name: 3600.0 * value for name, value in measurement.limits.terms.items()},
        "advice": advice(measurement.limits, scenario.bound),
        "trained_evaluation_seconds": measurement.trained_evaluation,
        "evaluation_seconds": measurement.evaluation,
        "virtual_seconds": measurement.seconds,
        "nodes": measurement.losses,
        "evaluation_saved": measurement.saved,
        "pruned": measurement.pruned,
        "repeats": measurement.repeats,
    }


def measure(scenario: Scenario) -> ScenarioResult:
    """Run one scenario to its end. Raises PaceBug (or `Deadlock`) for a mistake of the runtime, and UsageError if it
    gives up because of its nodes."""
    with _scratch_folder() as folder:
        try:
            return run_virtually(lambda: _measured(scenario, folder))
        except GaveUp:
            raise UsageError(
                "The simulated run gave up, because too many evaluations in a row were lost: give --node-mtbf or "
                "--eval-mean such that most of them end before their node dies, or a smaller --preempt."
            ) from None


@contextmanager
def _scratch_folder() -> Generator[Path]:
    """A folder that is gone afterwards, even if an interrupt comes while it is made, when `tempfile` would leave it."""
    folder = _draft_folder() / f"pace-simulate-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        remove_tree(folder)


def _draft_folder() -> Path:
    """A folder in memory if one is writable and has room, because each group file is synced to the disk. Else that of
    temporary files. Raises UsageError if there is none."""
    memory = Path("/dev/shm")
    try:
        with tempfile.NamedTemporaryFile(dir=memory) as file:
            os.posix_fallocate(file.fileno(), 0, ROOM)
    except OSError:
        return temporary_folder()
    return memory


async def _measured(scenario: Scenario, folder: Path) -> ScenarioResult:
    config = config_of(scenario)
    population = MemoryPopulation(header_of(config, TINY_TASK))
    await population.commit(seed_program(TINY_TASK))
    world = World(seed=scenario.seed, durations=scenario.durations)
    world.serve(0, None)
    if scenario.pruning is not None:
        world.curves = scenario.pruning.curves
        await population.commit(_own_curve(world.curves.of(0)))
    if scenario.nodes is not None:
        world.nodes = Nodes(scenario.nodes, scenario.seed)
    elif scenario.slots is not None:
        world.slots = anyio.CapacityLimiter(scenario.slots)
    core = SimulatedRun(config, TINY_TASK, VirtualClock(), world, folder, FAULTLESS, Handles(), watched=False).core(
        population.load(), population
    )
    with start_up_frozen(collect=False):
        await drive(core)
    measured = await _measurements(population, scenario)
    if world.nodes is not None:
        attempts = await population.read(lambda connection: attempted_seconds(connection, population.run_id))
        aborted = await population.read(lambda connection: aborted_leases(connection, population.run_id))
        losses = losses_of(world.nodes, attempts, aborted, measured.seconds)
        measured = replace(measured, losses=losses)
    if scenario.pruning is not None:
        ran = measured.evaluation * measured.candidates
        measured = replace(measured, saved=world.saved_seconds / (world.saved_seconds + ran))
    if scenario.repeats:
        repeats = await population.read(lambda connection: repeats_in(connection, population.run_id))
        measured = replace(measured, repeats=repeats)
    population.close()
    return measured


def config_of(scenario: Scenario) -> Config:
    """The run's configuration."""
    return resolve(
        None,
        {
            "seed": scenario.seed,
            "stop.candidates": scenario.candidates,
            "search.threads": scenario.threads,
            "search.members_kept": 8,
            "learner.objective": "pace" if scenario.learns else "none",
            "learner.group_size": scenario.group_size,
            "learner.k": min(4, scenario.group_size),
            "staleness.max_staleness": scenario.bound,
            "staleness.policy": scenario.policy,
            "evaluation.repeats": scenario.repeats,
            "evaluation.repeats_for": scenario.repeats_for,
            **(_settings_of(scenario.pruning.rules) if scenario.pruning is not None else {}),
        },
        environment={},
    )


def _settings_of(rules: Rules) -> dict[str, object]:
    settings = {"": rules.rule, "_warmup": rules.warmup, "_least": rules.least, "_margin": rules.margin}
    return {f"evaluation.prune{name}": value for name, value in {**settings, "_factor": rules.factor}.items()}


def _own_curve(curve: Curve) -> EvaluationAttempted:
    """The attempt by which the task's own program counts for the others."""
    return EvaluationAttempted(0, FULL, HIDDEN, 1, "ok", 0.0, 0.0, 0.0, 0.0, "", accepted=True, curve=curve or None)


async def _measurements(population: MemoryPopulation, scenario: Scenario) -> ScenarioResult:
    rows = await population.read(lambda connection: finished_rollouts(connection, population.run_id))
    seconds = max(row.at for row in rows)
    whole = [row.whole for row in rows]
    evaluations = [row.evaluation for row in rows]
    trained = [row for row in rows if row.state == "trained"]
    ages = [row.staleness or 0 for row in trained]
    durations, slots = scenario.durations, scenario.slots
    limits = roofline(
        Load(
            threads=scenario.threads,
            group_size=scenario.group_size,
            bound=scenario.bound,
            rollouts=[took - row.waited + durations.implementing for took, row in zip(whole, rows, strict=True)],
            evaluation=_mean(evaluations),
            learning=durations.learning,
            push=durations.pause,
            slots=slots,
            trains=scenario.learns,
            policy=scenario.policy,
        )
    )
    if limits is None:
        raise PaceBug("a simulated run ended without a rollout")
    return ScenarioResult(
        scenario=scenario,
        candidates=len(rows),
        seconds=seconds,
        utilisation=sum(whole) / (scenario.threads * seconds),
        evaluator=sum(evaluations) / ((slots or scenario.threads) * seconds),
        staleness={age: ages.count(age) for age in sorted(set(ages))},
        expired=sum(row.state == "expired" for row in rows),
        trained_evaluation=_mean([row.evaluation for row in trained]),
        evaluation=_mean(evaluations),
        limits=limits,
        pruned=sum(row.outcome == "pruned" for row in rows),
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
