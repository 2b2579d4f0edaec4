"""What a screen knows of a run is a fold of its facts."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.aims import Aim, text_of
from pace_async.config import StopConfig
from pace_async.events import (
    Advised,
    Evaluated,
    Fact,
    FaultSeen,
    IdeaNote,
    ImplementerCalled,
    ImplementerReserved,
    LeaseAborted,
    LeaseOpened,
    LeaseReleased,
    NodesSeen,
    RunStateChanged,
    StageChanged,
    VersionPublished,
)
from pace_async.frozen_values import changed
from pace_async.observe.fold import fold
from pace_async.observe.history import resumed_view, view_of
from pace_async.observe.model import IMPROVEMENTS_KEPT, NOTES_KEPT, TIMES_KEPT, RunView
from pace_async.observe.progress import progress
from pace_async.observe.search_sections import search
from pace_async.observe.sections import best, title
from pace_async.observe.summary import closing_words
from tests.support.observe_facts import BEGIN, fold_all, life, scored
from tests.support.population_facts import (
    HEADER,
    advised,
    evaluated,
    fresh,
    opened,
    rollout,
    seed_program,
    shipped,
    skipped,
    trained,
)

EMPTY = RunView(HEADER)
RUNNING = RunStateChanged("running", "", BEGIN)


def test_the_machines_of_a_cluster_are_shown_while_the_run_goes_on_and_not_without_a_cluster() -> None:
    seen = fold_all(EMPTY, [RUNNING, NodesSeen(3, 24, 22)])
    shown = "\n".join(line.plain for line in search(seen, BEGIN + 1, 120).lines)
    assert "3 nodes, 22 of 24 slots busy" in shown
    ended = fold(seen, RunStateChanged("done", "candidates", BEGIN + 2))
    for view in (ended, fold(EMPTY, RUNNING)):
        assert "busy" not in "\n".join(line.plain for line in search(view, BEGIN + 3, 120).lines)


def test_the_best_of_a_maximising_task_is_the_highest_and_of_a_minimising_one_the_lowest() -> None:
    facts = [scored(lease, score, BEGIN + lease) for lease, score in enumerate((1.5, 2.5, None, 0.5), start=1)]
    highest = fold_all(EMPTY, facts).best
    lowest = fold_all(RunView(replace(HEADER, direction="minimize")), facts).best
    assert highest is not None and (highest.candidate, highest.score, highest.after) == (2, 2.5, 2)
    assert lowest is not None and (lowest.candidate, lowest.score, lowest.after) == (4, 0.5, 4)


def test_an_equal_score_is_no_new_best() -> None:
    view = fold_all(EMPTY, [scored(1, 2.0, BEGIN), scored(2, 2.0, BEGIN + 1)])
    assert view.best is not None and view.best.candidate == 1
    assert [note.kind for note in view.notes] == ["best", "candidate"]


def test_of_two_equal_candidates_the_older_is_the_best_as_in_the_leaderboard() -> None:
    view = fold_all(EMPTY, [scored(2, 2.0, BEGIN), scored(1, 2.0, BEGIN + 1)])
    assert view.best is not None
    assert (view.best.candidate, view.best.after, view.best.at) == (1, 1, BEGIN)
    assert view.improvements == ((1, 2.0),)
    assert [note.kind for note in view.notes] == ["best", "candidate"]


def test_the_seed_program_is_the_first_best_but_no_candidate() -> None:
    view = fold(EMPTY, seed_program(0.9598))
    assert (view.seed_score, view.candidates, view.leases.admitted) == (0.9598, 0, 0)
    assert view.best is not None and view.best.candidate == 0
    assert view.best_so_far(5) == (0.9598,)


def test_the_best_carries_the_experiment_of_its_rollout() -> None:
    view = fold_all(EMPTY, rollout(1))
    assert view.best is not None and view.best.experiment == 'Change layout to "hex".'
    assert view.experiments == {}
    assert view.latest is not None and view.latest.text.endswith('the best so far: Change layout to "hex".')


SPECIFICATIONS = ("Keep solve.\nBegin with hexagons.", "Keep solve. " * 20)


def specified(text: str, chosen: int) -> tuple[Fact, ...]:
    """A rollout that proposes idea 1, and carries out a specification of the chosen one."""
    idea = IdeaNote(1, "(refine) a hexagonal start", known=False)
    return opened(1), advised(1, ideas=(idea,), idea=chosen, experiment=text), evaluated(1)


@pytest.mark.parametrize("text", SPECIFICATIONS)
async def test_of_a_long_specification_the_idea_is_shown(text: str, tmp_path: Path) -> None:
    view = fold_all(EMPTY, specified(text, 1))
    assert view.best is not None and view.best.experiment == "a hexagonal start"
    async with fresh(tmp_path) as store:
        await store.commit(*specified(text, 1))
        found = await view_of(await store.load("demo"), StopConfig(), store)
    assert found.best is not None and found.best.experiment == view.best.experiment


def test_of_a_specification_of_another_rollouts_idea_the_beginning_is_shown() -> None:
    for text in SPECIFICATIONS:
        view = fold_all(EMPTY, specified(text, 2))
        assert view.best is not None and view.best.experiment.startswith("Keep solve. ")


@given(seed=st.integers(0, 200))
def test_every_lease_stands_in_exactly_one_place(seed: int) -> None:
    view = EMPTY
    in_flight: set[int] = set()
    buffered: set[int] = set()
    for fact in life(seed):
        view = fold(view, fact)
        if isinstance(fact, LeaseOpened):
            in_flight.add(fact.lease)
        elif isinstance(fact, Evaluated) and fact.lease:
            in_flight.remove(fact.lease)
            buffered.add(fact.lease)
        elif isinstance(fact, LeaseAborted):
            in_flight.remove(fact.lease)
        leases = view.leases
        assert leases.in_flight == len(in_flight)
        assert leases.buffered + leases.training + leases.trained + leases.skipped == len(buffered)
        assert min(leases.buffered, leases.training) >= 0
        assert leases.admitted == leases.trained + leases.skipped + leases.aborted + leases.expired + leases.open


def test_a_group_moves_its_leases_from_complete_through_training_to_trained() -> None:
    view = fold_all(EMPTY, [*rollout(1), *rollout(2, 2)])
    assert (view.leases.in_flight, view.leases.buffered, view.leases.training) == (0, 2, 0)
    view = fold(view, replace(shipped(1, (1, 2), update=3), staleness=(0, 2), rewards=(1.0, 4.0)))
    assert (view.leases.buffered, view.leases.training, view.staleness) == (0, 2, {})
    view = fold(view, trained(1, (1, 2), update=3))
    assert (view.leases.training, view.leases.trained, view.leases.open) == (0, 2, 0)
    assert view.staleness == {0: 1, 2: 1}
    assert (view.learner.trained, view.learner.version, view.learner.alpha) == (1, 4, 0.05)
    assert view.learner.rewards == (2.5,)
    assert view.learner.metrics["loss"] == 0.125
    assert view.latest is not None
    assert view.latest.text == "group 1 trained version 4: mean reward 2.50, alpha 0.05, staleness 0 to 2 (mean 1.0)"


def test_a_skipped_group_counts_and_trains_nothing() -> None:
    view = fold_all(EMPTY, [*rollout(1), *rollout(2, 2), shipped(1, (1, 2)), skipped(1, (1, 2))])
    assert (view.learner.skipped, view.learner.trained, view.learner.version, view.groups) == (1, 0, 0, 1)
    assert (view.leases.skipped, view.staleness) == (2, {})
    assert (
        view.latest is not None
        and "group 1 skipped: nothing tells its rollouts apart, so there is nothing to learn (the" in view.latest.text
    )


def test_a_released_lease_closes_without_a_group() -> None:
    view = fold_all(EMPTY, [*rollout(1), LeaseReleased(1, "skipped", BEGIN)])
    assert (view.leases.buffered, view.leases.skipped, view.leases.open) == (0, 1, 0)


def test_threads_are_followed_by_facts_and_by_transient_events() -> None:
    view = fold(EMPTY, opened(1, island=2))
    assert view.by_stage() == {"advise": 1, "implement": 0, "evaluate": 0, "waiting": 1}
    view = fold_all(view, [advised(1, island=2), StageChanged(2, 1, "evaluate"), StageChanged(1, None, "advise")])
    assert view.by_stage() == {"advise": 1, "implement": 0, "evaluate": 1, "waiting": 0}
    assert fold(view, scored(1, 2.0, BEGIN, island=2)).by_stage()["waiting"] == 1


def test_spend_faults_and_the_published_version_are_kept() -> None:
    view = fold_all(
        EMPTY,
        [
            ImplementerCalled(1, "m", "ok", 1, 1, 0.25, 1.0, BEGIN),
            ImplementerCalled(1, "m", "refused", 1, 1, 0.5, 1.0, BEGIN),
            FaultSeen("engine", "died", "signal 9", None, BEGIN),
            VersionPublished(3, 0.5, 0.1, {}, BEGIN),
        ],
    )
    assert (view.spend_usd, sum(view.calls.values()), view.faults, view.learner.published) == (0.75, 2, 1, 3)
    assert [note.text for note in view.notes] == ["fault in engine: died: signal 9"]


def test_reserved_money_is_shown_until_its_call_ends() -> None:
    calls = [ImplementerReserved(1, 1, "m", 0.04, BEGIN), ImplementerReserved(2, 2, "m", 0.03, BEGIN)]
    view = fold_all(EMPTY, calls)
    assert "$0.07 reserved" in screen_text(view)
    view = fold(view, ImplementerCalled(1, "m", "ok", 1, 1, 0.01, 1.0, BEGIN, reservation=1))
    assert view.reserved == {2: 0.03}
    assert "$0.01 + $0.03 reserved" in screen_text(view)
    assert fold(view, RunStateChanged("running", "", BEGIN)).reserved == {}


def test_models_that_do_not_answer_are_named_until_they_do() -> None:
    view = fold(EMPTY, FaultSeen("implement", "provider_down", "a: overloaded", None, BEGIN))
    assert "1 model down" in screen_text(view)
    view = fold(view, FaultSeen("implement", "all_providers_down", "the run pauses (b: overloaded)", None, BEGIN))
    assert "no model answers" in screen_text(view)
    assert "paused: no model answers" in screen_text(replace(view, state="running"))
    view = fold(view, FaultSeen("implement", "provider_back", "b answers again", None, BEGIN))
    assert "1 model down" in screen_text(view)
    view = fold(view, FaultSeen("implement", "provider_back", "a answers again", None, BEGIN))
    assert "model down" not in screen_text(view)


def test_calls_that_fail_in_a_row_are_shown_before_the_model_is_given_up() -> None:
    failed = ImplementerCalled(1, "m", "refused_connection", 0, 0, 0.0, 1.0, BEGIN)
    view = fold_all(EMPTY, [RUNNING, *[failed] * 3])
    assert "failed" not in screen_text(view)
    view = fold(view, failed)
    assert "running, last 4 calls failed" in screen_text(view)
    assert "running, 1 model down" in screen_text(replace(view, models_down=1))
    for answer in (replace(failed, outcome="ok"), replace(failed, outcome="refusal", completion_tokens=9)):
        assert "failed" not in screen_text(fold(view, answer))


def screen_text(view: RunView) -> str:
    """What the title and the section of the search say."""
    return "\n".join(line.plain for line in (title(view, BEGIN + 1, 120), *search(view, BEGIN + 1, 120).lines))


def test_candidates_a_minute_are_those_of_the_last_two_minutes() -> None:
    view = fold(EMPTY, RUNNING)
    assert view.per_minute(BEGIN + 10) is None
    view = fold_all(view, [scored(lease, 1.0, BEGIN + lease) for lease in range(1, 31)])
    assert view.per_minute(BEGIN + 30) == pytest.approx(60.0)
    assert view.per_minute(BEGIN + 60) == pytest.approx(30.0)
    assert view.per_minute(BEGIN + 135) == pytest.approx(8.0)
    assert view.per_minute(BEGIN + 1000) == 0.0


def test_the_rate_is_right_when_more_candidates_come_than_times_are_kept() -> None:
    facts = [scored(lease, None, BEGIN + lease / 10) for lease in range(1, 3 * TIMES_KEPT)]
    view = fold_all(fold(EMPTY, RUNNING), facts)
    assert len(view.times) == TIMES_KEPT
    assert view.per_minute(facts[-1].at) == pytest.approx(600.0, rel=0.01)


def test_after_the_end_time_stands_still_and_the_rate_is_that_of_the_whole() -> None:
    facts = [RUNNING, *(scored(lease, 1.0, BEGIN + lease) for lease in range(1, 11))]
    view = fold_all(EMPTY, [*facts, RunStateChanged("done", "candidates", BEGIN + 60)])
    assert view.elapsed(BEGIN + 5000) == 60.0
    assert view.per_minute(BEGIN + 5000) == 10.0
    assert (view.state, view.reason) == ("done", "stop rule candidates met")


def test_a_process_that_goes_on_starts_its_clock_again_and_keeps_the_counts() -> None:
    view = fold_all(EMPTY, [RUNNING, scored(1, 1.0, BEGIN + 1), StageChanged(1, 2, "advise")])
    view = fold(view, RunStateChanged("running", "", BEGIN + 500))
    assert (view.elapsed(BEGIN + 503), view.candidates, view.finished_here) == (3.0, 1, 0)
    assert view.by_stage()["waiting"] == HEADER.threads


@given(scores=st.lists(st.none() | st.floats(-5, 5), max_size=60), points=st.integers(1, 50))
def test_the_curve_is_the_running_best(scores: list[float | None], points: int) -> None:
    view = fold_all(EMPTY, [scored(lease, score, BEGIN + lease) for lease, score in enumerate(scores, start=1)])
    curve = view.best_so_far(points)
    known = [score for score in scores if score is not None]
    assert list(curve) == sorted(curve)
    if known:
        assert curve[-1] == max(known)
        assert len(curve) == min(points, len(scores))
    else:
        assert curve == ()


def test_a_view_stays_small_however_long_the_run() -> None:
    facts = (scored(lease, float(lease), BEGIN + lease) for lease in range(1, 3 * IMPROVEMENTS_KEPT))
    view = fold_all(EMPTY, facts)
    assert len(view.improvements) <= IMPROVEMENTS_KEPT
    assert view.improvements[0] == (1, 1.0)
    assert view.improvements[-1] == (3 * IMPROVEMENTS_KEPT - 1, 3.0 * IMPROVEMENTS_KEPT - 1)
    assert len(view.notes) == NOTES_KEPT and len(view.times) == TIMES_KEPT


def test_folding_leaves_the_view_that_was_as_it_was() -> None:
    before = fold_all(EMPTY, life(1))
    kept = repr(before)
    fold_all(before, life(2))
    assert repr(before) == kept


def test_only_existing_fields_of_a_view_can_be_changed() -> None:
    view = RunView(HEADER)
    assert changed(view, faults=3) == replace(view, faults=3) != view
    with pytest.raises(TypeError, match="fault"):
        changed(view, fault=3)


def test_only_the_last_event_has_the_latest_note() -> None:
    view = fold(EMPTY, seed_program())
    assert view.latest is not None
    assert fold(view, StageChanged(1, None, "advise")).latest is None


def test_an_unparsed_answer_has_no_experiment() -> None:
    advice: Advised = advised(1, experiment=None)
    view = fold_all(EMPTY, [opened(1), advice, replace(scored(1, None, BEGIN), outcome="unparsed")])
    assert view.outcomes == {"unparsed": 1}
    assert view.latest is not None and view.latest.text == "candidate 1 (island 1) could not be parsed"


def test_the_stop_rule_that_is_furthest_along_comes_first() -> None:
    stop = StopConfig(candidates=100, updates=4, minutes=10, budget=2.0, target=3.0)
    view = fold_all(replace(EMPTY, stop=stop), [RUNNING, replace(seed_program(1.0), at=BEGIN)])
    view = fold_all(view, [*rollout(1, score=2.0), *rollout(2, 2), shipped(1, (1, 2)), trained(1, (1, 2))])
    view = replace(view, spend_usd=0.2)
    found = {rule.rule: rule for rule in progress(view, BEGIN + 60)}
    assert [rule.share for rule in progress(view, BEGIN + 60)] == [0.75, 0.25, 0.1, 0.1, 0.02]
    assert found["target"].share == 0.75
    assert found["updates"].words == "1 of 4 updates"
    assert found["minutes"].seconds_left == 540.0
    assert found["budget"].words == "$0.20 of $2.00"


def test_a_run_without_stop_rules_has_no_progress() -> None:
    assert progress(replace(EMPTY, stop=StopConfig(candidates=None)), BEGIN) == ()


@pytest.mark.parametrize(("direction", "target", "share"), [("maximize", 0.5, 1.0), ("minimize", 0.5, 0.25)])
def test_progress_to_a_target_has_a_direction(direction: str, target: float, share: float) -> None:
    view = RunView(replace(HEADER, direction=direction), StopConfig(candidates=None, target=target))
    worse_or_better = 0.8125 if direction == "minimize" else 0.95
    view = fold_all(view, [seed_program(0.9167), scored(1, worse_or_better, BEGIN)])
    assert progress(view, BEGIN)[0].share == pytest.approx(share, abs=1e-3)


def test_the_front_of_a_run_with_objectives_is_counted_beside_the_best() -> None:
    aims = text_of((Aim("quality", True, 0.0, 1.0), Aim("seconds", False, 0.0, 1.0)))

    def tried(candidate: int, quality: float, seconds: float) -> Fact:
        return replace(evaluated(candidate), metrics={"quality": quality, "seconds": seconds})

    view = RunView(replace(HEADER, aims=aims))
    seen = fold_all(view, [RUNNING, tried(1, 0.2, 0.1), tried(2, 0.9, 0.8), tried(3, 0.1, 0.2), tried(4, 0.2, 0.1)])
    assert [one.candidate for one in seen.front] == [1, 2]
    assert best(seen, BEGIN + 9, 120, 8).aside[-1] == "front of 2"
    assert "2 programs, hypervolume 0.3200" in "\n".join(closing_words(seen, Path("run"), BEGIN + 9))
    assert resumed_view(seen, seen.header, seen.stop).front == seen.front
    assert fold_all(EMPTY, [RUNNING, evaluated(1)]).front == ()
