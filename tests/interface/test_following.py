"""A run's events from Python: each fact once, in order, until the run has ended or its process has died."""

import json
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

import pace_async as pace
from pace_async.errors import UsageError
from pace_async.events import RunStateChanged, TransientEvent
from pace_async.population.lock import RunLock
from tests.support.finished_runs import copy_run, make_run
from tests.support.population_facts import fresh, rollout

FEW = {"stop.candidates": 3, "search.threads": 2, "learner.objective": "none", "advisor.model": "bandit"}
SHOWN = {kind.__name__ for kind in get_args(TransientEvent)}


async def events(run: pace.Run, after: int = 0) -> list[dict[str, Any]]:
    with anyio.fail_after(60):
        return [event async for event in run.events(after)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_run(make_run(tmp_path / "made"), tmp_path)


@pytest.mark.long
async def test_an_ended_run_gives_every_fact_and_ends(folder: Path) -> None:
    run = pace.open(folder)
    whole = await events(run)
    assert [event["seq"] for event in whole] == list(range(1, len(whole) + 1))
    assert whole[0]["event"] == "RunHeader" and whole[0]["stop"]["candidates"] == 40
    assert (whole[-1]["event"], whole[-1]["state"]) == ("RunStateChanged", "done")
    rows = {row["candidate"]: row for row in run.rows()}
    scored = {event["lease"]: event for event in whole if event["event"] == "Evaluated"}
    assert {lease: event["score"] for lease, event in scored.items()} == {
        number: row["score"] for number, row in rows.items()
    }
    programs = {lease: run.candidate(lease)["program"] for lease in scored}
    assert {lease: event["program_chars"] for lease, event in scored.items()} == {
        lease: None if program is None else len(program) for lease, program in programs.items()
    }
    assert await events(run, after=7) == whole[7:]
    assert await events(run, after=len(whole)) == []


async def test_a_run_whose_process_dies_is_followed_to_its_last_fact(folder: Path) -> None:
    """Its last state does not tell: here it says that the run is done before the process has ended."""
    run, taken = pace.open(folder), list[int]()
    whole = len(await events(run))
    with anyio.fail_after(60):
        with RunLock(folder):
            following = run.events()
            async for event in following:
                taken.append(event["seq"])
                if len(taken) == whole:
                    break
        taken += [event["seq"] async for event in following]
    assert taken == list(range(1, whole + 1))


@pytest.mark.long
@pytest.mark.usefixtures("both")
async def test_a_run_named_by_url_is_followed_until_its_state_says_that_it_ended(tmp_path: Path) -> None:
    async with fresh(tmp_path) as store:
        url = f"sqlite:///{store.place}" if isinstance(store.place, Path) else str(store.place)
        run, taken = pace.open(f"{url}#demo"), list[str]()
        await store.commit(RunStateChanged("running", "", 1.0))
        with anyio.fail_after(60):
            async for event in run.events():
                taken.append(event["event"])
                if event["event"] == "RunStateChanged" and event["state"] == "running":
                    await store.commit(*rollout(1))
                if event["event"] == "Evaluated" and event["lease"] == 1:
                    await store.commit(RunStateChanged("done", "", 9.0))
    assert taken[:3] == ["RunHeader", "Evaluated", "RunStateChanged"]
    assert taken[3:] == [*(type(fact).__name__ for fact in rollout(1)), "RunStateChanged"]


@pytest.mark.long
async def test_the_events_of_a_run_beside_the_loop_are_the_facts_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with pace.start("circle_packing", FEW) as going:
        taken = [event async for event in going.events()]
    lines = (Path(going.run.name) / "events.jsonl").read_text().splitlines()
    logged = [event for event in map(json.loads, lines) if event["event"] not in SHOWN]
    given = [{name: value for name, value in event.items() if name != "seq"} for event in taken]
    for event in given + logged:
        event["at"] = event.get("ended_at", event.get("at"))  # of an attempt the log has when it was written
    assert len(logged) > 10
    assert [event for event in logged if event not in given] == []


@pytest.mark.long
async def test_a_run_that_cannot_begin_has_no_events_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        async with pace.start("circle_packing", {**FEW, "implementer.model": "openai/gpt-5"}) as going:
            async for event in going.events():
                raise AssertionError(event)
