"""The drawings of a task's metrics: which candidates are read, and what stands in the report."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pace_async.population.reading.candidate_metrics import CandidateMetrics, measured_of
from pace_async.population.reading.progress import improvements_of
from pace_async.population.reading.reader import open_readonly
from pace_async.report.facts import gather
from pace_async.report.metrics import MOST, metrics
from pace_async.report.page import page
from tests.support.finished_runs import HOSTILE, make_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose candidates have the metric `half`, half of the score, and another with a hostile name."""
    folder = make_run(tmp_path / "run")
    with closing(sqlite3.connect(folder / "population.db")) as database, database:
        rows = database.execute("select candidate, score from candidates where score is not null").fetchall()
        for candidate, score in rows:
            found = json.dumps({"half": score / 2, HOSTILE: 1.0})
            database.execute("update candidates set metrics = ? where candidate = ?", (found, candidate))
    return folder


def test_the_metrics_are_those_of_scored_candidates_and_improvements_are_always_read(run: Path) -> None:
    with open_readonly(run / "population.db") as reader:
        every, some = reader.ask(measured_of), reader.answer(lambda connection: measured_of(connection, 1, most=4))
        scored = [row for row in reader.stream("candidates") if row["score"] is not None]
        improved = [(row.place, row.candidate) for row in reader.ask(improvements_of)]
    assert sorted(row.candidate for row in every) == sorted(row["candidate"] for row in scored)
    assert all(row.metrics["half"] == row.score / 2 for row in every)
    for rows in (every, some):
        assert [(row.completed, row.candidate) for row in rows if row.improved] == improved
    assert len(improved) <= len(some) <= len(improved) + 4 < len(every)


def test_each_metric_is_a_drawing_by_its_name_beside_the_score(run: Path) -> None:
    with open_readonly(run / "population.db") as reader:
        facts = gather(reader)
    text = page(facts)
    part = text[text.index('id="metrics"') : text.index('id="best"')]
    assert part.count("<svg") == 3 and "<h3>Score</h3>" in part and "<h3>half</h3>" in part
    assert part.count("<circle") == 3 * len(facts.measured)
    assert "<img" not in text and "\x1b" not in text


def test_a_task_without_metrics_has_no_such_part(tmp_path: Path) -> None:
    with open_readonly(make_run(tmp_path / "run") / "population.db") as reader:
        text = page(gather(reader))
    assert 'id="metrics"' not in text and 'href="#metrics"' not in text


def test_a_metric_that_is_the_score_is_not_drawn_again() -> None:
    rows = [
        CandidateMetrics(number, number, float(number), True, {"score": float(number), "half": number / 2})
        for number in range(3)
    ]
    text = metrics(rows, 3)
    assert text.count("<svg") == 2 and "<h3>half</h3>" in text and "<h3>score</h3>" not in text


def test_many_metrics_are_counted_and_one_that_is_no_number_leaves_a_gap() -> None:
    rows = [
        CandidateMetrics(0, 0, 1.0, True, {f"m{number:02}": 1.0 for number in range(MOST + 2)}),
        CandidateMetrics(1, 1, 2.0, True, {"m00": float("inf"), "m01": 3.0}),
    ]
    drawn = metrics(rows, 1)
    assert drawn.count("<svg") == MOST + 1 and "2 metrics more are not drawn." in drawn
    circles = [len(re.findall("<circle", card)) for card in drawn.split("<h3>")[1:4]]
    assert circles == [2, 1, 2]


def test_the_learners_part_counts_spikes_and_the_spread_of_rewards(run: Path) -> None:
    with open_readonly(run / "population.db") as reader:
        too_few = page(gather(reader))  # it trained seven
    with closing(sqlite3.connect(run / "population.db")) as database, database:
        database.execute("update groups set state = 'trained', entropy = 1.0, grad_norm = 1.0")
        latest = "(select max(group_number) from groups where state = 'trained')"
        database.execute(f"update groups set grad_norm = 2.5 where group_number = {latest}")
    with open_readonly(run / "population.db") as reader:
        text = page(gather(reader))
    assert "Spikes are counted from 8 trained groups on." in too_few
    assert "of the updates: 0 of the entropy, 1 of the gradient norm." in text
    assert re.search(r"first and last quarter of the groups: [\d.]+ → [\d.]+\.", text)
