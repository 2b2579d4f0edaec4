"""A cascade: cheap stages first, a full evaluation for what passes them, and a resume that pays for no stage twice."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import Config, EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import evaluate_file, open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Evaluator, evaluate
from pace_async.evaluate.cascade import cascaded
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.events import CascadeScore, CascadeStageEnded, EvaluationAttempted, Fact
from pace_async.implement.base import Experiment, ImplementedProgram, Implementer
from pace_async.reward import STOPPED, RewardRule
from pace_async.runtime.run.core import Core
from pace_async.runtime.start.supervisor import drive
from pace_async.search.state import Member
from pace_async.simulate.codecs import Bytes
from pace_async.simulate.runs import TINY_TASK, SimulatedFaults, SimulatedRun
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from pace_async.task import FULL, CascadeStage, Task, TaskSpec, load_task
from tests.doubles.evaluators import StageScores, request
from tests.doubles.populations import Interrupting
from tests.support.changed_stages import change_stages
from tests.support.command_line import Shell
from tests.support.evaluate_tasks import DOUBLE, make_task
from tests.support.fitness import UP
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import Life, durations

STAGES = (CascadeStage(name="few", threshold=0.3), CascadeStage(name="some", threshold=0.5, timeout_s=0.5))
SPEC = TINY_TASK.spec.model_copy(update={"cascade": STAGES})
ENDED = "select c.candidate, c.outcome, c.score, c.reward from candidates c where c.candidate > 0 order by c.candidate"
PASSED = "select lease, number, stage, score, threshold, passed, program from cascade_scores order by lease, ordinal"


def ok(score: float) -> Evaluation:
    return Evaluation("ok", score, 1.0)


def through(
    scores: dict[str, Evaluation], spec: TaskSpec = SPEC, done: Sequence[CascadeScore] = ()
) -> tuple[Evaluation, list[str], list[str]]:
    """(the result, the stages that ran, the stages reported as passed)."""
    told: list[str] = []
    evaluator = StageScores(scores)

    async def keep(score: CascadeScore, attempts: tuple[EvaluationAttempted, ...]) -> None:
        told.append(score.stage)

    async def main() -> Evaluation:
        found = await cascaded(evaluator, spec, request("x = 1"), done=done, passed=keep)
        return replace(found, attempts=())

    return anyio.run(main), evaluator.asked, told


@given(
    few=st.floats(-1, 1),
    some=st.floats(-1, 1),
    full=st.floats(-1, 1),
    direction=st.sampled_from(["maximize", "minimize"]),
)
def test_a_program_enters_a_stage_only_at_or_above_the_threshold_before_it(
    few: float, some: float, full: float, direction: str
) -> None:
    spec = SPEC.model_copy(update={"direction": direction})
    found, asked, told = through({"few": ok(few), "some": ok(some), FULL: ok(full)}, spec)
    reached = [spec.fitness.reaches(few, 0.3), spec.fitness.reaches(some, 0.5)]
    passes = reached.index(False) if False in reached else 2
    assert asked == ["few", "some", FULL][: passes + 1]
    assert told == asked[:passes]
    assert [score.passed for score in found.cascade] == [True] * passes + [False] * (passes < 2)
    assert (found.outcome, found.score) == (("ok", full) if passes == 2 else ("below_threshold", None))
    assert found.seconds == passes + 1


def test_a_failure_in_a_stage_is_the_programs_fault_and_a_machine_fault_is_not() -> None:
    found, asked, _ = through({"few": Evaluation("timeout", None, 2.0, "stopped after 2 s")})
    assert (found.outcome, found.detail, asked) == ("timeout", "stopped after 2 s", ["few"])
    assert [score.outcome for score in found.cascade] == ["timeout"]
    lost = Evaluation("infrastructure_error", None, 0.0, "gone")
    assert through({"few": ok(1.0), "some": lost}) == (lost, ["few", "some"], ["few"])
    assert through({"few": ok(1.0), "some": ok(1.0), FULL: lost})[0] == lost


def test_a_finished_stage_is_not_run_again_and_counts() -> None:
    done = through({"few": ok(0.4), "some": ok(0.1)})[0].cascade[:1]
    found, asked, told = through({"some": ok(0.6), FULL: ok(0.7)}, done=done)
    assert (found.score, found.seconds, asked, told) == (0.7, 3.0, ["some", FULL], ["some"])
    assert [score.score for score in found.cascade] == [0.4, 0.6]


def test_a_stopped_program_gets_the_reward_of_no_progress() -> None:
    rule = RewardRule(UP)
    assert [rule.of_score(score, parent=0.0, seed=0.0) for score in (0.0, None, -3.0)] == [STOPPED, -1.0, 0.0]


@pytest.mark.parametrize("names", [("few", "few"), ("full",)])
def test_stages_need_names_of_their_own(names: tuple[str, ...]) -> None:
    given_stages = [{"name": name, "threshold": 0} for name in names]
    with pytest.raises(ValueError, match="a name of its own"):
        TaskSpec.model_validate({**TINY_TASK.spec.model_dump(), "cascade": given_stages})


@dataclass
class Counting(InTaskEvaluator):
    """Passes on to an implementer and an evaluator, and writes down for which lease it was asked."""

    implementer: Implementer
    evaluator: Evaluator
    calls: list[tuple[str, int]]

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        self.calls.append(("implement", experiment.lease))
        return await self.implementer.implement(task, parent, experiment)

    async def run(self, request: EvaluationRequest) -> Evaluation:
        self.calls.append((request.stage, request.lease))
        return await evaluate(self.evaluator, request)


class Noting(Interrupting):
    """Notes which commits contain a passed stage, and of which lease."""

    passes: dict[int, int]

    async def commit(self, *facts: Fact) -> None:
        if isinstance(facts[0], CascadeStageEnded) and facts[0].score.passed:
            self.passes[self.commits + 1] = facts[0].lease
        await super().commit(*facts)


class Staged(Life):
    """A life of a task with a cascade."""

    def __init__(self, folder: Path, config: Config, world: World) -> None:
        super().__init__(folder, config, world, SimulatedFaults(fails_every=7))
        self.calls: list[tuple[str, int]] = []
        self.passes: dict[int, int] = {}

    def live(self, last: int = 0, *, before: bool = False, begun: Callable[[Core], None] | None = None) -> "Staged":
        async def process() -> None:
            with anyio.CancelScope() as scope:
                population = Noting(self.population, scope, last, before=before)
                population.passes = self.passes
                core = SimulatedRun(
                    self.config,
                    replace(TINY_TASK, spec=SPEC),
                    VirtualClock(),
                    self.world,
                    self.folder,
                    self.faults,
                    Bytes(),
                ).core(self.population.load(), population)
                evaluator = core.stages.evaluator
                assert isinstance(evaluator, InTaskEvaluator)
                counting = Counting(core.stages.implementer, evaluator, self.calls)
                change_stages(core, implementer=counting, evaluator=counting)
                if begun is not None:
                    begun(core)
                self.state = "interrupted"
                try:
                    self.state = await drive(core)
                finally:
                    self.time, self.commits = anyio.current_time(), population.commits

        run_virtually(process, start=self.time)
        return self


def staged(folder: Path) -> Staged:
    shape: dict[str, Any] = {"search__threads": 4, "learner__group_size": 4, "learner__k": 2, "stop__candidates": 24}
    config = settings(**shape, seed=4, staleness__mode="sync")
    return Staged(folder, config, World(seed=4, durations=durations(4)))


def test_stopped_programs_have_a_cheap_score_and_are_neither_parent_nor_best(tmp_path: Path) -> None:
    run = staged(tmp_path).live()
    ended = run.rows(ENDED)
    stopped = {row[0] for row in ended if row[1] == "below_threshold"}
    assert len(stopped) > 5
    assert {row[1:] for row in ended if row[0] in stopped} == {("below_threshold", None, 0.0)}
    scored = {row[0] for row in ended if row[1] == "ok"}
    assert scored
    stages = run.rows(PASSED)
    for lease, _, _, score, threshold, passed, program in stages:
        assert bool(passed) == (score is not None and score >= threshold) == (program is not None)
        assert lease not in scored or passed
    assert {row[0] for row in stages if row[3] is not None and not row[5]} == stopped
    full = [lease for stage, lease in run.calls if stage == FULL]
    assert sorted(full) == sorted({lease for lease, number, *_, passed, _ in stages if number == 2 and passed})
    assert not {parent for (parent,) in run.rows("select parent from experiments")} & stopped
    best = run.population.load().best
    assert best is not None and best.candidate in scored


@pytest.mark.long
def test_a_run_interrupted_after_a_stage_repeats_nothing_and_ends_the_same(tmp_path: Path) -> None:
    def dump(run: Life) -> list[str]:
        return run.dump(times=False, tables=["run_states", "faults"], columns=["detail"])

    whole = staged(tmp_path).live()
    expected, commits = dump(whole), sorted(whole.passes)
    assert len(commits) > 10
    for last in commits[1 :: len(commits) // 4]:
        broken = staged(tmp_path).live(last)
        assert broken.state == "interrupted"
        lease = whole.passes[last]
        paid = [call for call in broken.calls if call[1] == lease]
        broken.live()
        again = [call for call in broken.calls if call[1] == lease][len(paid) :]
        assert dump(broken) == expected, f"commit {last}"
        before = [stage for stage, _ in paid if stage != FULL]
        assert before in (["implement", "few"], ["implement", "few", "some"])
        assert [stage for stage, _ in again] == (["some", FULL] if len(before) == 2 else [FULL])[: len(again)]
        assert again


EVALUATOR = """
def instances(seed, stage):
    return [{"x": seed + i, "stage": stage} for i in range(1 if stage == "few" else 3)]

