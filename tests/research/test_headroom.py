"""How much learning could gain on a task with sites: settings are those of programs, and each choice is what it
says."""

import random
import sys

import pytest

from pace_async.config import SearchConfig
from pace_async.task import load_task
from research.benchmarks import headroom
from research.benchmarks.headroom import (
    CHOOSERS,
    Board,
    Clairvoyant,
    Oracle,
    Values,
    best_known,
    changed,
    curve_of,
    main,
    paired,
    report,
)


@pytest.fixture(scope="module")
def board() -> Board:
    return Board(load_task("columnar"), 3)


@pytest.fixture(autouse=True)
def few_programs_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headroom, "HALF_WAY", 2)


@pytest.fixture(scope="module")
def best(board: Board) -> Values:
    return best_known(board, rounds=0)


def test_settings_have_the_score_of_the_program_that_has_them(board: Board) -> None:
    place = board.targets.index("column2 woven_coder")
    stored = dict.fromkeys(board.evaluator.NAMES, "none none wide store")
    expected = board.evaluator.score([None], [{**stored, "woven2": "none none wide lzma"}], 3)["score"]
    assert board.score(changed(board.start, (place, "lzma"))) == expected
    assert board.score(board.start) == board.evaluator.score([None], [stored], 3)["score"]
    assert len(board.moves(board.start)) == 24 * (24 + 14 + 10 + 8 - 4)
    assert board.kinds[place] == "column woven_coder"


def test_a_menu_offers_a_part_of_the_moves(board: Board) -> None:
    offered = board.offered(board.start, random.Random(0))
    assert set(offered) <= set(board.moves(board.start))
    assert 0 < len(offered) <= 32


@pytest.mark.long
def test_no_single_edit_improves_the_best_known_settings(board: Board, best: Values) -> None:
    reached = board.score(best)
    assert reached > 3.0
    assert all(board.score(changed(best, move)) <= reached for move in board.moves(best))


def test_the_clairvoyant_takes_the_best_edits_in_order(board: Board, best: Values) -> None:
    chooser, moves, draw = Clairvoyant(board, best), board.moves(board.start), random.Random(0)
    taken = [board.score(changed(board.start, chooser.choose(board.start, moves, draw))) for _ in range(3)]
    assert taken == sorted((board.score(changed(board.start, move)) for move in moves), reverse=True)[:3]


def test_the_oracle_gives_most_weight_to_what_helps_the_kind(board: Board, best: Values) -> None:
    means = Oracle(board, best).means
    assert means["column runs_coder", "zlib"] > 10 * means["column runs_coder", "store"]
    assert means["column sensor_predictor", "lag1"] > means["column sensor_predictor", "lag24"]


@pytest.mark.long
@pytest.mark.parametrize(
    "arm", [*sorted(CHOOSERS.keys() - {"informed"}), "none (menu)", "bandit (menu)", "oracle (menu)"]
)
def test_a_search_improves_and_its_table_determines_it(board: Board, best: Values, arm: str) -> None:
    first, again = (curve_of(board, best, arm, 24, SearchConfig()) for _ in range(2))
    assert first == again == sorted(first)
    assert 0 <= first[0] < first[-1] < 1


def test_the_table_compares_the_arms_on_equal_tables() -> None:
    curves = {"none": [[0.1, 0.2], [0.2, 0.4]], "oracle": [[0.3, 0.5], [0.4, 0.7]]}
    lines = list(report(curves, [1, 2]))
    assert lines[2] == "| none | 0.150 ± 0.071 |  | 0.300 ± 0.141 |  | 2 (2 never) |"
    assert lines[3] == (
        "| oracle | 0.350 ± 0.071 | +0.200 [+0.200, +0.200] | 0.600 ± 0.141 | +0.300 [+0.300, +0.300] | 2 |"
    )
    assert paired([1.0, 3.0]) == "+2.000 [-10.706, +14.706]"


def test_a_task_without_a_dictionary_of_settings_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["headroom.py", "--task", "nosuch"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "nosuch" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        _ = Board(load_task("prism"), 0).chosen
    assert "no dictionary of settings" in capsys.readouterr().err
