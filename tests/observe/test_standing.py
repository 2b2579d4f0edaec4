"""A best score is shown with its score on fresh instances and its relation to the best known score."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.config import StopConfig
from pace_async.events import FreshScore
from pace_async.fitness import Fitness
from pace_async.observe.layout import frame
from pace_async.observe.model import RunView
from pace_async.observe.plain import figures
from pace_async.observe.standing import share_of_best_known, to_best_known
from pace_async.observe.summary import closing_words
from tests.support.command_line import Shell
from tests.support.finished_runs import copy_run, make_run
from tests.support.fitness import DOWN, UP, either
from tests.support.observe_facts import fold_all
from tests.support.population_facts import HEADER, evaluated, rollout, seed_program

SEED, BEST, FRESH, KNOWN = 0.9598, 2.5, 2.4375, 2.6359831
SHARE = "0.948 of the best known"


@pytest.mark.parametrize(
    ("score", "known", "fitness", "said"),
    [
        (2.5, 2.6359831, UP, "0.948 of the best known 2.6360"),
        (2.63598309, 2.6359831, UP, "0.999 of the best known 2.6360"),
        (2.6359831, 2.6359831, UP, "1.000 of the best known 2.6360"),
        (2.7, 2.6359831, UP, "better than the best known 2.6360"),
        (8.0, 6.0, DOWN, "0.750 of the best known 6.0000"),
        (5.0, 6.0, DOWN, "better than the best known 6.0000"),
        (-3.0, -2.0, UP, "best known -2.0000"),
        (3.0, None, UP, ""),
    ],
)
def test_a_score_is_a_share_of_the_best_known(score: float, known: float | None, fitness: Fitness, said: str) -> None:
    assert to_best_known(score, known, fitness) == said


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), either)
def test_only_a_score_as_good_as_the_best_known_has_the_share_1(score: float, known: float, fitness: Fitness) -> None:
    share = share_of_best_known(score, known, fitness)
    assert share is not None
    assert (share >= 1) == (fitness.reaches(score, known))
    assert to_best_known(score, known, fitness).startswith("1.000") == (share == 1)


def confirmed_view() -> RunView:
    """A run whose best was confirmed at the second try."""
    opened, advised, _ = rollout(1)
    missed = FreshScore(1, BEST, "ok", 1.0, 0.9, False, 1.0)
    held = FreshScore(2, BEST, "ok", FRESH, 0.9, True, 1.0)
    facts = [seed_program(), opened, advised, replace(evaluated(1, 1, BEST), fresh=(missed, held))]
    return fold_all(replace(RunView(HEADER, StopConfig(candidates=9)), best_known=KNOWN, started_at=0.0), facts)


@pytest.mark.fault("Configuration and terminal", "a best score is shown with what fresh instances said of it")
@pytest.mark.parametrize(("columns", "rows"), [(200, 50), (120, 40), (80, 24), (60, 24)])
def test_the_screen_shows_the_fresh_score_and_the_share_beside_the_score(columns: int, rows: int) -> None:
    lines = [line.plain for line in frame(confirmed_view(), 4000.0, columns, rows)]
    line = next(line for line in lines if "2.5000  " in line)
    assert "2.4375" in line
    assert SHARE in line
    assert "…" not in line[: columns // 2 if columns >= 100 else columns]


def test_lines_and_the_summary_show_them_too() -> None:
    view = confirmed_view()
    assert f"best 2.5000 (2.4375 with a fresh seed, {SHARE})" in figures(view, 4000.0)
    words = "\n".join(closing_words(replace(view, state="done"), Path("runs/a"), 4000.0))
    assert "best        2.5000 (2.4375 with a fresh seed), candidate 1 of island 1" in words
    shared = replace(view, header=replace(view.header, trust="shared"))
    assert f"best 2.5000 (2.4375 in a second evaluation, {SHARE})" in figures(shared, 4000.0)
    assert f"{SHARE} 2.6360" in words


def test_a_fresh_score_that_repeats_the_score_is_not_shown(shell: Shell) -> None:
    view = confirmed_view()
    assert view.best is not None
    same = replace(view, best=replace(view.best, fresh=BEST))
    assert f"best 2.5000 (fresh seeds change nothing, {SHARE})" in figures(same, 4000.0)
    assert "best        2.5000 (fresh seeds change nothing)" in "\n".join(closing_words(same, Path("runs/a"), 4000.0))
    noisy = replace(same, header=replace(same.header, noisy=True))
    assert "2.5000 with a fresh seed" in figures(noisy, 4000.0), "it chooses the best there"
    [run] = (shell.folder / "runs").iterdir()
    assert "at fresh seeds" in shell.pace("compare", str(run)).out
    database = sqlite3.connect(run / "population.db")
    with database:
        database.execute("update fresh_scores set score = claimed where held")
    database.close()
    for command in ("best", "status"):
        assert "fresh score" in (said := shell.pace(command).out) and "the same: fresh seeds change nothing" in said
    assert "at fresh seeds" not in shell.pace("compare", str(run)).out
    shell.pace("report", "-o", "same.html")
    assert "the best with a fresh seed: fresh seeds change nothing" in (shell.folder / "same.html").read_text()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    run = copy_run(make_run(tmp_path / "made"), tmp_path)
    database = sqlite3.connect(run / "population.db")
    with database:
        best = database.execute("select candidate, score from candidates order by merit desc limit 1").fetchone()
        database.execute("delete from fresh_scores where candidate = ?", best[:1])
        for number, held, score in ((1, 0, 1.0), (2, 1, best[1] - 0.03125)):
            database.execute(
                "insert into fresh_scores (run_id, candidate, number, seed, claimed, outcome, score, own_score, held, "
                "seconds) values (1, ?, ?, ?, ?, 'ok', ?, 0.9, ?, 1.0)",
                (best[0], number, number, best[1], score, held),
            )
    database.close()
    return Shell(tmp_path, monkeypatch, capsys)


def test_commands_and_the_report_show_them(shell: Shell) -> None:
    best = json.loads(shell.pace("best", "--json").out)
    assert best["fresh_score"] == best["score"] - 0.03125
    assert best["best_known"] == KNOWN
    assert best["of_best_known"] == pytest.approx(best["score"] / KNOWN)
    status = json.loads(shell.pace("status", "--json").out)
    assert [status[name] for name in ("best_score", "best_fresh_score", "best_known", "of_best_known")] == [
        best[name] for name in ("score", "fresh_score", "best_known", "of_best_known")
    ]
    for command in ("best", "status"):
        said = shell.pace(command).out
        assert f"{best['fresh_score']:.10g}, on instances that no other score comes from" in said
        assert to_best_known(best["score"], KNOWN, UP) in said
    assert shell.pace("report", "-o", "page.html").code == 0
    page = (shell.folder / "page.html").read_text()
    assert "the best with a fresh seed" in page
    assert to_best_known(best["score"], KNOWN, UP, named=False) in page
