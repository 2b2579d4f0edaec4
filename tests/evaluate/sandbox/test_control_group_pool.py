"""Control groups made ahead: taken once each, with the limits asked for, and none left."""

import os
from collections.abc import Generator

import pytest

from pace_async.evaluate.sandbox import cgroup, wiring
from pace_async.evaluate.sandbox.wiring import AHEAD, ControlGroupPool, Joinable
from tests.support.control_groups import folders, settle
from tests.support.descriptors import no_descriptor_left

pytestmark = pytest.mark.skipif(cgroup.find() is None, reason="needs control groups that this user may make")


def limit_of(joinable: Joinable) -> int:
    hierarchy = cgroup.find()
    assert hierarchy is not None
    name = "memory.limit_in_bytes" if hierarchy.version == 1 else "memory.max"
    return int((joinable.group.memory / name).read_text())


def done_with(joinable: Joinable) -> None:
    for descriptor in joinable.members:
        os.close(descriptor)
    cgroup.discard(joinable.group)


@pytest.fixture
def ahead() -> Generator[ControlGroupPool]:
    """A pool after which nothing of its own is left: no group, no descriptor."""
    before = folders()
    with no_descriptor_left():
        made = ControlGroupPool()
        yield made
        made.close()
        settle()
    assert folders() <= before


def test_the_first_group_is_made_on_demand_and_the_next_are_ready(ahead: ControlGroupPool) -> None:
    assert ahead.take(64, 8) is None
    settle()
    taken = [ahead.take(64, 8) for _ in range(AHEAD)]
    groups = [joinable.group for joinable in taken if joinable is not None]
    assert len(groups) == AHEAD
    assert len(set(groups)) == AHEAD, "each is taken once"
    for joinable in taken:
        assert joinable is not None
        assert limit_of(joinable) == 64 << 20
        done_with(joinable)


def test_a_group_with_another_limit_is_not_handed_out(ahead: ControlGroupPool) -> None:
    ahead.take(64, 8)
    settle()
    assert ahead.take(128, 8) is None
    settle()
    other = ahead.take(128, 8)
    assert other is not None
    assert limit_of(other) == 128 << 20
    done_with(other)


def test_a_closed_pool_makes_no_more_groups(ahead: ControlGroupPool) -> None:
    ahead.take(64, 8)
    ahead.close()
    settle()
    assert ahead.take(64, 8) is None
    settle()
    assert ahead.take(64, 8) is None


def test_a_group_that_cannot_be_made_is_not_waited_for(
    ahead: ControlGroupPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def refuse(memory_mb: int, tasks: int) -> Joinable:
        asked.append(memory_mb)
        raise OSError("no space left on device")

    monkeypatch.setattr(wiring, "make_group", refuse)
    assert ahead.take(64, 8) is None
    settle()
    assert ahead.take(64, 8) is None
    settle()
    assert asked == [64, 64], "once for each that was asked for"
