"""A long run's drawings: their size is bounded, and what matters is shown."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pace_async.population.reading import account
from pace_async.population.reading.reader import open_readonly
from pace_async.population.reading.worth_telling import worth_telling
from pace_async.report.facts import gather
from pace_async.report.learning import panels
from pace_async.report.page import page
from pace_async.report.progress_axis import CHOICES, MOST, axis_of, thinned
from scripts.benchmarks.large_population import fill
from tests.support.finished_runs import make_run
from tests.support.fitness import DOWN, UP

LONG, SHORT = 6_000, 2_400


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """The bytes of the reports of a run and of a longer one."""
    found: list[int] = []
    for candidates in (SHORT, LONG):
        file = tmp_path_factory.mktemp("long") / "population.db"
        fill(file, candidates, prompt_tokens=8, lines=2)
        with open_readonly(file) as reader:
            found.append(len(page(gather(reader))))
    yield found


@pytest.mark.long
@pytest.mark.nightly
def test_a_report_of_a_longer_run_is_hardly_larger(sizes: list[int]) -> None:
    assert sizes[1] < 1.5 * sizes[0] < 2_000_000


def test_points_are_thinned_to_means_and_none_is_lost() -> None:
    points = [(float(n), float(n % 2)) for n in range(10 * MOST)]
    found = thinned(points)
    assert len(found) == MOST and {y for _, y in found} == {0.5}
    assert sum(x for x, _ in found) * 10 == sum(x for x, _ in points)
    assert thinned(points[:7]) == points[:7]


def test_the_best_with_their_ancestors_and_each_islands_records_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = {0: None, 1: 0, 2: 1, 3: 0, 4: 2, 5: 0}
    scores = {0: 1.0, 1: None, 2: 0.5, 3: 0.4, 4: 0.9, 5: 0.8}
    islands = {0: None, 1: 1, 2: 1, 3: 1, 4: 2, 5: 2}
    rows = [(n, "", scores[n], parents[n], islands[n], float(n)) for n in parents]
    monkeypatch.setattr("pace_async.population.reading.worth_telling.BEST", 2)
    assert worth_telling(rows, UP) == {0, 1, 2, 4}
    assert worth_telling(rows, DOWN) == {0, 1, 2, 3, 4, 5}


def test_of_a_long_run_only_the_important_candidates_are_shown_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    with open_readonly(run / "population.db") as reader:
        whole = gather(reader)
        monkeypatch.setattr(account, "TOLD", 5)
        monkeypatch.setattr("pace_async.population.reading.worth_telling.BEST", 3)
        partly = gather(reader)
    assert [row.experiment for row in partly.lineage] == [row.experiment for row in whole.lineage]
    told = [sum(row.experiment is not None for row in one.account.candidates) for one in (partly, whole)]
    assert 0 < told[0] < told[1]
    assert [row[:7] for row in partly.account.candidates] == [row[:7] for row in whole.account.candidates]


@pytest.mark.parametrize("by", CHOICES)
def test_each_axis_has_every_panel_and_stays_within_its_edges(tmp_path: Path, by: str) -> None:
    run = make_run(tmp_path / "run")
    with closing(sqlite3.connect(run / "population.db")) as database, database:
        measured = '{"ess_age_0": 0.9, "ess_age_1": 0.8, "k3_age_0": 0.01, "tokens_age_0": 5.0}'
        database.execute("update groups set metrics = ? where state = 'trained'", (measured,))
    with open_readonly(run / "population.db") as reader:
        facts = gather(reader)
    axis = axis_of(facts.account, by)  # type: ignore[arg-type]
    drawn = dict(panels(facts, axis))
    assert next(iter(drawn)) == "Best score so far"
    assert {"Spread of the rewards in a group (standard deviation)", "Share of answers that parse"} <= set(drawn)
    aged = drawn["Effective sample size by age of the tokens, share"]
    assert aged.count('" class="mean"></path>') == 2 and "<title>age 1</title>" in aged
    low, high = axis.edges
    assert all(low <= axis.at(row.at) <= high for row in facts.account.candidates)
