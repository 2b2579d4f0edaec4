"""Evaluations on a real Ray cluster of two nodes: what is lost is evaluated again, and what must not evaluate does
not."""

import importlib
import ipaddress
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.base import EvaluationRequest, Limits, Needs, evaluate
from pace_async.evaluate.on_ray.cluster import connected
from pace_async.evaluate.on_ray.evaluator import open_ray_evaluator
from pace_async.evaluate.on_ray.fleet import Fleet
from pace_async.evaluate.on_ray.head import own_head
from pace_async.evaluate.on_ray.look import look, refuse_unless_there
from pace_async.evaluate.on_ray.placed import SlotDemand
from pace_async.evaluate.on_ray.wire import Order, files_by_value
from pace_async.evaluate.sandbox import leftovers
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.task import PRACTICE
from tests.doubles.evaluators import request
from tests.support.evaluate_tasks import EVALUATOR, make_task
from tests.support.ray_held import DEADLINE_S, PROGRAM, opened, outcomes, process_ended
from tests.support.ray_nodes import NEEDS_RAY, RayNodes

pytestmark = NEEDS_RAY
PACKAGE = Path(sys.modules["pace_async"].__file__ or "").parent
LOST_ONCE = [(1, "infrastructure_error", False), (2, "ok", True)]


@pytest.mark.long
async def test_two_nodes_evaluate_at_once(cluster: RayNodes, tmp_path: Path) -> None:
    async with opened(cluster, tmp_path) as on_ray:
        asked = [request(PROGRAM), request(PROGRAM)]
        for one in asked:
            await on_ray.evaluator.submit(one)
        places = {(await on_ray.begun()).node.id for _ in asked}
        assert len(places) == 2
        on_ray.let_go()
        for one in asked:
            await on_ray.evaluator.cancel(one.id)
        with anyio.fail_after(DEADLINE_S):
            assert (await evaluate(on_ray.evaluator, request(PROGRAM))).score == 7
        assert not on_ray.evaluator.pending()


