"""Virtual time, predictions, the roofline, and the ledger of a run."""

import asyncio
import json
import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from pace_async.cli.main import app
from pace_async.observe.ledger import Ledger, ledger_of_rows
from pace_async.observe.roofline import Load, advice, expected_maximum, roofline
from pace_async.population.base import Population
from pace_async.population.memory import MemoryPopulation, rows_as_text
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.record import RunRecord
from pace_async.population.reading.timings import recorded_seconds, timings_of
from pace_async.population.store import Store
from pace_async.population.timings import RecordedSeconds
from pace_async.runtime.run.core import Core
from pace_async.runtime.start.supervisor import drive
from pace_async.simulate.codecs import Handles
from pace_async.simulate.durations import Durations
from pace_async.simulate.predict import Prediction, Scenario, measure, predict
from pace_async.simulate.recorded import recorded_durations
from pace_async.simulate.runs import FAULTLESS, TINY_TASK, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import World
from pace_async.simulate.synchronous import synchronous_seconds
from pace_async.simulate.virtual import Deadlock, VirtualClock, VirtualLoop, run_virtually
from tests.support.finished_runs import make_run, pace
from tests.support.simulated_runs import Outside, settings

UNLIKE = {"created_at", "written_at"}
"""Columns that tell the machine's time."""
POLICIES: tuple[str, ...] = ("pace", "soft", "drop")
HOUR = Durations(
    seed=0, evaluation_mean=600, evaluation_cv=0.6, evaluation_cap=1200, generation=30, learning=20, pause=2
)


def test_virtual_time_passes_only_when_nothing_can_run() -> None:
    seen: list[tuple[str, float]] = []

    async def nap(name: str, seconds: float) -> None:
        await anyio.sleep(seconds)
        seen.append((name, anyio.current_time()))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for name, seconds in (("slow", 1e6), ("quick", 0.25), ("middle", 3600.0)):
                group.start_soon(nap, name, seconds)

    run_virtually(main, start=10.0)
    assert seen == [("quick", 10.25), ("middle", 3610.0), ("slow", 1000010.0)]


def test_a_loop_in_which_nothing_can_happen_raises() -> None:
    async def main() -> None:
        await anyio.Event().wait()

    with pytest.raises(Deadlock, match="nothing can wake one"):
        run_virtually(main)


def test_time_stands_still_while_a_thread_outside_works() -> None:
    async def main() -> None:
        virtual = asyncio.get_running_loop()
        assert isinstance(virtual, VirtualLoop)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 5.0)
            with virtual.outside():
                await anyio.to_thread.run_sync(lambda: sum(range(200_000)))
            times.append(anyio.current_time())

    times: list[float] = []
    run_virtually(main)
    assert times == [0.0]


@pytest.mark.parametrize("durations", [HOUR, replace(HOUR, implementing=75.0)])
def test_the_synchronous_formula_is_what_the_runtime_takes(durations: Durations) -> None:
    scenario = Scenario(threads=8, group_size=8, bound=2, durations=durations, candidates=44).synchronous()
    measured = measure(scenario)
    assert math.isclose(measured.seconds, synchronous_seconds(durations, candidates=44, group_size=8), rel_tol=1e-9)
    assert set(measured.staleness) == {0}


def test_the_implementer_is_a_stage_of_its_own_that_takes_time_of_a_thread_and_none_of_a_slot() -> None:
    steady = replace(HOUR, evaluation_cv=0.0, learning=0.0, pause=0.0)
    shape = Scenario(threads=8, group_size=8, bound=2, durations=steady, candidates=64, learns=False)
    without, slower = measure(shape), measure(replace(shape, durations=replace(steady, implementing=90.0)))
    assert without.seconds == pytest.approx(8 * (30 + 600))
    assert slower.seconds == pytest.approx(8 * (30 + 90 + 600))
    assert slower.evaluation == without.evaluation == pytest.approx(600)
    assert slower.limits.terms["threads"] == pytest.approx(8 / 720)


