"""What was paid up to each improvement, as the database sums it up, and what it counts."""

from collections import Counter
from pathlib import Path
from typing import Literal

import pytest

from pace_async.population.connect import engine
from pace_async.population.reading.browse import Selection
from pace_async.population.reading.money import money_of
from pace_async.population.reading.reader import open_readonly
from scripts.benchmarks.large_population import fill
from tests.support.population_facts import empty_place

KINDS: tuple[tuple[Literal["candidates", "rollouts"], str], ...] = (("candidates", "candidate"), ("rollouts", "lease"))


@pytest.mark.usefixtures("both")
def test_the_database_sums_and_counts_what_the_rows_say(tmp_path: Path) -> None:
    place = empty_place(tmp_path)
    fill(place, 60, prompt_tokens=4, lines=2)
    writer = engine(place, "write")
    with writer.begin() as connection:
        value = "candidate * (candidate - candidate / 3 * 3)"
        connection.exec_driver_sql(f"update candidates set score = {value}, merit = {value} where score is not null")
    writer.dispose()
    with open_readonly(place) as reader:
        money = reader.ask(money_of)
        calls = reader.query("select at, cost_usd from implementer_calls")
        rows = reader.query("select candidate, outcome, score from candidates order by at, candidate")
    better: list[tuple[int, int, float]] = []
    for number, row in enumerate(rows):
        if row["score"] is not None and (not better or row["score"] > better[-1][2]):
            better.append((number, row["candidate"], row["score"]))
    assert [(one.place, one.candidate, one.score) for one, _ in money.improvements] == better
    assert len(better) > 10
    for one, usd in money.improvements:
        assert usd == pytest.approx(sum(call["cost_usd"] for call in calls if call["at"] <= one.at))
    assert (money.improvements[-1].usd or 0.0) > 0.0
    assert money.outcomes == Counter(row["outcome"] for row in rows if row["candidate"] > 0)
    assert sum(one.calls for one in money.spend if one.role == "implementer") == len(calls)


@pytest.mark.usefixtures("both")
def test_what_calls_without_a_price_cost_is_null_in_every_answer(tmp_path: Path) -> None:
    place = empty_place(tmp_path)
    fill(place, 12, prompt_tokens=4, lines=2)
    with open_readonly(place) as reader:
        priced = reader.query("select lease from implementer_calls where cost_usd > 0 order by lease")
    unknown, known = priced[0]["lease"], priced[1]["lease"]
    writer = engine(place, "write")
    with writer.begin() as connection:
        connection.exec_driver_sql(f"update implementer_calls set cost_usd = 0 where lease = {unknown}")
        connection.exec_driver_sql("update implementer_calls set prompt_tokens = 9")
    writer.dispose()
    with open_readonly(place) as reader:
        status, [summary], money = reader.status(), reader.summaries(), reader.ask(money_of)
        shown = {lease: reader.show(lease)["cost_usd"] for lease in (unknown, known)}
        browsed = {row["candidate"]: row["cost_usd"] for row in reader.browse(Selection(), 0, 100).rows}
        rows = [{row[key]: row["cost_usd"] for row in reader.stream(kind)} for kind, key in KINDS]
    assert (status["spend_usd"], summary.spend_usd) == (None, None)
    assert status["spend_known_usd"] == summary.spend_known_usd > 0
    assert {one.usd for one in money.spend if one.role == "implementer"} == {None}
    assert {usd for _, usd in money.improvements} == {None}
    for costs in (shown, browsed, *rows):
        assert costs[unknown] is None and costs[known] > 0
