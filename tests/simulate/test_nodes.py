"""Simulated nodes: they die and come back, what ran there is evaluated again, and no loss becomes a reward."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pace_async.cli.main import app
from pace_async.evaluate.base import Evaluation, EvaluationId, evaluate
from pace_async.population.memory import MemoryPopulation
from pace_async.population.reading.audit import audit
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.cluster import EvaluatorOnNodes
from pace_async.simulate.codecs import Handles
from pace_async.simulate.durations import Durations
from pace_async.simulate.nodes import End, Nodes, NodesShape, Run
from pace_async.simulate.predict import Scenario, config_of, measure
from pace_async.simulate.runs import FAULTLESS, TINY_TASK, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.virtual import VirtualClock, run_virtually
from tests.doubles.evaluators import request
from tests.support.command_line import Shell

HALF_HOUR = Durations(
    seed=0, evaluation_mean=1800, evaluation_cv=0.6, evaluation_cap=None, generation=90, learning=54, pause=5
)
FAILING = NodesShape(count=4, slots_each=4, mtbf_s=6 * 3600.0, preempt=0.05)
SCENARIO = Scenario(threads=16, group_size=8, bound=2, durations=HALF_HOUR, candidates=120, slots=16, nodes=FAILING)


def ran(nodes: Nodes, seconds: list[float]) -> list[tuple[float, Run]]:
    """Attempts that are all submitted at once: the time of each end, and the attempt."""
    found: list[tuple[float, Run]] = []

    async def one(lease: int) -> None:
        run = await nodes.run(EvaluationId("test", lease), seconds[lease - 1])
        found.append((anyio.current_time(), run))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for lease in range(1, len(seconds) + 1):
                tasks.start_soon(one, lease)

    run_virtually(main)
    return found


def test_without_failures_attempts_share_the_slots_in_the_order_of_their_arrival() -> None:
    found = ran(Nodes(NodesShape(2, 1), 0), [10.0, 30.0, 5.0, 1.0])
    assert [(at, run.node, run.end, run.queue_seconds) for at, run in found] == [
        (10.0, 0, "done", 0.0),
        (15.0, 0, "done", 10.0),
        (16.0, 0, "done", 15.0),
        (30.0, 1, "done", 0.0),
    ]


@given(
    seed=st.integers(0, 1000),
    mtbf=st.floats(1.0, 100.0),
    repair=st.floats(1.0, 100.0),
    preempt=st.floats(0.0, 0.9),
    seconds=st.lists(st.floats(0.0, 50.0), min_size=1, max_size=20),
)
def test_nothing_runs_where_a_node_is_away_and_no_slot_is_taken_twice(
    seed: int, mtbf: float, repair: float, preempt: float, seconds: list[float]
) -> None:
    shape = NodesShape(2, 2, mtbf, repair, preempt)
    found = ran(Nodes(shape, seed), seconds)
    assert len(found) == len(seconds)
    last = max(at for at, _ in found)
    for node in range(shape.count):
        lives = lives_of(shape, seed, node, last)
        busy = [(at - run.seconds, at, run) for at, run in found if run.node == node]
        for began, ended, run in busy:
            [life] = [life for life in lives if life[0] - 1e-6 <= began < life[1] + 1e-6 and ended <= life[1] + 1e-6]
            assert (run.end == "node_died") == (abs(ended - life[1]) < 1e-6) or run.end == "preempted"
        for began, _, _ in busy:
            assert sum(start <= began < end - 1e-6 for start, end, _ in busy) <= shape.slots_each


def lives_of(shape: NodesShape, seed: int, node: int, until: float) -> list[tuple[float, float]]:
    """From when to when a node is there."""
    nodes = Nodes(shape, seed)
    lives, since, number = list[tuple[float, float]](), 0.0, 1
    while since <= until:
        end = since + nodes.length(node, number)
        lives.append((since, end))
        since, number = end + shape.repair_s, number + 1
    return lives


def test_deaths_and_the_time_away_are_those_of_the_lives() -> None:
    shape, until = NodesShape(3, 1, 50.0, 20.0), 1000.0
    lives = [lives_of(shape, 5, node, until) for node in range(shape.count)]
    ends = [end for one in lives for _, end in one if end < until]
    assert len(ends) > 20
    died, away = Nodes(shape, 5).deaths(until)
    assert died == len(ends)
    assert away == pytest.approx(sum(min(end + shape.repair_s, until) - end for end in ends))


def test_a_cancelled_caller_gives_its_slot_back() -> None:
    async def main() -> Run:
        nodes = Nodes(NodesShape(1, 1), 0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(nodes.run, EvaluationId("test", 1), 100.0)
            tasks.start_soon(nodes.run, EvaluationId("test", 2), 100.0)  # waits for the slot
            await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()
        return await nodes.run(EvaluationId("test", 3), 7.0)

    assert run_virtually(main) == Run(0, "done", 7.0, 0.0)


def on_nodes(shape: NodesShape, retries: int, lease: int = 1) -> Evaluation:
    async def main() -> Evaluation:
        world = World(durations=HALF_HOUR, nodes=Nodes(shape, 0))
        evaluator = EvaluatorOnNodes(world, 0.0, 1.0, 0, retries=retries)
        return await evaluate(evaluator, request("x = 1", lease=lease))

    return run_virtually(main)


def test_a_lost_attempt_is_followed_by_the_next_and_is_no_result() -> None:
    shape = NodesShape(1, 1, mtbf_s=3600.0, repair_s=60.0)
    several = [found for lease in range(1, 20) if len((found := on_nodes(shape, 99, lease)).attempts) > 2]
    assert several
    for found in several:
        *lost, last = found.attempts
        assert [attempt.attempt for attempt in found.attempts] == list(range(1, len(found.attempts) + 1))
        assert {(one.outcome, one.detail, one.accepted) for one in lost} == {
            ("infrastructure_error", "node 0 died", False)
        }
        assert (last.outcome, last.accepted, found.outcome, found.seconds) == ("ok", True, "ok", last.seconds)
        assert all(one.ended_at - one.started_at == pytest.approx(one.seconds) for one in found.attempts)


def test_after_the_retries_the_machine_is_to_blame_and_there_is_no_score() -> None:
    found = on_nodes(NodesShape(1, 1, mtbf_s=20.0), 2)
    assert (found.outcome, found.score, len(found.attempts)) == ("infrastructure_error", None, 3)


def test_a_run_on_failing_nodes_ends_with_every_loss_in_a_row_and_none_in_a_reward(tmp_path: Path) -> None:
    async def main() -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]], Counter[End]]:
        config = config_of(SCENARIO)
        population = MemoryPopulation(header_of(config, TINY_TASK))
        await population.commit(seed_program(TINY_TASK))
        nodes = Nodes(FAILING, 0)
        world = World(durations=HALF_HOUR, nodes=nodes)
        world.serve(0, None)
        record = population.load()
        run = SimulatedRun(config, TINY_TASK, VirtualClock(), world, tmp_path, FAULTLESS, Handles())
        core = run.core(record, population)
        assert await drive(core) == "done"
        lost = await population.query("select * from evaluation_attempts where outcome = 'infrastructure_error'")
        scored = await population.query("select outcome, reward from candidates where lease is not null")
        assert [one for one in await population.read(lambda connection: list(audit(connection))) if not one.ok] == []
        return lost, scored, nodes.ended

    lost, scored, ended = run_virtually(main)
    assert len(lost) == ended["node_died"] + ended["preempted"]
    assert min(ended["node_died"], ended["preempted"]) > 3
    assert not any(row["accepted"] for row in lost)
    assert len(scored) == SCENARIO.candidates
    assert {row["outcome"] for row in scored} == {"ok"}
    assert min(row["reward"] for row in scored) >= 0


@pytest.mark.long
def test_failures_cost_time_and_slot_seconds_and_nothing_else() -> None:
    sound = measure(replace(SCENARIO, nodes=replace(FAILING, mtbf_s=None, preempt=0.0)))
    failing = measure(SCENARIO)
    assert sound.seconds == measure(replace(SCENARIO, nodes=None)).seconds < failing.seconds
    assert sound.losses is not None and failing.losses is not None
    assert (sound.losses["waste"], sound.losses["node_deaths"], sound.losses["away"]) == (0.0, 0, 0.0)
    assert 0.03 < failing.losses["waste"] < 0.15
    assert failing.evaluation == pytest.approx(sound.evaluation)
    assert max(failing.staleness) <= SCENARIO.bound


NODES = "simulate --nodes 4 --slots-per-node 4 --threads 16 --eval-mean 1800 --candidates 80"


@pytest.mark.long
def test_the_command_prints_what_failures_cost_and_the_same_twice() -> None:
    arguments = [*NODES.split(), "--node-mtbf", "6h", "--preempt", "0.05"]
    first, second = (CliRunner().invoke(app, [*arguments, "--json"]) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert first.output == second.output
    found = json.loads(first.output)
    nodes = found["nodes"]
    assert (nodes["nodes"], nodes["slots"], nodes["aborted"]) == (4, 16, 0)
    assert nodes["attempts"] - nodes["lost_to_node_deaths"] - nodes["lost_to_preemption"] == 80
    assert found["terms"]["evaluation slots"] == pytest.approx(3600 * 16 / found["evaluation_seconds"])
    words = CliRunner().invoke(app, arguments).output
    assert f"{100 * nodes['waste']:.1f} % of the used slot seconds" in words


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--nodes 4 --node-mtbf often", "--node-mtbf must be a time of at least one second, as in 45s, 90m, 6h or 2d"),
        ("--nodes 4 --node-mtbf 0h", "--node-mtbf must be a time of at least one second"),
        ("--nodes 4 --node-mtbf 5m --node-repair 10", "--node-repair must be a time of at least one second"),
        ("--nodes 4 --preempt 1", "--preempt must be a probability from 0 to below 1, not 1."),
        ("--nodes 4 --preempt -0.1", "--preempt must be a probability from 0 to below 1, not -0.1."),
        ("--nodes 4 --preempt nan", "--preempt must be a probability from 0 to below 1, not nan."),
        ("--nodes 2 --slots-per-node 3", "are 6 slots for --threads 8: give at least as many slots as threads."),
        ("--nodes 2 --slots 8", "--nodes and --slots exclude each other"),
        ("--preempt 0.1", "--preempt is for simulated machines: give their number too, as in --nodes 8."),
        ("--nodes 8 --node-mtbf 2s --eval-mean 600", "The simulated run gave up, because too many evaluations"),
    ],
)
def test_wrong_nodes_are_refused_in_one_sentence(
    flags: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = Shell(tmp_path, monkeypatch, capsys).pace("simulate", "--candidates", "40", *flags.split())
    assert refused.code == 2
    assert says in refused.err
    assert "Traceback" not in refused.err