def test_a_recorded_implementer_is_not_part_of_the_generation() -> None:
    recorded = RecordedSeconds(((1, 5.0),), own=1.0, fresh=(), advising=3.0, implementing=40.0, learning=0, pushing=0)
    durations = recorded_durations(recorded, seed=0)
    assert (durations.generation, durations.implementing) == (3.0, 40.0)


@pytest.mark.long
def test_each_policy_keeps_its_promise_and_drop_is_biased_towards_quick_evaluations() -> None:
    shape = Scenario(threads=24, group_size=8, bound=1, durations=HOUR, candidates=240)
    pace, soft, drop = (measure(replace(shape, policy=policy)) for policy in POLICIES)
    assert max(pace.staleness) <= 1
    assert pace.expired == soft.expired == 0
    assert pace.trained_evaluation == pytest.approx(pace.evaluation, rel=0.03)
    assert max(soft.staleness) > 1
    assert max(drop.staleness) <= 1
    assert drop.expired > 0
    assert drop.trained_evaluation < 0.97 * drop.evaluation


def test_simulate_prints_its_json_keys_and_the_same_twice() -> None:
    arguments = "simulate --threads 12 --group-size 8 --max-staleness 2 --eval-mean 600 --eval-cv 0.6 --candidates 80"
    first, second = (CliRunner().invoke(app, [*arguments.split(), "--json"]) for _ in range(2))
    assert first.exit_code == 0
    assert first.output == second.output
    found = json.loads(first.output)
    promised = ["speedup", "slot_utilisation", "max_staleness", "expired", "candidates_per_hour", "roofline", "binding"]
    assert set(promised) <= set(found)
    assert found["binding"] in found["terms"]
    assert found["max_staleness"] <= 2
    assert found["expired"] == 0
    assert 1.5 < found["speedup"] < 3.2
    assert found["candidates_per_hour"] < found["roofline"]


@pytest.mark.long
def test_the_gain_of_more_slots_is_not_hidden_by_the_wait_for_one() -> None:
    def found(slots: int) -> Prediction:
        durations = Durations(0, 60.0, 0.6, None, 3.0, 1.8, 0.18)
        return predict(Scenario(threads=16, group_size=8, bound=2, durations=durations, candidates=160, slots=slots))

    few, each = found(4), found(16)
    assert few["binding"] == "evaluation slots"
    assert few["terms"]["threads"] == pytest.approx(each["terms"]["threads"], rel=0.01)
    assert few["terms"]["staleness"] == pytest.approx(each["terms"]["staleness"], rel=0.01)
    rise = each["candidates_per_hour"] / few["candidates_per_hour"]
    assert rise > 2
    assert min(few["terms"]["threads"], few["terms"]["staleness"]) / few["roofline"] > 0.9 * rise


def test_virtual_time_goes_on_however_late_it_is() -> None:
    """A timer that is due now is due where a billionth of a second is less than the clock can tell."""

    async def sleeps() -> list[float]:
        began, slept = asyncio.get_running_loop().time(), list[float]()
        for _ in range(3):
            await anyio.sleep(1.5)
            slept.append(asyncio.get_running_loop().time() - began)
        return slept

    for start in (0.0, 2.0**24, 2.0**31, 2.0**40):
        assert run_virtually(sleeps, start=start) == [1.5, 3.0, 4.5]


def test_a_simulation_of_very_long_evaluations_comes_to_its_end() -> None:
    durations = Durations(0, 1e7, 0.6, None, 5e5, 3e5, 3e4)
    long = predict(Scenario(threads=8, group_size=8, bound=2, durations=durations, candidates=64))
    short = Durations(0, 10.0, 0.6, None, 0.5, 0.3, 0.03)
    assert long["speedup"] == pytest.approx(
        predict(Scenario(threads=8, group_size=8, bound=2, durations=short, candidates=64))["speedup"]
    )