@pytest.mark.fault("Machines", "a node's evaluator killed", only="killed")
@pytest.mark.fault("Machines", "a node's evaluator that stops for good is ended", only="stopped")
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="killed", marks=pytest.mark.long),
        pytest.param(signal.SIGSTOP, id="stopped", marks=(pytest.mark.long, pytest.mark.nightly)),
    ],
)
async def test_what_an_actor_had_is_evaluated_again_as_the_next_attempt(
    how: signal.Signals, cluster: RayNodes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By a successor on the same node, because there is one slot. A stopped process does not die: it is ended when it
    has not answered."""
    silent = EvaluationConfig(warm=False, retries=1, ray_silence_s=4.0 if how == signal.SIGSTOP else 60.0)
    async with opened(cluster, tmp_path, slots=1, evaluation=silent) as on_ray:
        asked = request(PROGRAM)
        await on_ray.evaluator.submit(asked)
        placed = await on_ray.begun()
        on_ray.let_go()
        os.kill(placed.ready.pid, how)
        found, attempts = await outcomes(on_ray, asked)
        assert (found.score, attempts) == (7, LOST_ONCE)
        assert placed.node.name in found.attempts[0].detail
        silence = ["actor_silent"] if how == signal.SIGSTOP else []
        assert [kind for kind, _ in on_ray.said] == [*silence, "actor_lost"]
        (successor,) = on_ray.evaluator.fleet.living
        assert successor.node.id == placed.node.id
        assert successor.ready.pid != placed.ready.pid
    assert not capfd.readouterr().out


@pytest.mark.long
@pytest.mark.fault("Machines", "the runtime interrupted with evaluations under way, and resumed")
async def test_what_an_interrupted_process_left_is_taken_over_and_begun_once(cluster: RayNodes, tmp_path: Path) -> None:
    asked, other = request(PROGRAM), request(PROGRAM)
    async with opened(cluster, tmp_path, outlives=True) as first:
        for one in (asked, other):
            await first.evaluator.submit(one)
        places = {(await first.begun()).ready.pid for _ in (asked, other)}
        for one in (asked, other):
            await first.evaluator.leave(one.id)
    assert [kind for kind, _ in first.said] == ["left_running"]
    assert "2 evaluations go on for at most 60 minutes on" in first.said[0][1]
    first.let_go()
    async with opened(cluster, tmp_path, outlives=True) as second:
        assert {placed.ready.pid for placed in second.evaluator.fleet.living} == places
        assert second.evaluator.machines().busy == 2
        for one in (asked, other):
            await second.evaluator.submit(one)
            second.let_held_go()
        for one in (asked, other):
            found, attempts = await outcomes(second, one)
            assert (found.score, attempts) == (7, [(1, "ok", True)])
            assert found.attempts[0].node in {placed.node.name for placed in second.evaluator.fleet.living}
        assert second.begins() == 2
    for pid in places:  # the run was done
        await process_ended(pid)


@pytest.mark.long
async def test_more_losses_than_retries_are_no_score(cluster: RayNodes, tmp_path: Path) -> None:
    async with opened(cluster, tmp_path) as on_ray:
        asked = request(PROGRAM)
        await on_ray.evaluator.submit(asked)
        for _ in range(2):
            os.kill((await on_ray.begun()).ready.pid, signal.SIGKILL)
        found, attempts = await outcomes(on_ray, asked)
        assert (found.outcome, found.score) == ("infrastructure_error", None)
        assert attempts == [(1, "infrastructure_error", False), (2, "infrastructure_error", False)]


@pytest.mark.fault("Machines", "a node killed")
@pytest.mark.long
async def test_a_node_that_dies_loses_its_attempt_and_is_used_no_more(cluster: RayNodes, tmp_path: Path) -> None:
    third = await anyio.to_thread.run_sync(cluster.add, 2)
    async with opened(cluster, tmp_path, slots=3) as on_ray:
        places: dict[str, EvaluationRequest] = {}
        for asked in [request(PROGRAM) for _ in range(3)]:
            await on_ray.evaluator.submit(asked)
            places[(await on_ray.begun()).node.id] = asked
        on_ray.let_go()
        await anyio.to_thread.run_sync(cluster.kill, third)
        for node, asked in places.items():
            if node != third:
                await on_ray.evaluator.cancel(asked.id)
        found, attempts = await outcomes(on_ray, places[third])
        assert (found.score, attempts) == (7, LOST_ONCE)
        assert {placed.node.id for placed in on_ray.evaluator.fleet.living} == set(places) - {third}


@pytest.mark.fault("Machines", "a node with another pace-async")
@pytest.mark.long
async def test_a_node_with_another_pace_is_refused_by_name(cluster: RayNodes, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "pace_async", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "pace_async" / "errors.py").open("a") as changed:
        changed.write("# another checkout\n")
    other = await anyio.to_thread.run_sync(lambda: cluster.add(2, PYTHONPATH=str(tmp_path)))
    try:
        async with opened(cluster, tmp_path / "run", slots=6) as on_ray:
            assert other not in {placed.node.id for placed in on_ray.evaluator.fleet.living}
            assert len(on_ray.evaluator.fleet.living) == 2
            ((kind, detail),) = on_ray.said
            assert kind == "node_refused"
            assert other[:6] in detail and "it has pace-async" in detail
    finally:
        await anyio.to_thread.run_sync(cluster.kill, other)


@pytest.mark.long
@pytest.mark.fault("Machines", "a node with other files of the task")
async def test_other_files_than_those_of_the_digest_and_a_cluster_without_room_are_refused(
    cluster: RayNodes, tmp_path: Path
) -> None:
    task = make_task(tmp_path / "task")
    order = Order.of(task, EvaluationConfig(), None, {})
    other = replace(order, digest="0" * 32)
    async with connected(cluster.address, DEADLINE_S, {}) as connection:
        files = await connection.put(files_by_value(task))
        wanted = SlotDemand("test", 2, Needs(), DEADLINE_S, DEADLINE_S)
        with pytest.raises(UsageError, match=r"Ray cluster can evaluate: node .* not those of its digest"):
            async with Fleet(connection, other, files, wanted):
                pass
        large = replace(wanted, needs=Needs(cpus=64.0))
        with pytest.raises(UsageError, match=r"has no room: an evaluation reserves 64 CPU, and its \d nodes have less"):
            async with Fleet(connection, order, files, large):
                pass


@pytest.mark.fault("Machines", "a node without a free slot")
@pytest.mark.long
async def test_what_one_run_has_reserved_is_no_room_for_another(cluster: RayNodes, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    order = Order.of(task, EvaluationConfig(warm=False), None, {})
    async with connected(cluster.address, DEADLINE_S, {}) as connection:
        files = await connection.put(files_by_value(task))
        room = sum(int(node.free["CPU"]) for node in await connection.nodes())
        first = SlotDemand("first", room, Needs(), DEADLINE_S, DEADLINE_S)
        second = SlotDemand("second", room, Needs(), 5.0, DEADLINE_S)
        async with Fleet(connection, order, files, first) as fleet:
            assert len(fleet.living) == 2
            with pytest.raises(UsageError, match=r"has no room|did not start \(not within"):  # Ray's figures lag
                async with Fleet(connection, order, files, second):
                    pass


@pytest.mark.long
async def test_a_mistake_of_the_user_that_a_node_finds_is_reported_as_on_this_machine(
    cluster: RayNodes, tmp_path: Path
) -> None:
    async with opened(cluster, tmp_path, slots=1) as on_ray:
        asked = replace(request(PROGRAM), needs=Needs(gpus=1.0))
        with anyio.fail_after(DEADLINE_S), pytest.raises(UsageError, match=r"^An evaluation gets 0 GPUs here, and one"):
            await evaluate(on_ray.evaluator, asked)


@pytest.mark.long
async def test_no_variable_command_line_or_folder_of_this_process_reaches_a_node(
    cluster: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes know what Ray reports about its jobs, and what stands in the processes of their actors."""
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of the tests")
    monkeypatch.setattr(sys, "argv", ["pace", "run", "--db", "postgresql://user:word@host/name"])
    monkeypatch.chdir(tmp_path)
    async with opened(cluster, tmp_path / "run", slots=1) as on_ray:
        raylet: Any = importlib.import_module("ray._raylet")
        jobs = str(await anyio.to_thread.run_sync(raylet.GcsClient(address=cluster.address).get_all_job_info))
        assert "pace_async.evaluate.on_ray.driver" in jobs
        (placed,) = on_ray.evaluator.fleet.living
        process = anyio.Path(f"/proc/{placed.ready.pid}")
        seen = f"{await (process / 'environ').read_bytes()} {await (process / 'cmdline').read_bytes()} {jobs}"
        assert await (process / "cwd").readlink() != anyio.Path(tmp_path)
    for hidden in ("a secret of the tests", "postgresql", "pytest -n", str(tmp_path)):
        assert hidden not in seen


@pytest.mark.long
async def test_a_task_that_no_node_has_room_for_is_refused_before_a_run_begins(
    cluster: RayNodes, tmp_path: Path
) -> None:
    spec = make_task(tmp_path / "task").spec
    own = EvaluationConfig(evaluators="ray", ray_address=cluster.address, ray_timeout_s=DEADLINE_S)
    await refuse_unless_there(own, spec)
    with pytest.raises(UsageError, match=r"has no room: an evaluation reserves 64 CPU, and its 2 nodes have less"):
        await refuse_unless_there(own, spec.model_copy(update={"cpus": 64}))
    await refuse_unless_there(own, None)  # a run that goes on may have reserved the room


@pytest.mark.long
@pytest.mark.nightly
async def test_a_wrong_token_is_one_sentence_within_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async with own_head(1, DEADLINE_S, {}) as head:
        for name, value in {"RAY_ADDRESS": head.address, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "b" * 64}.items():
            monkeypatch.setenv(name, value)
        with anyio.fail_after(DEADLINE_S), pytest.raises(UsageError, match=r"did not answer within 4 s: .* the token"):
            await look(EvaluationConfig(evaluators="ray", ray_timeout_s=4.0))


@pytest.mark.long
@pytest.mark.nightly
async def test_an_own_head_gets_no_secret_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of the tests")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    task = make_task(tmp_path / "task")
    async with open_ray_evaluator(task, EvaluationConfig(warm=False), tier=await pick_tier(False)) as evaluator:
        with anyio.fail_after(DEADLINE_S):
            asked = replace(request(task.program), limits=Limits.of(task.spec))
            assert (await evaluate(evaluator, asked)).score == 6
        (placed,) = evaluator.fleet.living
        environment = await anyio.Path(f"/proc/{placed.ready.pid}/environ").read_bytes()
        assert b"RAY_AUTH_TOKEN_PATH" in environment
        assert b"a secret of the tests" not in environment
        assert "OPENAI_API_KEY" in os.environ and "RAY_AUTH_TOKEN_PATH" not in os.environ
    assert not await anyio.Path(f"/proc/{placed.ready.pid}").exists()
    assert not [path async for path in anyio.Path("/tmp").glob(f"{leftovers.prefix()}*")]


PRACTISES = f"{EVALUATOR}\ndef practice(seed):\n    return [{{'x': -1}}]\n"


@pytest.mark.long
async def test_programs_practise_on_a_node_as_on_this_machine_and_a_node_refuses_shared_instances(
    cluster: RayNodes, tmp_path: Path
) -> None:
    own = EvaluationConfig(evaluators="ray", ray_address=cluster.address, practice="output", ray_timeout_s=DEADLINE_S)
    says, tier = "def f(instance):\n    print('got', instance['x'])\n    return 7\n", await pick_tier(False)
    with anyio.fail_after(DEADLINE_S):
        async with open_ray_evaluator(make_task(tmp_path / "task", PRACTISES), own, tier=tier) as evaluator:
            practised = await evaluate(evaluator, request(says, stage=PRACTICE))
            real = await evaluate(evaluator, request(says))
        assert (practised.score, practised.feedback) == (7.0, "[standard output]\ngot -1")
        assert (real.score, real.feedback, practised.attempts[0].node is not None) == (21.0, "", True)
        with pytest.raises(UsageError, match="practice instance 1 is a scored one too"):
            shared = make_task(tmp_path / "shared", PRACTISES.replace("-1", "1"))
            async with open_ray_evaluator(shared, own, tier=tier):
                pass


REACHES = """
import socket
def f(instance):
    reached = 0
    for port in PORTS:
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                with socket.socket(family, socket.SOCK_STREAM) as way:
                    way.settimeout(1)
                    way.connect((host, port))
                    reached += 1
            except OSError:
                pass
    return reached
"""


def _is_loopback(host: str) -> bool:
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _listening(process: psutil.Process) -> list[tuple[str, str, int]]:
    """(name, host, port) of what a process listens on, nothing if it has ended."""
    try:
        name, found = process.name(), process.net_connections("inet")
    except psutil.NoSuchProcess:
        return []
    return [(name, one.laddr.ip, one.laddr.port) for one in found if one.status == psutil.CONN_LISTEN]


@pytest.mark.long
@pytest.mark.fault("Programs as weapons", "a cluster of the run's own, reached from outside and from its programs")
async def test_an_own_head_listens_on_loopback_only_and_no_program_reaches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    task = make_task(tmp_path / "task")
    earlier = set(psutil.Process().children(recursive=True))  # such as a cluster that other tests share
    async with open_ray_evaluator(task, EvaluationConfig(warm=False), tier=await pick_tier(False)) as evaluator:
        limits = Limits.of(task.spec)
        with anyio.fail_after(DEADLINE_S):
            assert (await evaluate(evaluator, replace(request(task.program), limits=limits))).score == 6
        own = set(psutil.Process().children(recursive=True)) - earlier
        listening = [found for process in own for found in _listening(process)]
        assert {"gcs_server", "raylet"} <= {name for name, _, _ in listening}
        assert [one for one in listening if not _is_loopback(one[1])] == []
        program = REACHES.replace("PORTS", str(sorted({port for _, _, port in listening})))
        with anyio.fail_after(DEADLINE_S):
            assert (await evaluate(evaluator, replace(request(program), limits=limits))).score == 0
