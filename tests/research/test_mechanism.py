"""Which moves improve a run: what the tables count."""

import pytest

from research.trials.mechanism import (
    GROUP,
    WINDOW,
    Move,
    Moves,
    ahead,
    arm_of,
    by_kind,
    kind_of,
    over_time,
    panels,
    stage_of,
)

HALVES = Moves(
    [Move(False, "unparsed", "")] * 2
    + [Move(False, "ok", "runs_coder")] * 4
    + [Move(True, "ok", "runs_coder")] * 3
    + [Move(False, "unchanged", "ids_map")] * 3,
    [0.5, 0.4],
    [0.0] * 12,
)


def climbing(*scores: float) -> Moves:
    """A run with these best scores after each group."""
    return Moves([Move(True, "ok", "")] * GROUP * len(scores), [], [score for score in scores for _ in range(GROUP)])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("pace-3", ("pace", 3)),
        ("columnar-alpha_fixed-1001-480", ("alpha fixed", 1001)),
        ("columnar_noisy-pace-1001-480", ("columnar noisy-pace", 1001)),
        ("run", ("run", 0)),
    ],
)
def test_a_folder_tells_arm_and_seed(name: str, found: tuple[str, int]) -> None:
    assert arm_of(name) == found


def test_a_run_is_ahead_from_the_group_after_which_it_is_never_again_behind() -> None:
    arms = {
        "none": {1: climbing(0.1, 0.2, 0.3, 0.4), 2: climbing(0.1, 0.1, 0.1, 0.1), 3: climbing(0.0, 0.0, 0.0, 0.5)},
        "pace": {1: climbing(0.2, 0.2, 0.4, 0.5), 2: climbing(0.2, 0.2, 0.2, 0.2), 3: climbing(0.1, 0.1, 0.1, 0.4)},
    }
    assert list(ahead(arms))[2:] == ["| pace | 3 | 3, 1, never | 4 |"]


def test_the_picture_has_a_window_of_groups_for_each_point_of_useful_moves() -> None:
    run = climbing(*(0.1 * group for group in range(WINDOW + 1)))
    best, useful, nats = panels({"pace": {1: run}})
    assert list(best.arms["pace"].curves[0]) == [0.1 * group for group in range(WINDOW + 1)]
    assert (useful.arms["pace"].start, list(useful.arms["pace"].curves[0])) == (WINDOW, [1.0, 1.0])
    assert nats.arms["pace"].curves == []


def test_a_kind_of_site_is_the_mechanism_without_its_column() -> None:
    assert kind_of("column2 runs_coder to rice from store.") == "runs_coder"
    assert kind_of("jitter to 0.01 from 0.03.") == ""
    assert kind_of("") == ""


def test_shares_are_those_of_each_part_of_a_run() -> None:
    assert list(over_time({"pace": {0: HALVES}}, 2))[2:] == [
        "| pace | 1 | useful | 0.000 | 0.500 |",
        "| pace | 1 | unparsed | 0.333 | 0.000 |",
        "| pace | 1 | unchanged | 0.000 | 0.500 |",
        "| pace | 1 | nats a token | 0.500 | 0.400 |",
    ]


def test_a_run_that_learned_nothing_has_no_entropy() -> None:
    lines = list(over_time({"none": {0: Moves(HALVES.moves, [], HALVES.best)}}, 2))
    assert not [line for line in lines if "nats" in line]


def test_a_kind_has_its_share_of_the_moves_and_the_share_of_them_that_was_useful() -> None:
    assert list(by_kind({"pace": {0: HALVES}}))[2:] == [
        "| ids_map | pace | 0.000 | 0.750 |  | 0.000 |",
        "| runs_coder | pace | 0.500 | 0.250 | 0.000 | 1.000 |",
    ]


def test_kinds_can_be_added_up_by_the_stage_of_the_pipeline() -> None:
    assert [line.split(" | ")[0] for line in by_kind({"pace": {0: HALVES}}, stage_of)][2:] == ["| coder", "| map"]
