"""What is refused in one sentence before a run on Ray begins. Needs no cluster."""

import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.base import Needs
from pace_async.evaluate.on_ray.attaching import HeldEvaluations
from pace_async.evaluate.on_ray.cluster import connected
from pace_async.evaluate.on_ray.look import look, refuse_unless_there
from pace_async.evaluate.on_ray.placed import PlacedActor, reserved_by_actor, reserved_by_slot, shares
from pace_async.evaluate.on_ray.wire import Known, Order, Sandbox, files_by_value, fingerprint
from tests.doubles.evaluators import request
from tests.support.command_line import Shell
from tests.support.evaluate_tasks import make_task
from tests.support.ray_nodes import NEEDS_RAY


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return Shell(tmp_path, monkeypatch, capsys)


def nowhere() -> str:
    """An address at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


async def test_without_ray_one_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    own, missing = EvaluationConfig(evaluators="ray"), r"not installed here: pip install .*\[ray\]'\.$"
    with pytest.raises(UsageError, match=missing):
        await look(own)
    with pytest.raises(UsageError, match=missing):
        await refuse_unless_there(own, None)


@pytest.mark.long
@NEEDS_RAY
def test_an_address_where_nothing_is_is_refused_before_anything_is_written(shell: Shell) -> None:
    address = nowhere()
    said = shell.pace("run", "--evaluators", "ray", "--set", f"evaluation.ray_address={address}", "--display", "none")
    assert said.code == 2
    assert said.err.splitlines()[-1].startswith(f"pace: No Ray cluster answers at {address}: ")
    assert not shell.files()


@NEEDS_RAY
def test_the_doctor_says_that_nothing_is_there(shell: Shell) -> None:
    said = shell.pace("doctor", "--evaluators", "ray", "--set", f"evaluation.ray_address={nowhere()}")
    assert said.code == 1
    assert "No Ray cluster answers at" in said.out


@NEEDS_RAY
@pytest.mark.parametrize("address", ["somewhere", "ray://10.0.0.1:10001/x", "10.0.0.1"])
async def test_a_text_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is not an address of a Ray cluster: give HOST:PORT"):
        async with connected(address, 5.0, {}):
            pass


@NEEDS_RAY
async def test_a_cluster_of_other_machines_needs_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"^There is no token for the Ray cluster at 10\.0\.0\.1:6379, and "):
        async with connected("10.0.0.1:6379", 60.0, {}):
            pass


@NEEDS_RAY
async def test_a_memo_of_this_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"evaluation\.memo is a file of this machine"):
        await refuse_unless_there(EvaluationConfig(evaluators="ray", memo=tmp_path / "memo.db"), None)


async def test_a_task_that_changed_after_it_was_loaded_does_not_travel(tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    assert {file.name for file in files_by_value(task)} == {"task.yaml", "evaluator.py", "initial.py"}
    (tmp_path / "task" / "more.py").write_text("another = 1\n")
    with pytest.raises(UsageError, match="has changed"):
        files_by_value(task)


@pytest.mark.parametrize(
    ("own", "other", "says"),
    [
        (Sandbox("bubblewrap", ()), Sandbox("bubblewrap", ()), ""),
        (Sandbox("bubblewrap", ()), Sandbox("rlimits", ("files",)), ""),
        (Sandbox("rlimits", ()), Sandbox("bubblewrap", ()), "its sandbox is rlimits, and this run's is bubblewrap"),
        (Sandbox("rlimits", ("network",)), Sandbox("rlimits", ()), "does not stop network"),
    ],
)
async def test_a_weaker_sandbox_is_distinguished_from_an_equal_or_stronger_one(
    own: Sandbox, other: Sandbox, says: str
) -> None:
    weaker = own.weaker_than(other)
    assert says in weaker
    assert bool(weaker) is bool(says)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ray_keeps_s": 600.0}, "must each be at most the next"),
        ({"ray_silence_s": 7200.0}, "must each be at most the next"),
        ({"ray_resources": {"memory": 0.0}}, "amounts are above 0"),
        ({"ray_resources": {"CPU": 2.0}}, "the task's cpus and gpus say"),
    ],
)
async def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        EvaluationConfig(**given)


async def test_an_actor_of_an_earlier_process_is_used_only_for_the_same_work(tmp_path: Path) -> None:
    own = EvaluationConfig(slots=2)
    task = make_task(tmp_path / "task")
    order = Order.of(task, own, None, {})
    for may_differ in ({"slots": 9, "retries": 0}, {"ray_address": "127.0.0.1:1", "ray_keeps_s": 9000.0}):
        assert order.same_work(Order.of(task, own.model_copy(update=may_differ), None, {"0": "the engine"}))
    for differs in ({"unsafe_no_sandbox": True}, {"settings": {"n": 2}}):
        assert not order.same_work(Order.of(task, own.model_copy(update=differs), None, {}))
    assert not order.same_work(replace(order, digest="0" * 32))


async def test_what_an_actor_has_is_taken_over_once_and_only_if_the_same_is_asked() -> None:
    asked = request("a program", lease=1, attempt=2)
    placed = PlacedActor(None, None, None, 1, alive=True)  # pyright: ignore[reportArgumentType]
    held = HeldEvaluations()
    later = replace(asked.id, attempt=3)
    held.add(placed, [Known(one, fingerprint(asked), ended=False) for one in (asked.id, later)])
    assert held.take(request("another program", lease=1, attempt=2)) is None
    assert held.take(replace(asked, id=replace(asked.id, attempt=4))) is None
    assert held.take(replace(asked, id=replace(asked.id, run="other"))) is None
    taken = held.take(asked)
    assert taken is not None and taken.identity == later
    placed.alive = False
    assert held.take(asked) is None


NODES = st.dictionaries(
    st.text(max_size=3),
    st.fixed_dictionaries({"CPU": st.floats(0, 64), "GPU": st.floats(0, 8)}),
    max_size=6,
)


@given(NODES, st.integers(1, 40), st.sampled_from([1.0, 2.0, 8.0]), st.sampled_from([0.0, 0.4, 0.5, 1.0, 2.0]))
async def test_no_node_gets_more_slots_than_it_has_room_for_and_no_room_is_left_idle(
    free: dict[str, dict[str, float]], most: int, cpus: float, gpus: float
) -> None:
    each = reserved_by_slot(Needs(cpus, gpus), {})
    dealt = shares(free, most, each)
    assert sum(dealt.values()) <= most
    assert all(slots > 0 for slots in dealt.values())
    for node, slots in dealt.items():
        reserved = reserved_by_actor(slots, each)
        assert all(amount <= free[node][name] + 1e-6 for name, amount in reserved.items())
    if sum(dealt.values()) < most:
        for node, resources in free.items():
            reserved = reserved_by_actor(dealt.get(node, 0) + 1, each)
            assert any(amount > resources[name] for name, amount in reserved.items())


@pytest.mark.parametrize(
    ("slots", "share", "cards"),
    [(1, 0.5, 0.5), (2, 0.5, 1.0), (3, 0.5, 2.0), (4, 0.5, 2.0), (2, 0.4, 0.8), (3, 0.4, 2.0), (5, 0.4, 3.0)],
)
async def test_slots_with_shares_of_several_cards_reserve_these_cards_whole(
    slots: int, share: float, cards: float
) -> None:
    """Ray refuses an actor with another number above 1. A card takes as many evaluations as have whole shares of it."""
    each = reserved_by_slot(Needs(gpus=share), {"licence": 1.0})
    assert reserved_by_actor(slots, each) == {"CPU": slots, "GPU": pytest.approx(cards), "licence": slots}
    assert sum(shares({"node": {"CPU": 9.0, "GPU": cards, "licence": 9.0}}, slots, each).values()) == slots
