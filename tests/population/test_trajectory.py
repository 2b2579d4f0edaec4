"""How a run went, and the metrics of its candidates, on both kinds of database."""

from pathlib import Path

import pytest

from pace_async.population.connect import engine
from pace_async.population.reading.candidate_metrics import measured_of
from pace_async.population.reading.reader import open_readonly
from scripts.benchmarks.large_population import fill
from tests.support.population_facts import empty_place


@pytest.mark.usefixtures("both")
def test_places_fresh_scores_and_metrics_are_what_the_rows_say(tmp_path: Path) -> None:
    place = empty_place(tmp_path)
    fill(place, 60, prompt_tokens=4, lines=2)
    writer = engine(place, "write")
    with writer.begin() as connection:
        value, confirmed = "candidate * (candidate - candidate / 7 * 7)", "candidate - candidate / 5 * 5"
        for statement in (
            f"update candidates set score = {value}, merit = {value}, metrics = '{{\"half\": 0.5}}' "
            "where score is not null",
            "update runs set noisy = true",
            f"insert into fresh_scores select run_id, candidate, 1, 5, score, 'ok', {confirmed}, 0, true, 0.1, "
            "null, null from candidates where score is not null",
        ):
            connection.exec_driver_sql(statement)
    writer.dispose()
    with open_readonly(place) as reader:
        trajectory, measured = reader.trajectory(), reader.ask(measured_of)
        some = reader.answer(lambda connection: measured_of(connection, 1, most=5))
        calls = reader.query("select at, cost_usd from implementer_calls")
        rows = reader.query("select candidate, at, score from candidates order by at, candidate")
    scored = [(number, row) for number, row in enumerate(rows) if row["score"] is not None]
    best = _records([(number, row["score"]) for number, row in scored])
    fresh = _records([(number, row["candidate"] % 5) for number, row in scored if row["candidate"]])
    assert [(at.candidates, score) for at, score in trajectory.scores] == best and len(best) > 3
    assert [(at.candidates, score) for at, score in trajectory.fresh] == fresh and len(fresh) > 1
    assert trajectory.end.candidates == len(rows) - 1
    assert trajectory.end.usd == pytest.approx(sum(call["cost_usd"] for call in calls if call["at"] <= rows[-1]["at"]))
    assert [row.completed for row in measured] == [number for number, _ in scored]
    assert [row.completed for row in measured if row.improved] == [number for number, _ in best]
    apart = -(-len(rows) // 5)
    assert [row.completed for row in some] == [
        number for number, _ in scored if number % apart == 0 or number in dict(best)
    ]
    assert all(row.metrics == {"half": 0.5} for row in some)


def _records(values: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Those greater than all before them."""
    return [
        (number, value) for place, (number, value) in enumerate(values) if all(value > old for _, old in values[:place])
    ]
