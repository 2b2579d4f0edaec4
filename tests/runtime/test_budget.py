"""The budget: spent + reserved never exceeds it, with 32 calls in flight, and across a crash."""

import json
import sqlite3
import time
from pathlib import Path

import anyio
import pytest

from pace_async.errors import BudgetReached, CandidateFault
from pace_async.events import ImplementerCalled, ImplementerReserved, LeaseOpened, SettingChanged
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.population.store import Store
from pace_async.runtime.run.recorder import BudgetLedger
from pace_async.runtime.start.resuming import cut_off, resumed_config
from pace_async.runtime.start.supervisor import drive
from pace_async.search.state import Member
from pace_async.simulate.stages import World
from pace_async.task import Task
from tests.support.changed_stages import change_stages
from tests.support.simulated_runs import Simulated, settings, simulated

WORST = 0.03


class Paid:
    """Each call costs a seeded part of WORST, and some answers are bad. Keeps the highest amount that was promised. The
    first `gathered` calls wait for each other."""

    def __init__(self, run: Simulated, ledger: BudgetLedger, gathered: int) -> None:
        self.run = run
        self.gathered = gathered
        self.all_here = anyio.Event()
        self.ledger = ledger
        self.most = 0.0
        self.most_in_flight = 0
        self.in_flight = 0

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        lease = experiment.lease
        number = await self.ledger.reserve(lease, "paid", WORST)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.most = max(self.most, self.run.core.state.spend_usd + self.ledger.reserved_usd)
        try:
            if self.in_flight >= self.gathered:
                self.all_here.set()
            await self.all_here.wait()
            await self.run.world.stage("implement")
        finally:
            self.in_flight -= 1
        bad = lease % 7 == 0
        cost = WORST * (1 + lease % 10) / 10
        outcome = "no_code_block" if bad else "ok"
        await self.ledger.settle(ImplementerCalled(lease, "paid", outcome, 10, 5, cost, 0.0, time.time(), number))
        if bad:
            raise CandidateFault(outcome, "nothing")
        return ImplementedProgram(f"{parent.program}\nadded_{lease} = 1\n")


def paid(run: Simulated, budget: float | None, gathered: int = 1) -> Paid:
    core = run.core
    ledger = BudgetLedger(core.recorder, core.stages.clock, budget)
    implementer = Paid(run, ledger, gathered)
    change_stages(core, implementer=implementer)
    return implementer


@pytest.mark.long
@pytest.mark.fault("Implementer", "budget reached with 32 calls in flight")
async def test_a_run_with_32_calls_in_flight_stops_within_its_budget(tmp_path: Path) -> None:
    config = settings(
        search__threads=32,
        stop__candidates=None,
        stop__budget=1.0,
        learner__objective="none",
        learner__group_size=32,
    )
    async with simulated(tmp_path, config, World(seed=4, turns=40)) as run:
        implementer = paid(run, 1.0, gathered=32)
        with anyio.fail_after(60):
            assert await drive(run.core) == "stopped_by_budget"
        assert implementer.most_in_flight == 32
        assert implementer.most <= 1.0
        assert implementer.ledger.reserved_usd == 0.0
        rows = await run.store.query("select count(*) n, sum(cost_usd) usd from implementer_calls")
        assert 1.0 - WORST < rows[0]["usd"] <= 1.0
        assert rows[0]["usd"] == pytest.approx(run.core.state.spend_usd, abs=1e-9)
        spend = await run.store.query("select sum(usd) usd from spend")
        assert spend[0]["usd"] == pytest.approx(rows[0]["usd"], abs=1e-9)
        open_ones = await run.store.query("select count(*) n from reservations where ordinal is null")
        assert open_ones[0]["n"] == 0
        left = await run.store.query("select count(*) n from leases where state = 'open'")
        assert left[0]["n"] == len(run.core.parked) > 0
        bad = await run.store.query(
            "select c.outcome, c.detail, p.cost_usd from candidates c join implementer_calls p on p.lease = c.lease "
            "where p.outcome = 'no_code_block'"
        )
        assert bad
        assert {row["outcome"] for row in bad} == {"not_implemented"}
        assert all(row["cost_usd"] > 0 and row["detail"] == "no_code_block: nothing" for row in bad)


async def test_with_a_larger_budget_a_run_resumes_its_open_leases(tmp_path: Path) -> None:
    config = settings(stop__candidates=40, stop__budget=0.3)
    async with simulated(tmp_path, config, World(seed=1)) as run:
        paid(run, 0.3)
        with anyio.fail_after(60):
            assert await drive(run.core) == "stopped_by_budget"
        left = set(run.core.parked)
    async with simulated(tmp_path, settings(stop__candidates=40, stop__budget=5.0), World(seed=1)) as run:
        assert {work.lease.lease for work in run.core.unfinished} == left
        paid(run, 5.0)
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        rows = await run.store.query("select count(*) n from candidates where candidate > 0")
        assert rows[0]["n"] == 40
        worst = await run.store.query("select max(staleness) w from leases where state = 'trained'")
        assert worst[0]["w"] <= 2


