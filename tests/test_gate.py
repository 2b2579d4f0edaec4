"""The staleness gate under any order of completion: hard bound, no deadlock, nothing thrown away."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.staleness.gate import Lease, choose_group, deadline_of, is_feasible, may_admit


@dataclass
class World:
    """A straight-line model of the runtime around the gate: threads that run rollouts, one learner, one publisher."""

    size: int
    threads: int
    bound: int
    learner: int = 0
    served: int = 0
    next_lease: int = 1
    running: dict[int, Lease] = field(default_factory=dict)
    complete: dict[int, Lease] = field(default_factory=dict)
    training: list[Lease] | None = None
    closed: dict[str, int] = field(default_factory=lambda: {"trained": 0, "skipped": 0, "aborted": 0})
    worst: int = 0
    oldest: dict[int, int] = field(default_factory=dict)

    @property
    def waiting(self) -> list[Lease]:
        return [*self.running.values(), *self.complete.values()]

    @property
    def open(self) -> int:
        return len(self.waiting) + len(self.training or [])

    def moves(self) -> list[str]:
        moves: list[str] = []
        if len(self.running) < self.threads and may_admit(
            self.open, self.learner, self.served, bound=self.bound, size=self.size
        ):
            moves.append("admit")
        if self.running:
            moves += ["complete", "complete", "abort"]
        if self.training is None and self.group() is not None:
            moves.append("ship")
        if self.training is not None:
            moves += ["train", "train", "skip"]
        if self.served < self.learner:
            moves.append("publish")
        return moves

    def group(self) -> list[Lease] | None:
        return choose_group(list(self.complete.values()), self.waiting, self.learner, self.size)

    def play(self, move: str, draw: random.Random) -> None:
        match move:
            case "admit":
                lease = Lease(deadline_of(self.served, self.bound), self.next_lease)
                self.running[lease.lease] = lease
                self.oldest[lease.lease] = self.served
                self.next_lease += 1
            case "complete":
                key = draw.choice(sorted(self.running))
                self.complete[key] = self.running.pop(key)
            case "abort":
                self.running.pop(draw.choice(sorted(self.running)))
                self.closed["aborted"] += 1
            case "ship":
                self.training = self.group()
                for lease in self.training or []:
                    del self.complete[lease.lease]
            case "train" | "skip":
                assert self.training is not None
                if move == "train":
                    self.worst = max([self.worst, *(self.learner - self.oldest[x.lease] for x in self.training)])
                    self.learner += 1
                self.closed["trained" if move == "train" else "skipped"] += len(self.training)
                self.training = None
            case "publish":
                self.served = self.learner
            case _:
                raise AssertionError(move)

    def check(self) -> None:
        assert self.worst <= self.bound
        assert self.next_lease - 1 == sum(self.closed.values()) + self.open
        if self.training is None:
            assert is_feasible(self.waiting, self.learner, self.size)


worlds = st.builds(
    World, size=st.integers(1, 5), threads=st.integers(1, 12), bound=st.sampled_from([0, 1, 2, 3, 10**6])
)


@given(world=worlds, seed=st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_any_order_keeps_the_bound_and_conserves_leases(world: World, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(150):
        moves = world.moves()
        assert moves, "deadlock: nothing may happen"
        world.play(draw.choice(moves), draw)
        world.check()


@given(world=worlds, seed=st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_the_run_goes_on_from_any_state_when_every_stage_ends(world: World, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        world.play(draw.choice(world.moves()), draw)
    goal = world.learner + 3
    for _ in range(40 * (world.size + world.threads)):
        if world.learner >= goal:
            break
        moves = [m for m in world.moves() if m not in ("abort", "skip")]
        assert moves, "deadlock: nothing may happen"
        world.play(draw.choice(moves), draw)
        world.check()
    assert world.learner >= goal


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
    assert may_admit((bound + 1) * size - 1, 3, 3, bound=bound, size=size)
    assert not may_admit((bound + 1) * size, 3, 3, bound=bound, size=size)
    assert not may_admit(bound * size, 4, 3, bound=bound, size=size)
