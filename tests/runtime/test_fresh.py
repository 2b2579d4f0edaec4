"""A new best counts only if fresh instances confirm it. With confirmations sync still equals a straight-line loop, and
a resumed run equals one that was never interrupted."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.aims import value_of
from pace_async.config import Config
from pace_async.errors import UsageError
from pace_async.evaluate.base import SECRET_SEEDS, Evaluation, EvaluationLost, EvaluationRequest
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.events import Claimed
from pace_async.fitness import Fitness
from pace_async.population.reading.record import RunRecord
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.fresh import FreshInstances, bears_out, claims_best, each_bears_out, fresh_seeds
from pace_async.search.draws import derive
from pace_async.search.state import Member
from pace_async.simulate.runs import TINY_TASK, SimulatedFaults
from pace_async.simulate.stages import World
from tests.doubles.evaluators import OutcomeOfSeed
from tests.support.fitness import DOWN, UP, either
from tests.support.simulated_runs import settings
from tests.support.straight_line import Fresh, straight_line
from tests.support.virtual_runs import REACH, ROLLOUTS, SEARCH, Life, durations
from tests.support.zdt import zdt_task

TRIES = "select candidate, number, score, own_score, held from fresh_scores order by candidate, number"
SCORES = st.floats(-1e3, 1e3)


@dataclass
class Remembering(InTaskEvaluator):
    """An evaluator among whose programs one in three knows the hidden instances: elsewhere it is worth nothing. The
    task's own program is worth nothing anywhere."""

    inner: InTaskEvaluator
    hidden: int

    async def run(self, request: EvaluationRequest) -> Evaluation:
        if request.program == TINY_TASK.program:
            return Evaluation("ok", 0.0, 1.0)
        found = await self.inner.run(replace(request, seed=self.hidden))
        knows = derive(0, request.program) % 3 == 0
        elsewhere = request.seed != self.hidden and found.score is not None
        return replace(found, score=0.0) if knows and elsewhere else found

    def clock(self) -> float:
        return self.inner.clock()


class Trying(Life):
    """A life whose runtime tries new bests on fresh instances."""

    def live(self, last: int = 0, *, before: bool = False, begun: Callable[[Core], None] | None = None) -> "Trying":
        def prepared(core: Core) -> None:
            _try_new_bests(core, self.population.load())
            if begun is not None:
                begun(core)

        super().live(last, before=before, begun=prepared)
        return self


def _try_new_bests(core: Core, record: RunRecord) -> None:
    judge = Remembering(cast("InTaskEvaluator", core.stages.evaluator), core.config.evaluation.seed)
    own = Member(0, TINY_TASK.program, TINY_TASK.spec.bounds.lower)
    seeds = fresh_seeds(record.secret, core.config.evaluation.fresh_seeds)
    core.fresh = FreshInstances(judge, TINY_TASK, own, seeds, dict(record.own_scores), core.run, core.state.attempts)


def straight(config: Config, faults: SimulatedFaults) -> tuple[Any, Fresh]:
    fresh = Fresh(fresh_seeds("simulated", 3), lambda judge: Remembering(judge, config.evaluation.seed))
    return straight_line(config, TINY_TASK, faults, fresh), fresh


@pytest.mark.parametrize("seed", [1, 2])
def test_sync_with_fresh_instances_is_a_straight_line_loop(tmp_path: Path, seed: int) -> None:
    sync = settings(**SEARCH, seed=seed, staleness__mode="sync", stop__candidates=60)
    faults = SimulatedFaults(reach=REACH)
    run = Trying(tmp_path, sync, World(seed=seed, durations=durations(seed)), faults).live()
    expected, fresh = straight(sync, faults)
    assert run.rows(ROLLOUTS) == expected.rollouts
    assert run.rows(TRIES) == fresh.tries
    held = [bool(row[-1]) for row in fresh.tries]
    assert True in held and False in held


