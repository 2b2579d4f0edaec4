"""A run with several objectives, in separate processes: its front is that of its candidates, also after a resume."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from pace_async.aims import aims_of, costs_of
from pace_async.population.journal.states import Reading, encoding_of, state_of_bytes
from pace_async.population.models import CandidateRow
from pace_async.population.reading.journal import Contents
from pace_async.population.reading.load import header_of
from pace_async.population.reading.programs import whole_or_none
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.replay import state_of
from pace_async.search.front import dominates
from pace_async.state.run_state import RunState
from research.benchmarks.fronts_of_runs import aim_of, front_of_run
from tests.support.command_line import search
from tests.support.comparing_states import differences
from tests.support.zdt import zdt_task

RUN = ("--advisor", "bandit", "--set", "search.threads=2", "--set", "evaluation.slots=2")


def both_states(connection: Connection, run_id: int) -> tuple[RunState, RunState]:
    """The state that the facts come to, and the same as bytes and back."""
    folded = state_of(connection, run_id, header_of(connection, run_id))
    rows = connection.execute(select(CandidateRow.candidate, CandidateRow.program)).all()
    programs = {row.candidate: whole_or_none(connection, run_id, row.program) for row in rows}
    reading = Reading(Contents(connection, run_id).of, lambda _: programs, frozenset())
    return folded, state_of_bytes(encoding_of(folded)(), folded.terms, reading)


@pytest.mark.long
@pytest.mark.nightly
def test_the_front_of_a_run_is_that_of_its_candidates(tmp_path: Path) -> None:
    zdt_task(tmp_path / "zdt1", "zdt1")
    begun = search(tmp_path, ["run", "./zdt1", "--candidates", "20", *RUN])
    assert begun.code == 0, begun.err
    resumed = search(tmp_path, ["resume", "runs/zdt1-1", "--candidates", "40"])
    assert resumed.code == 0
    found = json.loads(search(tmp_path, ["best", "runs/zdt1-1", "--front", "--json"]).out)
    columns = "select candidate, score, metrics from candidates where score is not null"
    rows = json.loads(search(tmp_path, ["db", "sql", "runs/zdt1-1", columns, "--json"]).out)
    aims = aims_of(
        json.loads(search(tmp_path, ["db", "sql", "runs/zdt1-1", "select aims from runs", "--json"]).out)[0]["aims"]
    )
    costs = {row["candidate"]: costs_of(aims, json.loads(row["metrics"])) for row in rows}
    assert len(costs) == 41
    unsurpassed = {costs[one] for one in costs if not any(dominates(other, costs[one]) for other in costs.values())}
    assert {costs[one["candidate"]] for one in found["front"]} == unsurpassed
    assert found["objectives"] == {"f1": "minimize", "f2": "minimize"}
    measured = front_of_run(str(tmp_path / "runs" / "zdt1-1"), [aim_of("f1:1:0"), aim_of("f2:6:0")])
    assert measured == (pytest.approx(found["hypervolume"]), len(found["front"]))
    best = json.loads(search(tmp_path, ["best", "runs/zdt1-1", "--json"]).out)
    assert best["candidate"] == found["front"][0]["candidate"]
    assert search(tmp_path, ["db", "check", "runs/zdt1-1"]).code == 0
    with open_readonly(str(tmp_path / "runs" / "zdt1-1" / "population.db")) as reader:
        folded, read = reader.ask(both_states)
    assert differences(folded, read) == []
    assert {member.candidate for member in read.visible.front} <= {one["candidate"] for one in found["front"]}
    assert read.visible.front
    status = search(tmp_path, ["status", "runs/zdt1-1"]).out
    assert f"{len(found['front'])} programs, hypervolume {found['hypervolume']:.4f}: " in status
    assert search(tmp_path, ["report", "runs/zdt1-1", "--output", "report.html"]).code == 0
    report = (tmp_path / "report.html").read_text()
    assert f"{found['hypervolume']:.4f} of what lies between the bounds" in report
    assert all(f'href="#c{one["candidate"]}"' in report for one in found["front"])
    assert all(f'<a href="#c{one["candidate"]}" aria-label=' in report for one in found["front"])
    exported = search(tmp_path, ["export", "runs/zdt1-1", "--what", "front", "--format", "jsonl"]).out
    assert sorted(one["candidate"] for one in found["front"]) == [
        json.loads(row)["candidate"] for row in exported.splitlines()
    ]
    assert f"{len(found['front'])} programs, hypervolume {found['hypervolume']:.4f}" in resumed.err + resumed.out
    compared = json.loads(search(tmp_path, ["compare", "runs/zdt1-1", "--json"]).out)
    assert compared["runs"][0]["hypervolume"] == found["hypervolume"]
    assert compared["fronts"]["reference"] == {"f1": 1.0, "f2": 6.0}


@pytest.mark.long
@pytest.mark.nightly
def test_a_run_of_one_score_has_no_front(tmp_path: Path) -> None:
    run = ["run", "circle_packing", "--candidates", "2", "--advisor", "bandit"]
    assert search(tmp_path, run).code == 0
    for command in (["best", "circle_packing-1", "--front"], ["export", "circle_packing-1", "--what", "front"]):
        refused = search(tmp_path, command)
        assert refused.code == 2
        assert "has one score and no objectives, so it has no front: leave out the front" in refused.err
