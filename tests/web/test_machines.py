"""The page of machines: what each did at once, what it waited for, and what was lost."""

from pathlib import Path

import pytest

from pace_async.population.reading.machines import LOCAL, MachineAttempt, attempts_of
from pace_async.population.reading.reader import open_readonly
from pace_async.report.facts import gather_parts
from pace_async.web.machines import BINS, machines_page
from pace_async.web.machines import _over_time as over_time
from tests.support.finished_runs import make_run


def test_the_work_of_all_parts_is_the_work_of_all_evaluations() -> None:
    attempts = [MachineAttempt("a", 0.0, 60.0, 0.0, False), MachineAttempt("a", 30.0, 120.0, 6.0, False)]
    busy, waits = over_time(attempts, 0.0, 120.0)
    assert sum(value for _, value in busy) * 120.0 / BINS == pytest.approx(150.0)
    assert max(value for _, value in busy) == pytest.approx(2.0)
    assert [value for _, value in waits] == [0.0, 6.0]


def test_each_machine_has_a_line_and_two_drawings(tmp_path: Path) -> None:
    with open_readonly(make_run(tmp_path / "run") / "population.db") as reader:
        facts, recorded = gather_parts(reader, learning=False), reader.ask(attempts_of)
        counted = reader.query("select count(*) as attempts from evaluation_attempts")[0]["attempts"]
    assert len(recorded) == counted and {one.machine for one in recorded} <= {LOCAL}
    began = facts.account.began
    two = [MachineAttempt("<b>", began, began + 9, 1.0, True), MachineAttempt("b", began + 1, began + 2, 3.0, False)]
    page = machines_page("run", facts, two)
    assert (
        page.count("<svg") == 4
        and '<td>&lt;b&gt;</td><td>1</td><td class="number">1</td>' in page
        and "<td>b</td>" in page
    )
    assert "No evaluation has been recorded." in machines_page("run", facts, [])