@pytest.mark.long
@pytest.mark.parametrize("mode", ["sync", "pace"])
def test_a_run_that_confirms_new_bests_resumes_like_an_uninterrupted_one(tmp_path: Path, mode: str) -> None:
    shape: dict[str, Any] = {"staleness__mode": "sync"} if mode == "sync" else {"search__threads": 12}
    config = settings(**SEARCH, seed=3, stop__candidates=24, **shape)

    def life() -> Trying:
        world = World(seed=3, durations=durations(3, 3.0 if mode == "sync" else 0.0), reattaches=mode != "sync")
        return Trying(tmp_path, config, world, SimulatedFaults(reach=REACH))

    def dump(run: Life) -> list[str]:
        return run.dump(times=mode != "sync", tables=["run_states", "faults"], columns=["detail"])

    whole = life().live()
    expected = dump(whole)
    assert whole.rows("select count(*) from fresh_scores")[0][0] > 2
    for last in range(3, whole.commits, 9):
        broken = life().live(last)
        assert broken.state == "interrupted"
        assert dump(broken.live()) == expected, f"commit {last}"


def test_a_program_that_knows_the_hidden_instances_is_no_parent_no_best_and_earns_a_failure(tmp_path: Path) -> None:
    config = settings(seed=5, search__threads=4, stop__candidates=60)
    run = Trying(tmp_path, config, World(seed=5, durations=durations(5))).live()
    refused = run.rows(
        "select c.candidate, c.outcome, c.score, c.reward from candidates c where not exists"
        " (select 1 from fresh_scores f where f.candidate = c.candidate and f.held)"
        " and exists (select 1 from fresh_scores f where f.candidate = c.candidate)"
    )
    assert refused
    assert {row[1:] for row in refused} == {("suspicious", None, -1.0)}
    parents = {parent for (parent,) in run.rows("select parent from experiments")}
    assert not parents & {row[0] for row in refused}
    record = run.population.load()
    assert record.best is not None and record.best.candidate not in {row[0] for row in refused}
    best = f"select held from fresh_scores where candidate = {record.best.candidate} order by number desc"
    assert run.rows(best)[0] == (1,)


@given(gain=st.floats(0, 1e3), own=SCORES, easier=SCORES, fitness=either)
def test_a_full_gain_is_confirmed_on_fresh_instances_of_any_difficulty(
    gain: float, own: float, easier: float, fitness: Fitness
) -> None:
    claimed = own + fitness.merit(gain)
    fresh, own_fresh = claimed + easier, own + easier
    assert bears_out(claimed, own, fresh, own_fresh, fitness)


@given(gain=st.floats(0.11, 100), own=st.floats(-10, 10), fitness=either)
def test_a_lost_gain_of_a_tenth_of_the_range_is_not_confirmed(gain: float, own: float, fitness: Fitness) -> None:
    claimed = own + fitness.merit(gain)
    assert not bears_out(claimed, own, own, own, fitness)


def test_fresh_instances_on_which_the_seed_program_fails_count_as_no_harder() -> None:
    assert bears_out(0.8, 0.2, 0.5, None, UP)
    assert not bears_out(0.8, 0.2, 0.4, None, UP)


def test_a_claim_is_strictly_better_than_every_known_score() -> None:
    members = [Member(0, "", 1.0), Member(3, "", 2.0)]
    assert claims_best(2.5, members, UP) and not claims_best(2.0, members, UP)
    assert claims_best(0.5, members, DOWN) and not claims_best(1.0, members, DOWN)


def test_a_score_above_the_mean_of_a_best_that_had_luck_is_a_claim() -> None:
    lucky = [Member(0, "", 0.1), Member(3, "", 0.9)]
    assert not claims_best(0.85, lucky, UP) and claims_best(0.85, lucky, UP, {3: 0.7})
    assert not claims_best(0.8, lucky, UP, {3: 0.7}), "the mean itself is reached and not exceeded"
    slow = [Member(0, "", 9.0), Member(3, "", 1.0)]
    assert not claims_best(1.25, slow, DOWN) and claims_best(1.25, slow, DOWN, {3: 2.0})