async def test_a_call_that_fits_only_when_others_have_ended_waits_for_them(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(), World()) as run:
        core, now = run.core, time.time()
        await core.record(LeaseOpened(1, 1, 2, 0, now))
        ledger = BudgetLedger(core.recorder, core.stages.clock, 1.0)
        first = await ledger.reserve(1, "m", 0.7)
        with pytest.raises(BudgetReached, match=r"1\.2000 USD and 1\.0000 USD are left"):
            await ledger.reserve(1, "m", 1.2)
        numbers: list[int] = []

        async def second() -> None:
            numbers.append(await ledger.reserve(1, "m", 0.7))

        async with anyio.create_task_group() as group:
            group.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            assert numbers == []
            await ledger.settle(ImplementerCalled(1, "m", "ok", 1, 1, 0.1, 0.0, now, first))
        assert numbers == [2]
        assert core.state.spend_usd + ledger.reserved_usd == pytest.approx(0.8)


async def test_a_call_cut_off_by_a_crash_counts_at_its_highest_cost_and_is_reported(tmp_path: Path) -> None:
    config = settings(stop__budget=1.0)
    async with simulated(tmp_path, config, World()) as run:
        await run.store.commit(
            LeaseOpened(1, 1, 2, 0, 1.0),
            ImplementerReserved(1, 1, "openai/local", 0.25, 2.0),
            ImplementerReserved(2, 1, "openai/local", 0.25, 2.0),
            ImplementerCalled(1, "openai/local", "ok", 1, 1, 0.01, 0.0, 3.0, 2),
        )
    async with simulated(tmp_path, config, World()) as run:
        record = await run.store.load()
        assert [(row.number, row.cost_usd) for row in record.reserved] == [(1, 0.25)]
        assert record.spend_usd == pytest.approx(0.01)
        await run.store.commit(*cut_off(record))
        again = await run.store.load()
        assert again.reserved == ()
        assert again.run_state.reservations == 2
        assert again.spend_usd == pytest.approx(0.26)
        faults = await run.store.query("select kind, detail, lease from faults")
        assert [(row["kind"], row["lease"]) for row in faults] == [("unknown_outcome", 1)]
        assert "0.250000 USD" in faults[0]["detail"]
        calls = await run.store.query("select outcome, cost_usd from implementer_calls order by ordinal")
        assert [(row["outcome"], row["cost_usd"]) for row in calls] == [("ok", 0.01), ("unknown", 0.25)]


async def test_a_reservation_is_closed_once_and_by_a_call_of_its_own(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(), World()) as run:
        call = ImplementerCalled(1, "m", "ok", 1, 1, 0.1, 0.0, 1.0, 1)
        await run.store.commit(LeaseOpened(1, 1, 2, 0, 1.0), ImplementerReserved(1, 1, "m", 0.2, 1.0), call)
        for wrong in (call, ImplementerCalled(1, "m", "ok", 1, 1, 0.1, 0.0, 1.0, 9)):
            with pytest.raises(AssertionError, match="never made, or is closed already"):
                await run.store.commit(wrong)
        rows = await run.store.query("select count(*) n from implementer_calls")
        assert rows[0]["n"] == 1


async def test_what_a_resume_changes_is_a_row_and_holds_for_later_resumes(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(), World()) as run:
        change = SettingChanged("implementer.model", json.dumps("catalog"), json.dumps("openai/a=2,openai/b"), 5.0)
        await run.store.commit(change)
        record = await run.store.load()
        assert resumed_config(record, {}).implementer.model == "openai/a=2,openai/b"
        assert resumed_config(record, {"implementer.model": "catalog"}).implementer.model == "catalog"
    database = sqlite3.connect(tmp_path / "population.db")
    assert database.execute("select key, after, at from setting_changes").fetchall() == [
        ("implementer.model", '"openai/a=2,openai/b"', 5.0)
    ]
    database.close()


async def test_the_store_enforces_the_budget(tmp_path: Path) -> None:
    async with simulated(tmp_path, settings(stop__candidates=16), World(seed=2)) as run:
        paid(run, None)
        with anyio.fail_after(60):
            assert await drive(run.core) == "done"
        spent = run.core.state.spend_usd
    async with Store.open(tmp_path / "population.db", create=False) as store:
        assert (await store.load()).spend_usd == pytest.approx(spent, abs=1e-9)


async def test_a_lease_left_for_a_resume_still_takes_its_place_in_the_gate(tmp_path: Path) -> None:
    config = settings(search__threads=4, learner__group_size=4, learner__k=2, staleness__max_staleness=0)
    async with simulated(tmp_path, config, World()) as run:
        state = run.core.state
        for island in (1, 2, 3, 4):
            lease = state.next_lease()
            await run.core.record(LeaseOpened(lease.lease, island, lease.deadline, state.served, time.time()))
        assert not state.may_admit()
        run.core.park(1)
        assert state.open == 4
        assert not state.may_admit()
