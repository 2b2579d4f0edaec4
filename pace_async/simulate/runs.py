"""A run on simulated stages: the real runtime over a given population, world and clock.

Not a test double of the runtime: `Core`, threads, learning loop and gate are those of a real run.
"""

from dataclasses import dataclass
from pathlib import Path

from pace_async.config import Config
from pace_async.events import Evaluated, RunHeader
from pace_async.observe.bus import Bus
from pace_async.observe.model import RunView
from pace_async.population.base import Population
from pace_async.population.reading.record import RunRecord
from pace_async.programs.compiled import program_hash
from pace_async.registry.objectives import trains
from pace_async.runtime.children.catalogue_reading import chooser_for
from pace_async.runtime.run.clock import Clock
from pace_async.runtime.run.core import Core, Stages
from pace_async.runtime.run.recorder import Recorder
from pace_async.runtime.start.restore import restore
from pace_async.simulate.cluster import EvaluatorOnNodes
from pace_async.simulate.codecs import Codec
from pace_async.simulate.stages import (
    SimulatedEngine,
    SimulatedEvaluator,
    SimulatedImplementer,
    SimulatedLearner,
    SimulatedPublisher,
    World,
)
from pace_async.task import Bounds, Task, TaskSpec

HORIZON = 20

TINY_TASK = Task(
    spec=TaskSpec(
        name="simulated",
        background="Nothing is solved here.",
        coding_requirements="None.",
        direction="maximize",
        bounds=Bounds(lower=0.0, upper=1.0),
        entry="solve",
        timeout_s=1.0,
        memory_mb=1,
        deterministic=True,
    ),
    folder=Path(),
    program="# EVOLVE-BLOCK-START\nstart = 0\n# EVOLVE-BLOCK-END\n",
    digest="simulated",
)


@dataclass(frozen=True, slots=True)
class SimulatedFaults:
    """The seeded faults of simulated stages: one answer in `unparsed_every` breaks the format, one program in
    `fails_every` times out, every `discard_every`-th step is discarded (0: none), the machine is lost under the
    evaluations of the leases in `lost`, and training on a group in `ruined_by` ruins the advisor's format. Scores lie
    between the task's bounds, in the share `reach` of the way from the lower to the upper one."""

    unparsed_every: int = 11
    fails_every: int = 13
    discard_every: int = 0
    lost: frozenset[int] = frozenset()
    ruined_by: frozenset[int] = frozenset()
    reach: float = 1.0

    def highest(self, bounds: Bounds) -> float:
        """The best possible score."""
        return bounds.lower + self.reach * (bounds.upper - bounds.lower)


FAULTLESS = SimulatedFaults(unparsed_every=0, fails_every=0)


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """The surroundings of a run on simulated stages, the same for each process that continues it: its settings and its
    task, the clock, the outside world, the folder of its files, the faults of its stages and the code for its texts.
    With `watched` False its view is never updated."""

    config: Config
    task: Task
    clock: Clock
    world: World
    folder: Path
    faults: SimulatedFaults
    codec: Codec
    watched: bool = True

    def core(self, record: RunRecord, population: Population) -> Core:
        """A runtime that continues from `record`."""
        view = RunView(header=record.header)
        recorder = Recorder(population, restore(record, self.config), Bus(view, watched=self.watched))
        return Core(
            config=self.config,
            task=self.task,
            run=record.header.name,
            horizon=record.header.horizon,
            recorder=recorder,
            stages=self._stages(),
            groups_folder=self.folder / "groups",
        )

    def _stages(self) -> Stages:
        world, faults, bounds = self.world, self.faults, self.task.spec.bounds
        scores = world, bounds.lower, faults.highest(bounds), faults.fails_every, faults.lost
        retries, on_nodes = self.config.evaluation.retries, world.nodes is not None
        learns = trains(self.config.learner.objective)
        learner = SimulatedLearner(
            world, self.folder / "versions", discard_every=faults.discard_every, ruined_by=faults.ruined_by
        )
        return Stages(
            engine=SimulatedEngine(world, faults.unparsed_every, self.codec),
            implementer=SimulatedImplementer(world),
            evaluator=EvaluatorOnNodes(*scores, retries) if on_nodes else SimulatedEvaluator(*scores),
            clock=self.clock,
            learner=learner if learns else None,
            publisher=SimulatedPublisher(world) if learns else None,
            chooser=chooser_for(self.config, self.task),
        )


def header_of(config: Config, task: Task) -> RunHeader:
    """The header of a simulated run."""
    bounds = task.spec.bounds
    return RunHeader(
        name="simulated",
        task=task.name,
        task_digest=task.digest,
        seed=config.seed,
        objective=config.learner.objective,
        advisor="simulated",
        engine="simulated",
        implementer="simulated",
        sandbox="simulated",
        threads=config.search.threads,
        group_size=config.learner.group_size,
        max_staleness=config.bound,
        horizon=config.learner.horizon or HORIZON,
        lower=bounds.lower,
        upper=bounds.upper,
        direction=task.spec.direction,
        config=config.model_dump(mode="json"),
    )


def seed_program(task: Task) -> Evaluated:
    """Candidate 0, which scores the lower bound."""
    return Evaluated(
        lease=0,
        island=0,
        parent=None,
        program=task.program,
        program_hash=program_hash(task.program),
        outcome="ok",
        detail="",
        score=task.spec.bounds.lower,
        reward=0.0,
        metrics={},
        seconds=0.0,
        memoised=False,
        mechanism=None,
        at=0.0,
    )