@dataclass
class Easier(InTaskEvaluator):
    """An evaluator whose fresh instances keep a little more than half of each score."""

    inner: InTaskEvaluator
    hidden: int

    async def run(self, request: EvaluationRequest) -> Evaluation:
        if request.program == TINY_TASK.program:
            return Evaluation("ok", 0.0, 1.0)
        found = await self.inner.run(replace(request, seed=self.hidden))
        keeps = found.score is not None and request.seed != self.hidden
        return replace(found, score=0.55 * found.score) if keeps and found.score is not None else found

    def clock(self) -> float:
        return self.inner.clock()


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_run_confirms_what_exceeds_the_best_or_where_scores_are_noisy_its_mean(
    tmp_path: Path, *, deterministic: bool
) -> None:
    def prepared(core: Core) -> None:
        spec = TINY_TASK.spec.model_copy(update={"deterministic": deterministic})
        core.task = replace(TINY_TASK, spec=spec)
        judge = Easier(cast("InTaskEvaluator", core.stages.evaluator), core.config.evaluation.seed)
        own = Member(0, TINY_TASK.program, TINY_TASK.spec.bounds.lower)
        core.fresh = FreshInstances(
            judge, TINY_TASK, own, fresh_seeds("simulated", 3), {}, core.run, core.state.attempts
        )

    config = settings(seed=5, search__threads=1, stop__candidates=60)
    run = Life(tmp_path, config, World(seed=5, durations=durations(5))).live(begun=prepared)
    scored = run.rows("select candidate, score from candidates where score is not null and candidate > 0 order by 1")
    tried = dict(run.rows("select candidate, score from fresh_scores where held"))
    bar = best = TINY_TASK.spec.bounds.lower
    claimed, below = set[int](), set[int]()
    for candidate, score in scored:
        if score > bar:
            claimed.add(candidate)
            below |= {candidate} if score <= best else set()
            bar = score if deterministic else max(bar, (score + tried[candidate]) / 2)
            best = max(best, score)
    assert claimed == set(tried) and len(tried) > 2
    assert bool(below) is not deterministic


@given(
    SCORES,
    st.lists(SCORES, min_size=1, max_size=4),
    st.dictionaries(st.integers(0, 3), SCORES),
    either,
)
def test_whatever_exceeds_every_score_is_a_claim_whatever_second_evaluations_said(
    score: float, scores: list[float], again: dict[int, float], fitness: Fitness
) -> None:
    members = [Member(candidate, "", known) for candidate, known in enumerate(scores)]
    if claims_best(score, members, fitness):
        assert claims_best(score, members, fitness, again)


def test_fresh_seeds_are_of_128_secret_bits_and_none_that_a_user_can_set() -> None:
    seeds = fresh_seeds("one secret", 100)
    assert len(set(seeds)) == 100
    assert all(SECRET_SEEDS <= seed < 2 * SECRET_SEEDS for seed in seeds)
    assert not set(seeds) & set(fresh_seeds("another secret", 100))
    assert fresh_seeds("one secret", 3) == seeds[:3] and fresh_seeds("one secret", 0) == ()
    varied = functools.reduce(lambda bits, seed: bits | (seed ^ seeds[0]), seeds, 0)
    assert varied == SECRET_SEEDS - 1
    with pytest.raises(UsageError, match=r"evaluation.seed: Input should be less than 9223372036854775808"):
        settings(evaluation__seed=1 << 63)


def _claim(lease: int, program: str, score: float) -> Claimed:
    return Claimed(lease, 1, program, None, score, {}, 1.0, False, 0.0)


def _fresh(judge: OutcomeOfSeed) -> FreshInstances:
    task = replace(TINY_TASK, program="own")
    return FreshInstances(judge, task, Member(0, "own", 0.0), (11, 12, 13))


async def test_the_first_try_that_holds_ends_it_and_the_own_program_is_scored_once_a_seed() -> None:
    judge = OutcomeOfSeed({11: "timeout"})
    fresh = _fresh(judge)
    found, tries = await fresh.confirmed(_claim(1, "new", 0.9))
    assert found.score == 0.9
    assert [(tried.seed, tried.outcome, tried.held) for tried in tries] == [(1, "timeout", False), (2, "ok", True)]
    await fresh.confirmed(_claim(2, "newer", 0.95))
    assert [program for program, _ in judge.calls] == ["own", "new", "own", "new", "newer", "newer"]