@pytest.mark.long
@pytest.mark.parametrize(("policy", "says"), [("pace", "at most 2"), ("soft", "mean at most 2"), ("drop", "at most 2")])
def test_the_simulation_describes_the_policy(policy: str, says: str) -> None:
    arguments = f"simulate --threads 16 --candidates 96 --policy {policy}"
    words = CliRunner().invoke(app, arguments.split()).output
    found = json.loads(CliRunner().invoke(app, [*arguments.split(), "--json"]).output)
    assert f"(updates; {says})" in words
    assert (found["expired"] > 0) == (policy == "drop") == ("without discarded rollouts" in words)
    kept = 1 - found["expired"] / found["candidates"]
    assert found["trained_speedup"] == pytest.approx(found["speedup"] * kept)


def test_the_simulation_of_a_run_without_learning_trains_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with sqlite3.connect(run / "population.db") as database:
        database.execute("update runs set config = json_set(config, '$.learner.objective', 'none')")
    found = json.loads(CliRunner().invoke(app, ["simulate", "--like", str(run), "--candidates", "24", "--json"]).output)
    assert found["staleness"] == {}
    assert not {"learner", "staleness"} & set(found["terms"])


@pytest.mark.long
def test_recorded_durations_replace_the_drawn_ones(tmp_path: Path) -> None:
    run = str(make_run(tmp_path / "run"))
    found = CliRunner().invoke(app, ["simulate", "--like", run, "--candidates", "24", "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["candidates"] == 24
    wider = CliRunner().invoke(app, ["simulate", "--like", run, "--candidates", "24", "--slots", "4", "--json"])
    for output, slots in ((found.output, 2), (wider.output, 4)):  # the run's own slots, and those given here
        said = json.loads(output)
        assert said["terms"]["evaluation slots"] == pytest.approx(3600 * slots / said["evaluation_seconds"])
    both = pace("simulate", "--like", run, "--eval-mean", "3", cwd=tmp_path)
    assert both.returncode == 2
    assert "leave --eval-mean and --eval-cap out" in both.stderr


def test_expected_maximum_of_draws_from_a_sample() -> None:
    assert expected_maximum([3.0], 8) == 3.0
    assert expected_maximum([0.0, 1.0], 2) == pytest.approx(0.75)
    assert expected_maximum([1.0, 2.0, 3.0], 1) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("load", "binding", "says"),
    [
        (Load(4, 8, 2, [10.0], 9.0), "threads", "More threads would help, in a new run, up to"),
        (Load(24, 8, 2, [10.0], 9.0), "threads", "Threads and staleness are equal bottlenecks: only more of each"),
        (Load(64, 8, 2, [10.0], 9.0), "staleness", "A larger --max-staleness than 2 would help"),
        (Load(16, 8, 2, [5.0, 19.0], 9.0), "staleness", "A larger --max-staleness than 2 would help, up to"),
        (
            Load(5, 8, 0, [1.0, 9.0], 4.0),
            "staleness",
            "More threads would help, in a new run and up to 8, and so would --async",
        ),
        (
            Load(5, 8, 1, [*9 * [1.0], 99.0], 4.0),
            "staleness",
            "More threads would help, in a new run and up to 16, and",
        ),
        (Load(16, 8, 0, [5.0, 19.0], 9.0), "staleness", "--async with a --max-staleness above 0 would help"),
        (Load(64, 8, 2, [10.0], 9.0, learning=1.0, policy="drop"), "threads", "More threads would help"),
        (
            Load(16, 8, 2, [5.0, 15.0], 9.0, policy="soft"),
            "threads",
            "More threads would help, in a new run, up to 50 % more.",
        ),
        (Load(32, 8, 2, [5.0, 15.0], 9.0, policy="soft"), "staleness", "A larger --max-staleness than 2 would help"),
        (Load(64, 8, 9, [10.0], 9.0, slots=2), "evaluation slots", "More evaluation slots would help"),
        (
            Load(4, 8, 2, [10.0], 9.0, slots=6, trains=False),
            "threads",
            "More threads would help, in a new run, up to 67 % more.",
        ),
        (
            Load(4, 8, 2, [10.0], 9.0, slots=36, trains=False),
            "threads",
            "More threads would help, in a new run, up to 10 times as",
        ),
        (
            Load(4, 8, 2, [10.0], 0.3, slots=2, trains=False, shares_processors=True),
            "threads",
            "More threads would help, in a new run, if evaluations that share this machine's processors do not",
        ),
        (
            Load(64, 8, 9, [10.0], 9.0, slots=2, shares_processors=True),
            "evaluation slots",
            "More evaluation slots would help, if evaluations that share",
        ),
        (Load(256, 8, 99, [10.0], 9.0, learning=100.0), "learner", "The learner is the bottleneck"),
    ],
)
def test_the_smallest_limit_binds_and_the_advice_follows_it(load: Load, binding: str, says: str) -> None:
    found = roofline(load)
    assert found is not None
    assert found.binding == binding
    assert found.limit == min(found.terms.values())
    assert advice(found, load.bound).startswith(says)


def test_without_a_rollout_there_is_no_limit() -> None:
    assert roofline(Load(8, 8, 2, [], 0.0)) is None
    assert Ledger().utilisation(8, 100.0, 100.0) is None


def test_a_run_over_a_database_file_keeps_a_ledger_and_the_rows_of_one_in_memory(tmp_path: Path) -> None:
    """The file database works in threads, and virtual time waits for them."""
    config = settings(search__threads=12, evaluation__slots=12, stop__candidates=32)
    header = header_of(config, TINY_TASK)

    def core_over(population: Population, record: RunRecord) -> Core:
        world = World(durations=HOUR)
        world.serve(0, None)
        return SimulatedRun(config, TINY_TASK, VirtualClock(), world, tmp_path, FAULTLESS, Handles()).core(
            record, population
        )

    async def on_disk() -> tuple[Ledger, list[str]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        with loop.outside():
            opened = Store.open(tmp_path / "population.db")
            store = await opened.__aenter__()
            await store.create_run(header, secret="simulated")
            await store.commit(seed_program(TINY_TASK))
            record = await store.load()
        core = core_over(Outside(store, loop), record)
        assert await drive(core) == "done"
        with loop.outside():
            rows = await store.read(lambda connection: list(rows_as_text(connection, UNLIKE)))
            await opened.__aexit__(None, None, None)
        journal = ("journal: ", "blobs: ", "snapshots: ")  # kept in a file only
        return core.bus.view.ledger, [row for row in rows if not row.startswith(journal)]

    async def in_memory() -> list[str]:
        population = MemoryPopulation(header)
        await population.commit(seed_program(TINY_TASK))
        assert await drive(core_over(population, population.load())) == "done"
        return list(population.dump(UNLIKE))

    ledger, written = run_virtually(on_disk)
    assert written == run_virtually(in_memory)
    limits = ledger.limits(header)
    assert limits is not None
    with open_readonly(tmp_path / "population.db") as reader:
        rows = ledger_of_rows(reader.ask(timings_of), header)
    assert rows["binding"] == limits.binding
    assert rows["roofline"] == pytest.approx(3600.0 * limits.limit)
    assert 0.5 < rows["slot_utilisation"] <= 1.0
    assert rows["candidates_per_hour"] <= rows["roofline"]
    assert rows["advice"]
    with open_readonly(tmp_path / "population.db") as reader:
        like = recorded_durations(reader.ask(recorded_seconds), seed=0)
        [last] = reader.query("select max(at) as at from candidates")
    again = measure(Scenario(threads=12, group_size=8, bound=2, durations=like, candidates=32))
    assert again.seconds == pytest.approx(last["at"], rel=0.01)  # a push that held an answer up counts twice
