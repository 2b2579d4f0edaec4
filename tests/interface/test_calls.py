"""Evaluating and simulating from Python: what the commands print, waiting and beside an event loop."""

import json
import typing
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import cast

import anyio
import pytest

import pace_async as pace
from pace_async.cli.simulation import SimulateFlags
from pace_async.errors import UsageError
from pace_async.interface.simulated_shape import Shape
from pace_async.task import load_task
from tests.support.finished_runs import make_run
from tests.support.finished_runs import pace as command

BAD = "def pack(instance):\n    raise ValueError\n"


@pytest.mark.long
def test_an_evaluation_is_what_the_command_prints_for_a_file_and_a_text(tmp_path: Path) -> None:
    seed = load_task("circle_packing").folder / "initial.py"
    told = json.loads(command("eval", "circle_packing", str(seed), "--json", cwd=tmp_path).stdout)
    by_file, by_text = (pace.evaluate_program("circle_packing", program) for program in (seed, seed.read_text()))
    for found in (told, by_file, by_text):
        found["seconds"] = 0.0
    assert told == by_file == by_text
    assert told["outcome"] == "ok"


def test_an_evaluation_works_beside_an_event_loop_in_either_form() -> None:
    async def notebook() -> list[str]:
        here = pace.evaluate_program("circle_packing", BAD)
        beside = await pace.evaluate_program_async("circle_packing", BAD, debug=True)
        assert beside.get("evaluator_log") == ""
        return [here["outcome"], beside["outcome"]]

    assert anyio.run(notebook) == ["candidate_error", "candidate_error"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pace.evaluate_program("nosuch", BAD), "There is no task"),
        (lambda: pace.evaluate_program("circle_packing", "missing.py"), "Cannot read missing.py"),
        (lambda: pace.evaluate_program("circle_packing", BAD, {"nosuch": 1}), "nosuch"),
        (lambda: pace.simulate_run("nosuch"), "There is no run"),
        (lambda: pace.simulate_run(threads=0), "threads must be a whole number of at least 1, not 0"),
        (lambda: pace.simulate_run(eval_mean=-1.0), "eval_mean must be a number of at least 0"),
        (lambda: pace.simulate_run(eval_cap=0.0), "must be above 0"),
        (lambda: pace.simulate_run(policy="best"), "best"),
        (lambda: pace.simulate_run(preempt=0.1), "preempt is for simulated machines"),
        (lambda: pace.simulate_run(nodes=4, node_mtbf="often"), "node_mtbf must be a time"),
        (lambda: pace.simulate_run(nodes=4, node_mtbf=0.5), "node_mtbf must be a time"),
        (lambda: pace.simulate_run(**cast("Shape", {"thread": 3})), "There is no 'thread'"),
    ],
)
def test_a_mistake_is_refused_in_one_sentence_with_the_names_of_python(call: Callable[[], object], says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        call()
    assert "--" not in str(raised.value)


@pytest.mark.long
def test_a_simulation_is_what_the_command_prints_in_either_form(tmp_path: Path) -> None:
    flags = ("--threads", "4", "--nodes", "2", "--node-mtbf", "6h", "--eval-mean", "600", "--candidates", "40")
    told = json.loads(command("simulate", *flags, "--json", cwd=tmp_path).stdout)
    shape: Shape = {"threads": 4, "nodes": 2, "node_mtbf": 6 * 3600, "eval_mean": 600, "candidates": 40}

    async def beside() -> list[object]:
        return [pace.simulate_run(**shape), await pace.simulate_run_async(**shape)]

    assert [told, told] == json.loads(json.dumps(anyio.run(beside)))


@pytest.mark.long
def test_a_simulation_follows_a_run(tmp_path: Path) -> None:
    run = pace.open(make_run(tmp_path / "run"))
    found = pace.simulate_run(run, candidates=40)
    assert found == pace.simulate_run(run.name, candidates=40)
    assert found["candidates"] == 40


def test_a_shape_has_the_flags_of_the_command() -> None:
    assert set(typing.get_type_hints(Shape)) == {one.name for one in fields(SimulateFlags)} - {"like", "as_json"}