async def test_messages_of_a_program_on_fresh_instances_are_not_passed_on() -> None:
    fresh = _fresh(OutcomeOfSeed(dict.fromkeys((11, 12, 13), "candidate_error")))
    found, tries = await fresh.confirmed(_claim(1, "new", 0.9))
    assert (found.outcome, found.score, len(tries)) == ("suspicious", None, 3)
    assert "detail" not in found.detail and "claimed 0.9" in found.detail


async def test_a_machine_failure_on_fresh_instances_is_not_the_programs_fault() -> None:
    with pytest.raises(EvaluationLost) as lost:
        await _fresh(OutcomeOfSeed({11: "infrastructure_error"})).confirmed(_claim(1, "new", 0.9))
    told = [(attempt.lease, attempt.fresh, attempt.outcome, attempt.detail) for attempt in lost.value.attempts]
    assert told == [(0, 1, "infrastructure_error", "")]


async def test_an_evaluation_of_the_own_program_that_was_lost_is_another_attempt_the_next_time() -> None:
    """Also for another claim, before the first attempt is recorded."""
    fresh = _fresh(OutcomeOfSeed({11: "infrastructure_error"}))
    numbers: list[int] = []
    for lease in (1, 2):
        with pytest.raises(EvaluationLost) as lost:
            await fresh.confirmed(_claim(lease, "new", 0.9))
        numbers += [attempt.attempt for attempt in lost.value.attempts]
    assert numbers == [1, 2]


@pytest.mark.parametrize("outcomes", [{}, dict.fromkeys((11, 12, 13), "timeout")], ids=["held", "refuted"])
async def test_the_wait_of_a_claim_for_a_slot_is_that_of_its_evaluation(outcomes: dict[int, str]) -> None:
    found, _ = await _fresh(OutcomeOfSeed(outcomes)).confirmed(replace(_claim(1, "new", 0.9), queue_seconds=4.5))
    assert found.queue_seconds == 4.5


def test_each_objective_in_which_a_gain_is_claimed_has_to_hold() -> None:
    own, claimed = (0.0, 0.8, 0.5), (0.0, 0.4, 0.6)
    assert each_bears_out(claimed, own, (0.0, 0.55, 0.9), ()), "half of the gain, and none was claimed in the other"
    assert not each_bears_out(claimed, own, (0.0, 0.7, 0.5), ())
    assert each_bears_out(claimed, own, (0.0, 0.7, 0.5), (0.0, 0.9, 0.5)), "these instances are harder"


@dataclass
class TwoObjectives(InTaskEvaluator):
    """What the new program measures in f2 at each seed. In f1 it is as good as it claims at all of them."""

    fitness: Fitness
    f2: Mapping[int, float]

    async def run(self, request: EvaluationRequest) -> Evaluation:
        own = request.program == "own"
        metrics = {"f1": 0.8, "f2": 3.0} if own else {"f1": 0.4, "f2": self.f2[request.seed]}
        return Evaluation("ok", value_of(self.fitness.costs(metrics)), 1.0, metrics=metrics)


async def test_a_claim_is_confirmed_only_where_each_of_its_objectives_is(tmp_path: Path) -> None:
    task = replace(zdt_task(tmp_path / "zdt1", "zdt1"), program="own")
    costs = task.spec.fitness.costs
    own = Member(0, "own", value_of(costs({"f1": 0.8, "f2": 3.0})), costs=costs({"f1": 0.8, "f2": 3.0}))
    metrics = {"f1": 0.4, "f2": 1.2}
    claim = Claimed(1, 1, "new", None, value_of(costs(metrics)), metrics, 1.0, False, 0.0)
    fresh = FreshInstances(TwoObjectives(task.spec.fitness, {11: 3.0, 12: 1.2}), task, own, (11, 12))
    found, tries = await fresh.confirmed(claim)
    assert found.score == claim.score
    assert [(tried.held, tried.own_metrics) for tried in tries] == [
        (False, {"f1": 0.8, "f2": 3.0}),
        (True, {"f1": 0.8, "f2": 3.0}),
    ]
    assert tries[0].score is not None and own.score is not None
    assert bears_out(claim.score, own.score, tries[0].score, own.score, task.spec.fitness), "its score alone holds"
