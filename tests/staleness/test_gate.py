"""The staleness gate under any order of events: hard bound, no deadlock, nothing thrown away."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.staleness.gate import Lease, choose_group, deadline_of, is_feasible, may_admit
from pace_async.staleness.policies import CompleteRollout, choose
from tests.support.gate_model import (
    FAIR,
    Model,
    against_the_published,
    cumulative_admission,
    oldest_survives,
    verdict,
)

shapes = st.fixed_dictionaries(
    {
        "size": st.integers(1, 5),
        "threads": st.integers(1, 12),
        "bound": st.sampled_from([0, 1, 2, 3, 10**6]),
        "replicas": st.integers(1, 3),
    }
)


def model_of(shape: dict[str, int], policy: str = "pace") -> Model:
    return Model(shape["size"], shape["threads"], shape["bound"], policy, shape["replicas"])


@given(shape=shapes, seed=st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_any_order_of_events_keeps_the_bound_and_conserves_leases_and_never_deadlocks(
    shape: dict[str, int], seed: int
) -> None:
    """Completion, failure, skipped and discarded steps, a shipped group that returns, failed and delayed pushes,
    lagging replicas, another number of threads, crash and resume: 120,000 events."""
    model, draw = model_of(shape), Random(seed)
    for _ in range(600):
        moves = model.moves()
        assert not model.stuck(moves), "deadlock: nothing may happen"
        model.play(draw.choice(moves), draw)
        model.check()
        if not model.training:
            waiting = [*model.running.values(), *model.complete.values()]
            assert is_feasible(waiting, model.learner, model.size)


@pytest.mark.long
@pytest.mark.parametrize("policy", ["soft", "drop"])
@given(shape=shapes, seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_other_policies_conserve_leases_and_never_deadlock(policy: str, shape: dict[str, int], seed: int) -> None:
    model, draw = model_of(shape, policy), Random(seed)
    for _ in range(600):
        moves = model.moves()
        assert not model.stuck(moves), "deadlock: nothing may happen"
        model.play(draw.choice(moves), draw)
        model.check()


@pytest.mark.fault("Replay and learner", "search stalled")
@pytest.mark.parametrize("policy", ["pace", "soft", "drop"])
@given(shape=shapes, seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_from_any_state_the_learner_goes_on_once_every_stage_ends(
    policy: str, shape: dict[str, int], seed: int
) -> None:
    """A stop rule of any number of updates is reached: the fair scheduler plays what happens by itself."""
    model, draw = model_of(shape, policy), Random(seed)
    for _ in range(200):
        model.play(draw.choice(model.moves()), draw)
    goal = model.learner + 3
    for _ in range(600 * (model.size + model.threads)):
        if model.learner >= goal:
            break
        moves = [move for move in model.moves() if move in FAIR]
        assert moves, "deadlock: nothing may happen"
        model.play(draw.choice(moves), draw)
        model.check()
    assert model.learner >= goal


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("simpler", "bound", "fails"),
    [
        (lambda: {"admission": cumulative_admission}, 2, "deadlock"),
        (lambda: {"shipment": oldest_survives}, 2, "deadlock"),
        (lambda: {"retries": False}, 0, "deadlock"),
        (lambda: {"retries": False}, 1, "deadlock"),
        (lambda: {"shipment": against_the_published}, 2, "stale"),
    ],
    ids=["cumulative counters", "the oldest survives", "no retry, bound 0", "no retry, bound 1", "published version"],
)
def test_a_simpler_rule_fails_where_the_gate_holds(
    simpler: Callable[[], dict[str, object]], bound: int, fails: str, seed: int
) -> None:
    assert verdict(Model(size=4, threads=12, bound=bound, **simpler()), seed) == fails  # type: ignore[arg-type]
    assert verdict(Model(size=4, threads=12, bound=bound), seed) == "sound"


def test_cumulative_counters_deadlock_as_soon_as_enough_steps_were_discarded() -> None:
    model = Model(size=2, threads=2, bound=0, admission=cumulative_admission)
    draw = Random(0)
    for move in ("admit", "admit", "advise", "advise", "complete", "complete", "ship", "skip"):
        model.play(move, draw)
    assert model.stuck(model.moves())
    model.admission = None
    assert "admit" in model.moves()


def test_soft_trains_a_straggler_however_old_and_drop_discards_it() -> None:
    straggler, fresh = CompleteRollout(Lease(2, 1), oldest=0), CompleteRollout(Lease(7, 9), oldest=5)
    newest = CompleteRollout(Lease(7, 8), oldest=5)
    assert choose("soft", [straggler, fresh], [], learner=5, bound=2, size=2).group == (1, 9)
    choice = choose("drop", [straggler, fresh, newest], [], learner=5, bound=2, size=2)
    assert choice.expired == (1,)
    assert choice.group == (8, 9)


def test_soft_and_drop_ship_in_the_order_of_completion() -> None:
    finished = [CompleteRollout(Lease(6, number), oldest=4) for number in (9, 3, 7, 1)]
    for policy in ("soft", "drop"):
        assert choose(policy, finished, [], learner=4, bound=2, size=3).group == (3, 7, 9)
    assert choose("pace", finished, [], learner=4, bound=2, size=3).group == (1, 3, 7)


def test_earliest_deadlines_ship_first_and_ties_go_by_lease_id() -> None:
    complete = [Lease(5, 9), Lease(3, 7), Lease(5, 2), Lease(4, 8)]
    group = choose_group(complete, complete, learner=3, size=2)
    assert group is not None
    assert [lease.lease for lease in group] == [7, 8]


def test_a_group_waits_while_an_unfinished_lease_must_train_now() -> None:
    slow = Lease(3, 1)
    complete = [Lease(4, 2), Lease(4, 3)]
    assert choose_group(complete, [slow, *complete], learner=3, size=2) is None
    assert choose_group([slow, *complete], [slow, *complete], learner=3, size=2) == [slow, Lease(4, 2)]


def test_shipping_against_the_served_version_would_leak_staleness() -> None:
    """The simpler rule that looks at the published version lets a rollout train one update too late."""
    late = Lease(deadline_of(0, 2), 1)
    complete = [Lease(4, 2), Lease(4, 3)]
    learner, served = 2, 1
    assert choose_group(complete, [late, *complete], served, 2) is not None
    assert choose_group(complete, [late, *complete], learner, 2) is None


@pytest.mark.parametrize("bound", [0, 1, 2])
def test_admission_closes_while_a_push_is_outstanding(bound: int) -> None:
    size = 4
    assert may_admit((bound + 1) * size - 1, 0, bound=bound, size=size)
    assert not may_admit((bound + 1) * size, 0, bound=bound, size=size)
    assert not may_admit(bound * size, 1, bound=bound, size=size)
