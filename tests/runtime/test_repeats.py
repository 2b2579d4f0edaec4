"""Runs with noisy scores that measure a new best again, under the virtual clock."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import refuse_unless_noisy
from pace_async.evaluate.base import Evaluation, EvaluationRequest
from pace_async.events import EvaluationAttempted
from pace_async.population.reading.questions import best, show
from pace_async.runtime.run.core import Core
from pace_async.search.draws import derive
from pace_async.simulate.runs import SimulatedFaults
from pace_async.simulate.stages import SimulatedEvaluator, World
from pace_async.simulate.virtual import run_virtually
from pace_async.task import FULL, load_task
from tests.support.comparing_states import differences
from tests.support.population_facts import advised, evaluated, fresh, opened
from tests.support.simulated_runs import settings
from tests.support.virtual_runs import ROLLOUTS, Life, durations

FAULTS = SimulatedFaults(unparsed_every=0, fails_every=0)
SCORES = "select lease, score from evaluation_attempts where score is not null order by lease, attempt"


@dataclass
class Noisy(SimulatedEvaluator):
    """Scores differ by up to .5 from attempt to attempt. One in `breaks` of the repeats gives none (0: all do)."""

    breaks: int = 0

    async def run(self, request: EvaluationRequest) -> Evaluation:
        found = await super().run(request)
        if self.breaks and request.id.attempt > 1 and derive(0, request.program, request.id.attempt) % self.breaks == 0:
            return Evaluation("timeout", None, found.seconds, "too slow today")
        if found.score is None:
            return found
        drawn = derive(request.seed, request.program, request.id.attempt) % 1000 / 1000
        return replace(found, score=(found.score + drawn) / 2, metrics={"drawn": drawn})


def noisy(*, breaks: int = 0, lost: frozenset[int] = frozenset()) -> Callable[[Core], None]:
    def begun(core: Core) -> None:
        simulated = core.stages.evaluator
        assert isinstance(simulated, SimulatedEvaluator)
        evaluator = Noisy(simulated.world, simulated.lower, simulated.upper, 0, lost, breaks)
        core.stages = replace(core.stages, evaluator=evaluator)

    return begun


PARENTS: Mapping[str, object] = {"evaluation__repeats_for": "parents"}


def life(folder: Path, **more: object) -> Life:
    config = settings(**{"seed": 5, "stop__candidates": 60, "evaluation__repeats": 3, **more})
    return Life(folder, config, World(seed=5, durations=durations(5), reattaches=True), FAULTS)


def scores_of(run: Life) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for lease, score in run.rows(SCORES):
        found.setdefault(lease, []).append(score)
    return found


def test_the_score_of_a_new_best_is_the_mean_of_its_evaluations(tmp_path: Path) -> None:
    run = life(tmp_path).live(begun=noisy())
    assert run.state == "done"
    measured = scores_of(run)
    candidates = dict(run.rows("select candidate, score from candidates where score is not null"))
    assert 3 < len(measured) < 30 and 0 not in measured
    for lease, scores in measured.items():
        assert 2 <= len(scores) <= 4 and candidates[lease] == pytest.approx(fmean(scores))
    assert any(len(scores) < 4 for scores in measured.values()), "one that is no best after all is measured no further"
    top = max((score, candidate) for candidate, score in candidates.items())[1]
    assert len(measured[top]) == 4
    said = run_virtually(lambda: run.population.read(best))
    assert (said["candidate"], said["evaluations"]) == (top, 4)
    assert said["standard_error"] == pytest.approx(stdev(measured[top]) / 2)
    once = next(candidate for candidate in candidates if candidate not in measured)
    shown = run_virtually(lambda: run.population.read(lambda asked: show(asked, once)))
    assert (shown["evaluations"], shown["standard_error"]) == (1, None)
    [(metrics,)] = run.rows(f"select json_extract(metrics, '$.drawn') from candidates where candidate = {top}")
    assert 0 < metrics < 1
    assert run.population.load().run_state.repeated == {lease: tuple(scores) for lease, scores in measured.items()}


def test_without_repeats_nothing_is_kept(tmp_path: Path) -> None:
    run = life(tmp_path, evaluation__repeats=0, **PARENTS).live(begun=noisy())
    assert run.rows(SCORES) == [] and run.population.load().run_state.repeated == {}
    assert run.rows("select count(*) from evaluation_attempts where attempt > 1") == [(0,)]


def test_a_program_that_does_not_work_again_is_no_best(tmp_path: Path) -> None:
    run = life(tmp_path).live(begun=noisy(breaks=1))
    assert run.rows("select max(score) from candidates where candidate > 0")[0][0] is None or not scores_of(run)
    assert run.rows("select count(*) > 20 from candidates where outcome = 'timeout'") == [(1,)]


@pytest.mark.long
def test_a_run_that_is_killed_amid_repeats_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    sync: Mapping[str, object] = {"staleness__mode": "sync", **PARENTS}
    whole = life(tmp_path / "whole", **sync).live(begun=noisy())
    assert whole.rows(MEASURED)
    for cut in (15, 40, 90):
        run = life(tmp_path / f"cut {cut}", **sync)
        assert run.live(cut, begun=noisy()).state == "interrupted"
        assert run.live(begun=noisy()).state == "done"
        assert run.rows(ROLLOUTS) == whole.rows(ROLLOUTS)
        assert scores_of(run) == scores_of(whole)


async def test_the_view_has_the_mean_of_each_program_that_was_measured_again(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        for lease, scores in {1: (2.0, 1.0, 1.5), 2: (1.0,), 3: (1.0, 3.0)}.items():
            tried = [measured(lease, attempt, score) for attempt, score in enumerate(scores, 1)]
            ended = replace(evaluated(lease, score=fmean(scores)), repeated=scores if len(scores) > 1 else ())
            failed = replace(ended, outcome="timeout", score=None)
            await store.commit(opened(lease), advised(lease), *tried, failed if lease == 3 else ended)
        rows = await store.query("select candidate, evaluations, mean, variance, lowest, highest from repeats")
    assert [tuple(row.values()) for row in rows] == [(1, 3, 1.5, pytest.approx(0.25 / 3), 1.0, 2.0)]


def measured(lease: int, attempt: int, score: float) -> EvaluationAttempted:
    return EvaluationAttempted(lease, FULL, 0, attempt, "ok", 1.0, 0.0, 5.0, 6.0, "", True, score=score)


def test_scores_that_are_equal_by_the_tasks_word_are_not_measured_again() -> None:
    task = load_task("circle_packing")
    refuse_unless_noisy(task, EvaluationConfig())
    with pytest.raises(UsageError, match="repeats is 2, and equal programs"):
        refuse_unless_noisy(task, EvaluationConfig(repeats=2))


AS_PARENTS = """
select a.lease, c.score, count(*), avg(a.score) from evaluation_attempts a join candidates c on c.candidate = a.lease
where a.score is not null group by a.lease, c.score having count(*) > 1 order by a.lease"""
MEASURED = "select body from journal where kind = 'MeasuredAgain' order by seq"


def test_a_parent_is_measured_again_each_time_it_is_chosen_and_its_mean_is_its_score(tmp_path: Path) -> None:
    run = life(tmp_path, **PARENTS).live(begun=noisy())
    facts = [json.loads(body) for (body,) in run.rows(MEASURED)]
    assert len(facts) > 5 and len({fact["candidate"] for fact in facts}) > 2
    assert all(2 <= len(fact["scores"]) <= 4 for fact in facts)
    newest = {fact["candidate"]: fact["scores"] for fact in facts}
    rows = {lease: (score, count, mean) for lease, score, count, mean in run.rows(AS_PARENTS)}
    state = run.population.load().run_state
    for candidate, scores in newest.items():
        score, count, mean = rows[candidate]
        assert count == len(scores) and score == pytest.approx(mean) == pytest.approx(fmean(scores))
        assert state.repeated[candidate] == pytest.approx(tuple(scores))
        kept = [member for island in state.islands.values() for member in island.members]
        assert all(member.score == fmean(scores) for member in kept if member.candidate == candidate)
    for island in state.islands.values():
        assert [one.score for one in island.members] == sorted((one.score for one in island.members), reverse=True)
    parents = {parent for (parent,) in run.rows("select distinct parent from experiments where parent > 0")}
    assert newest.keys() <= parents
    rewards = dict(run.rows("select candidate, reward from candidates"))
    first = {fact["candidate"]: fact["scores"][0] for fact in reversed(facts) if len(fact["scores"]) == 2}
    for candidate, score in first.items():
        if len(newest[candidate]) == 2 and score != newest[candidate][1]:
            assert rewards[candidate] == pytest.approx(5 * score)
    assert state.repeats == sum(count - 1 for _, count, _ in rows.values())


@pytest.mark.long
def test_repeats_are_at_most_their_share_and_a_resume_goes_on_with_what_is_left(tmp_path: Path) -> None:
    unbounded = life(tmp_path / "unbounded", **PARENTS).live(begun=noisy()).population.load().run_state
    assert unbounded.repeats > 0.2 * (unbounded.evaluated + unbounded.repeats)
    run, most = life(tmp_path / "bounded", evaluation__repeats_budget=0.2, **PARENTS), 0
    for cut in (25, 40, 60, 0):
        run.live(cut, begun=noisy())
        [(made,)] = run.rows(
            "select count(score) - count(distinct lease) from evaluation_attempts where score is not null"
        )
        state = run.population.load().run_state
        assert made <= 0.2 * (state.evaluated + made)
        assert not cut or made >= most
        most = made
    assert run.state == "done" and most == state.repeats > 5
    none = life(tmp_path / "none", evaluation__repeats_budget=0.0, **PARENTS).live(begun=noisy())
    assert none.rows(SCORES) == [] and none.population.load().run_state.repeats == 0


def test_a_parent_that_does_not_work_again_is_taken_out(tmp_path: Path) -> None:
    run = life(tmp_path, **PARENTS).live(begun=noisy(breaks=6))
    facts = [json.loads(body) for (body,) in run.rows(MEASURED)]
    gone = {fact["candidate"] for fact in facts if fact["outcome"] != "ok"}
    assert 0 < len(gone) < len(facts)
    numbers = ",".join(map(str, gone))
    rows = run.rows(f"select distinct outcome, score, merit from candidates where candidate in ({numbers})")
    assert rows == [("timeout", None, None)]
    state = run.population.load().run_state
    seen = [*state.visible.elites.values(), *(one for island in state.islands.values() for one in island.members)]
    assert not gone & {one.candidate for one in seen}


@pytest.mark.long
def test_the_state_of_a_run_that_measures_parents_again_is_what_its_facts_come_to(tmp_path: Path) -> None:
    for mode, memory in (("async", "run"), ("sync", "pool")):
        cores = list[Core]()

        def begun(core: Core, cores: list[Core] = cores) -> None:
            noisy()(core)
            cores.append(core)

        run = life(tmp_path / mode, staleness__mode=mode, search__memory=memory, **PARENTS).live(begun=begun)
        assert run.rows(MEASURED)
        state = run.population.load().run_state
        shown = [one for view in state.memory.views.values() for one in view.tested.values()]
        scores = dict(run.rows("select candidate, score from candidates"))
        assert bool(shown) == (memory == "run") and all(one.score == scores[one.candidate] for one in shown)
        found = differences(cores[0].state, state)
        assert [name for name in found if name not in ("terms", "weights")] == []
