"""Choices of `headroom.py` on expression_passes: what they take for alike, and what they know from other tables."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from pace_async.config import SearchConfig
from pace_async.task import load_task
from research.benchmarks import headroom
from research.benchmarks.headroom import MORE_ARMS, BroadBandit, Clairvoyant, Informed, curve_of, worth_on
from research.benchmarks.site_board import Board, Move, Values, changed


@pytest.fixture(scope="module")
def board() -> Board:
    return Board(load_task("expression_passes"), 3)


GOOD = {
    "polynomial": "factor common_factors fuse",
    "transform": "chain signed_digits common_terms",
    "mixing": "signed_digits chain common_terms",
    "address": "digits share fold",
    "distance": "common_factors squares common_terms",
    "gradient": "collect digits common_factors",
}


def good(board: Board, rounds: int = 0) -> Values:
    """Settings near the best known ones: one order for each kind."""
    steps = ("first", "second", "third")
    names = (target.partition(" ")[2].partition("_") for target in board.targets)
    return tuple(GOOD[kind].split()[steps.index(step)] for kind, _, step in names)


@pytest.fixture(scope="module")
def best(board: Board) -> Values:
    return good(board)


@pytest.fixture(scope="module", autouse=True)
def one_other_table() -> Iterator[None]:
    """One table, one comparison of each target's options and no search: enough for a test, and measured once."""
    patch = pytest.MonkeyPatch()
    patch.setattr(headroom, "OTHERS", (900,))
    patch.setattr(headroom, "COMPARED", 1)
    patch.setattr(headroom, "best_known", good)
    worth_on.cache_clear()
    yield
    patch.undo()
    worth_on.cache_clear()


def test_a_part_is_a_function_here_and_a_column_in_columnar(board: Board) -> None:
    place = board.targets.index("module3 mixing_second")
    assert board.parts[place] == "module3 mixing"
    assert len(set(board.parts)) == 48
    columns = Board(load_task("columnar"), 3)
    assert columns.parts[columns.targets.index("column2 woven_coder")] == "column2 woven"


def test_a_broad_bandit_learns_of_all_steps_and_modules_at_once(board: Board, best: Values) -> None:
    chooser, draw = BroadBandit(board, best), random.Random(0)
    first, last = (board.targets.index(name) for name in ("module1 mixing_first", "module8 mixing_third"))
    for option, gained in (("fuse", True), ("expand", False)):
        for _ in range(30):
            chooser.ended(board.start, changed(board.start, (first, option)), gained)
    taken = [chooser.choose(board.start, [(last, "expand"), (last, "fuse")], draw) for _ in range(20)]
    assert taken == [(last, "fuse")] * 20


@pytest.mark.long
def test_the_informed_choice_gains_more_than_a_uniform_one(board: Board, best: Values) -> None:
    chooser, draw = Informed(board, best), random.Random(0)
    assert chooser.worth["module polynomial_first", "factor"] > chooser.worth["module polynomial_first", "fold"]
    assert chooser.worth["module mixing_first", "expand"] < 0 < chooser.worth["module mixing_first", "signed_digits"]
    menus = [board.offered(board.start, draw) for _ in range(40)]

    def mean(moves: list[Move]) -> float:
        return float(np.mean([board.score(changed(board.start, move)) for move in moves]))

    informed, uniform = (
        mean([chooser.choose(board.start, menu, draw) for menu in menus]),
        mean(list(map(draw.choice, menus))),
    )
    assert informed > 2 * abs(uniform)


def test_the_clairvoyant_takes_the_best_of_each_menu(board: Board, best: Values) -> None:
    chooser, draw = Clairvoyant(board, best), random.Random(0)
    for _ in range(3):
        menu = board.offered(board.start, draw)
        taken = chooser.choose(board.start, menu, draw)
        assert taken in menu
        assert board.score(changed(board.start, taken)) == max(board.score(changed(board.start, move)) for move in menu)


@pytest.mark.parametrize("arm", [arm for arm in MORE_ARMS if "menu" in arm])
def test_a_search_improves_and_its_table_determines_it(board: Board, best: Values, arm: str) -> None:
    first, again = (curve_of(board, best, arm, 24, SearchConfig()) for _ in range(2))
    assert first == again == sorted(first)
    assert 0 <= first[0] < first[-1] < 1
