"""Faults over time: each fault is in a mark of its stage and its span, and hostile names stay text."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.timeline import Fault, Timeline, timeline_of
from pace_async.report.fault_timeline import BINS, LEFT, RIGHT, WIDTH, fault_timeline
from tests.support.finished_runs import HOSTILE, make_run

SVG = "{http://www.w3.org/2000/svg}"


def marks(timeline: Timeline) -> list[tuple[float, str]]:
    """Position and title of each mark."""
    found = ElementTree.fromstring(fault_timeline(timeline)).iter(f"{SVG}rect")
    return [(float(one.attrib["x"]), one.findtext(f"{SVG}title") or "") for one in found]


def test_without_a_fault_nothing_is_drawn() -> None:
    assert fault_timeline(Timeline(0.0, 100.0, ())) == ""


def test_a_fault_stands_at_its_time_in_the_lane_of_its_stage() -> None:
    faults = (Fault("engine", "timeout", 0.0), Fault("learner", "timeout", 3600.0), Fault("learner", "died", 7200.0))
    found = marks(Timeline(0.0, 7200.0, faults))
    assert [title.split(",")[0] for _, title in found] == ["engine", "learner", "learner"]
    places = [(x - LEFT) / (WIDTH - LEFT - RIGHT) for x, _ in found]
    assert [round(place, 2) for place in places] == [0.0, 0.5, round((BINS - 1) / BINS, 2)]
    assert "1 to 1.01 hours: timeout" in found[1][1]


def test_faults_of_one_span_are_one_mark_with_their_amounts() -> None:
    faults = (*[Fault("engine", "timeout", 1.0)] * 1500, Fault("engine", "died", 1.0))
    ((_, title),) = marks(Timeline(0.0, 1000.0, faults))
    assert title.endswith("timeout 1,500, died")


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.floats(-10, 2000))), st.floats(0, 1000))
def test_every_fault_is_counted_once_whatever_its_time(faults: list[tuple[str, float]], ended: float) -> None:
    timeline = Timeline(0.0, ended, tuple(Fault(stage, "k", at) for stage, at in faults))
    if not faults:
        return
    found = marks(timeline)
    counted = sum(
        int(amount or "1") for _, title in found for amount in re.findall(r": k ?(\d*)$", title.replace(",", ""))
    )
    assert counted == len(faults)
    assert len(found) <= 2 * BINS
    assert all(LEFT <= x <= WIDTH - RIGHT for x, _ in found)


def test_a_runs_rows_give_its_timeline_and_hostile_names_stay_text(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with closing(sqlite3.connect(run / "population.db")) as database, database:
        began, last = database.execute("select created_at, (select max(at) from run_states) from runs").fetchone()
        values = [(1, 900 + n, HOSTILE, HOSTILE, HOSTILE, None, began + n) for n in range(3)]
        database.executemany("insert into faults values (?, ?, ?, ?, ?, ?, ?)", values)
    with open_readonly(run / "population.db") as reader:
        timeline = reader.ask(timeline_of)
    assert (timeline.began, timeline.ended) == (began, max(last, began + 2))
    drawn = fault_timeline(timeline)
    assert [fault.at - began for fault in timeline.faults][-3:] == [0, 1, 2]
    assert "<script" not in drawn and "<img" not in drawn and "owned" in drawn
    ElementTree.fromstring(drawn)
