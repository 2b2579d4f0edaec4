"""The simulation of a search with several objectives: its volume is right, its seed decides, and it finds a front."""

from random import Random
from statistics import mean

import pytest

from research.benchmarks.fronts import LEAST, MARK, crossed, main, mutated, nsga2, searched, values, volume

SEEDS = range(4)


def test_the_volume_of_the_known_front_of_zdt1_is_its_integral() -> None:
    front = [values("zdt1", [at / 2000, 0.0, 0.0]) for at in range(2001)]
    below_one = 1.0 - 1.0 / 3.0  # the area above 1 - sqrt(f) and below 1, from 0 to 1
    assert volume(front) == pytest.approx(below_one + 0.1 * MARK + 0.1, abs=2e-3)
    assert volume([(0.0, LEAST)]) == pytest.approx(MARK * (MARK - LEAST))


def test_children_stay_within_the_bounds_and_differ_from_their_parents() -> None:

    draw, x, other = Random(1), [0.0, 0.5, 1.0], [1.0, 0.5, 0.0]
    for _ in range(500):
        child = mutated(crossed(x, other, draw), draw)
        assert all(0.0 <= one <= 1.0 for one in child)
    assert mutated(x, draw) != x


@pytest.mark.long
@pytest.mark.nightly
def test_the_front_is_found_and_the_seed_determines_everything() -> None:
    size = (5, 600, 4)
    found = [searched("zdt2", "mutation", seed, *size) for seed in SEEDS]
    assert found == [searched("zdt2", "mutation", seed, *size) for seed in SEEDS]
    assert mean(found) > 1.3 * mean(searched("zdt2", "score", seed, *size) for seed in SEEDS)


@pytest.mark.long
@pytest.mark.parametrize("name", ["zdt1", "zdt2", "zdt3"])
def test_the_hypervolume_is_at_most_five_percent_below_that_of_nsga2(name: str) -> None:
    pytest.importorskip("pymoo")
    size = (10, 2000)
    ours = mean(searched(name, "mutation", seed, *size, 8, 1.5) for seed in SEEDS)
    assert ours > 0.95 * mean(nsga2(name, seed, *size) for seed in SEEDS)


def test_the_table_has_a_row_for_each_arm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["fronts", "--seeds", "0-1", "--evaluations", "20", "--arms", "mutation,score"]
    monkeypatch.setattr("sys.argv", given)
    assert main() == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[1] for row in rows[2:]] == ["mutation", "score"] * 3
