"""The scaffold's comparison: what each arm runs, and that its table says what the runs' rows say."""

import argparse
import re
import sqlite3
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from pace_async.configure import resolve
from research.benchmarks.bench_runs import connect
from research.benchmarks.bench_scaffold import ALL, ARMS, ended, folder_of, main, wanted
from tests.support.finished_runs import make_run

TASK = "circle_packing"


def chosen(folder: Path) -> argparse.Namespace:
    """The parsed arguments."""
    return argparse.Namespace(folder=folder, candidates=480, islands=4, objective="none")


def test_every_arm_is_a_configuration_and_no_two_are_the_same(tmp_path: Path) -> None:
    searches = set[str]()
    for arm in ARMS:
        given = wanted(chosen(tmp_path), TASK, arm, 0).arguments
        pairs = [text.split("=", 1) for flag, text in pairwise(given) if flag == "--set"]
        settings = {name: text for name, text in pairs if name.startswith("search.")}
        searches.add(str(resolve(None, settings, environment={}).search))
    assert len(searches) == len(ARMS)


def test_parts_left_out_are_settings_of_the_search() -> None:
    every = resolve(None, {f"search.{name}": value for name, value in ALL.items()}, environment={}).search
    assert (every.backtracking, every.actions, every.parents, every.migration) == (True, "both", "tournament", 0.0)


def test_the_table_counts_actions_and_repeated_ideas_from_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        make_run(folder_of(chosen(tmp_path), TASK, "all", seed))
        make_run(folder_of(chosen(tmp_path), TASK, "top-k", seed))
    folder = folder_of(chosen(tmp_path), TASK, "all", 0)
    with sqlite3.connect(folder / "population.db") as database:
        [tried] = database.execute("select count(*) from experiments where idea is not null").fetchone()
        database.execute("update ideas set description = 'one and the same'")
    database.close()
    [islands] = (
        connect(folder).execute("select count(distinct island) from experiments where idea is not null").fetchone()
    )
    assert ended(folder).again == pytest.approx(1.0 - islands / tried)
    arguments = ["--report-only", "--folder", str(tmp_path), "--arms", "all,top-k", "--seeds", "0-2"]
    monkeypatch.setattr(sys, "argv", ["bench_scaffold.py", *arguments])
    assert main() == 0
    said = capsys.readouterr().out
    assert re.search(r"^\| all \| \d", said, re.MULTILINE)
    assert re.search(r"^\| all − top-k \| ", said, re.MULTILINE)
    assert (tmp_path / f"scaffold_{TASK}.svg").read_text().startswith("<?xml")
