"""Comparing runs from Python: the value that the command prints, with its figures, its sentences and its plot."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import pace_async
from pace_async.errors import UsageError
from tests.support.changed_runs import OTHER, SEED, WORSE, changed_runs
from tests.support.finished_runs import pace

CHANGES = {"one": (), "two": (SEED,), "three": (OTHER, WORSE)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return changed_runs(tmp_path_factory.mktemp("runs"), CHANGES)


@pytest.mark.long
def test_it_is_what_the_command_prints(folder: Path) -> None:
    comparison = pace_async.compare(folder)
    told = json.loads(pace("compare", str(folder), "--json", cwd=folder).stdout)
    assert json.loads(json.dumps(comparison.document())) == told
    assert pace("compare", str(folder), cwd=folder).stdout == f"{comparison!r}\n"
    assert str(comparison) == repr(comparison)


def test_runs_are_named_by_folder_by_path_or_as_opened(folder: Path) -> None:
    opened = pace_async.open(folder / "two")
    comparison = pace_async.compare(str(folder / "one"), opened, folder / "three", by="hours")
    assert [row["run"] for row in comparison.runs] == ["one", "two", "three"]
    assert [(row["arm"], row["against"]) for row in comparison.differences] == [("B", "A")]
    assert comparison.differences[0]["difference"] == pytest.approx(-0.1)
    assert comparison.verdicts[0].startswith("Whether B and A differ cannot be said")
    assert comparison.by == "hours" and comparison.place == max(row["length"] for row in comparison.runs)


def test_what_cannot_be_compared_is_refused_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    by: Any = "groups"
    for call in (
        pace_async.compare,
        lambda: pace_async.compare(tmp_path),
        lambda: pace_async.compare(tmp_path / "none"),
        lambda: pace_async.compare(folder, by=by),
    ):
        with pytest.raises(UsageError):
            call()


def test_the_plots_legend_covers_no_data_and_the_file_is_what_is_asked_for(folder: Path, tmp_path: Path) -> None:
    comparison = pace_async.compare(folder)
    figure = comparison.plot(tmp_path / "curve.svg")
    figure.canvas.draw()
    [axes], [legend] = figure.axes, figure.legends
    assert legend.get_window_extent().y1 < axes.get_window_extent().y0
    assert axes.get_legend() is None and axes.get_xlabel() == "candidates complete"
    assert [text.get_text() for text in legend.get_texts()] == [
        "A, learner.k=2 (2 seeds, mean and 95 % interval)",
        "B, learner.k=4 (three)",
    ]
    first = (tmp_path / "curve.svg").read_bytes()
    comparison.plot(tmp_path / "curve.svg")
    assert (tmp_path / "curve.svg").read_bytes() == first
    with pytest.raises(UsageError, match=r"not .curve\.pdf"):
        comparison.plot(tmp_path / "curve.pdf")


def test_without_matplotlib_only_the_plot_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="pip install"):
        pace_async.compare(folder).plot()