def score(instances, outputs, stage):
    assert all(instance["stage"] == stage for instance in instances)
    return {"score": sum(outputs), "count": len(outputs)}
"""
GROWING = "def f(instance):\n    return {factor} * instance['x']\n"
TUNABLE = """# EVOLVE-BLOCK-START
factor = 2


def f(instance):
    return factor * instance["x"]
# EVOLVE-BLOCK-END
"""
HANGS_ONCE_IT_HAS_PASSED = "def f(instance):\n    while instance['stage'] == '{stage}': pass\n    return 9\n"


def cascade_task(folder: Path, threshold: float) -> Task:
    """Its seed program scores 2 in the stage, for x = 1, and 12 in full."""
    make_task(folder, EVALUATOR, timeout_s=20.0)
    with (folder / "task.yaml").open("a") as stream:
        stream.write(f"cascade:\n  - {{name: few, threshold: {threshold}, timeout_s: 1.5}}\n")
    return load_task(str(folder))


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
def test_each_stage_has_its_own_instances_limit_and_remembered_scores(tmp_path: Path) -> None:
    task = cascade_task(tmp_path / "sum", threshold=2)

    async def main() -> list[Evaluation]:
        tier = await pick_tier(False)
        programs = [GROWING.format(factor=factor) for factor in (2, 1, 2)]
        programs.append(HANGS_ONCE_IT_HAS_PASSED.format(stage="few"))
        async with open_evaluator(task, EvaluationConfig(), tier=tier, log=tmp_path / "log") as evaluator:
            asked = [
                EvaluationRequest.of(task.spec, EvaluationId("test", n), program, 1)
                for n, program in enumerate(programs)
            ]
            return [await cascaded(evaluator, task.spec, each) for each in asked]

    passed, stopped, again, hangs = anyio.run(main)
    assert (passed.outcome, passed.score, passed.metrics, passed.memoised) == ("ok", 12.0, {"count": 3.0}, False)
    assert [(score.score, score.passed, score.threshold) for score in passed.cascade] == [(2.0, True, 2.0)]
    assert (stopped.outcome, stopped.score, stopped.metrics) == ("below_threshold", None, {})
    assert stopped.detail == "stage few: 1, and 2 is asked for"
    assert (again.score, again.memoised, again.seconds) == (12.0, True, 0.0)
    assert (hangs.outcome, hangs.cascade[0].outcome, hangs.score) == ("timeout", "timeout", None)
    assert hangs.seconds < 15


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
@pytest.mark.long
def test_the_check_of_a_task_says_which_threshold_stops_its_seed_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cascade_task(tmp_path / "sum", threshold=3)
    shell = Shell(tmp_path, monkeypatch, capsys)
    checks = json.loads(shell.pace("task", "check", "./sum", "--seed", "1", "--json").out)["checks"]
    [stage] = [check for check in checks if check["check"].startswith("stage few")]
    assert not stage["ok"]
    assert stage["found"].startswith("2 of 3 in ") and stage["remedy"] == "set its threshold to 2 or worse"


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
def test_a_person_sees_how_far_a_program_came_and_a_run_whose_seed_program_is_stopped_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    cascade_task(tmp_path / "sum", threshold=3)
    (tmp_path / "less.py").write_text(GROWING.format(factor=1))
    said = shell.pace("eval", "./sum", "less.py", "--seed", "2")
    assert "below_threshold" in said.out and "2 of 3: stopped" in said.out
    found = json.loads(shell.pace("eval", "./sum", "sum/initial.py", "--seed", "2", "--json").out)
    assert (found["score"], [stage["passed"] for stage in found["cascade"]]) == (18.0, [True])
    with (tmp_path / "sum" / "task.yaml").open("a") as stream:
        stream.write("catalogue: catalogue.yaml\n")
    (tmp_path / "sum" / "catalogue.yaml").write_text(
        "mechanisms:\n  - {name: factor, about: a factor, options: [1, 2]}\n"
    )
    (tmp_path / "sum" / "initial.py").write_text(TUNABLE)
    refused = shell.pace("run", "./sum", "--set", "evaluation.seed=1", "--display", "none", "--candidates", "8")
    assert refused.code == 5, refused.err
    assert "is stopped before its full evaluation (stage few: 2, and 3 is asked for)" in refused.err
    assert not (tmp_path / "runs").exists()


def test_a_task_with_a_cascade_needs_an_evaluator_that_knows_stages(tmp_path: Path) -> None:
    task = make_task(tmp_path / "sum")
    task = replace(task, spec=task.spec.model_copy(update={"cascade": STAGES}))
    with pytest.raises(UsageError, match="no stage would be cheap"):
        anyio.run(evaluate_file, task, DOUBLE, EvaluationConfig())
