"""By which moves a run wins: what the tables count."""

from scripts.trials.mechanism import Move, Moves, by_kind, kind_of, over_time

HALVES = Moves(
    [Move(False, "unparsed", "")] * 2
    + [Move(False, "ok", "runs_coder")] * 4
    + [Move(True, "ok", "runs_coder")] * 3
    + [Move(False, "unchanged", "ids_map")] * 3,
    [0.5, 0.4],
)


def test_a_kind_of_site_is_the_mechanism_without_its_column() -> None:
    assert kind_of("column2 runs_coder to rice from store.") == "runs_coder"
    assert kind_of("jitter to 0.01 from 0.03.") == ""
    assert kind_of("") == ""


def test_shares_are_those_of_each_part_of_a_run() -> None:
    assert list(over_time({"pace": [HALVES]}, 2))[2:] == [
        "| pace | 1 | useful | 0.000 | 0.500 |",
        "| pace | 1 | unparsed | 0.333 | 0.000 |",
        "| pace | 1 | unchanged | 0.000 | 0.500 |",
        "| pace | 1 | nats a token | 0.500 | 0.400 |",
    ]


def test_a_run_that_learned_nothing_has_no_entropy() -> None:
    lines = list(over_time({"none": [Moves(HALVES.moves, [])]}, 2))
    assert not [line for line in lines if "nats" in line]


def test_a_kind_has_its_share_of_the_moves_and_the_share_of_them_that_was_useful() -> None:
    assert list(by_kind({"pace": [HALVES]}))[2:] == [
        "| ids_map | pace | 0.000 | 0.750 |  | 0.000 |",
        "| runs_coder | pace | 0.500 | 0.250 | 0.000 | 1.000 |",
    ]
