"""Equal wall clock: which runs the comparison asks for, and what it reads from them."""

from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.task import load_task
from research.trials.equal_clock import ARMS, STEP, Timed, panels, report, sleeping_task
from research.trials.plan import CLOCK, FAMILIES, clock_arguments, confirmatory


def run(rate: float, gain: float) -> Timed:
    """A run that completes `rate` candidates a second, each of which is better by `gain`."""
    number = int(rate * CLOCK.seconds) + 50
    return Timed([(n + 1) / rate for n in range(number)], [gain * (n + 1) for n in range(number)], 0.0, 6.0, 0.5)


def test_its_seeds_are_those_of_no_family() -> None:
    own = set(range(CLOCK.first, CLOCK.first + CLOCK.seeds))
    assert not own & {seed for family in FAMILIES.values() for _, _, seed in confirmatory(family)}


def test_the_arms_differ_in_the_barrier_alone() -> None:
    barrier, free = (list(clock_arguments(arm, Path("task"), 3001)) for arm in ARMS)
    assert [word for word in free if word not in barrier] == ["--async", "--max-staleness", "2"]
    assert [word for word in barrier if word not in free] == ["--sync"]
    assert {word.removeprefix("--set=").partition(".")[0] for word in free if word.startswith("--set=")} <= set(
        Config.model_fields
    )


def test_the_sleeping_task_is_the_real_one_but_for_its_sleep(tmp_path: Path) -> None:
    real, asleep = load_task("columnar"), load_task(str(sleeping_task(tmp_path)))
    assert asleep.program.startswith(real.program)
    assert f"min({CLOCK.cap}" in asleep.program.removeprefix(real.program)
    assert asleep.spec.timeout_s == real.spec.timeout_s + CLOCK.cap
    assert asleep.spec.bounds == real.spec.bounds


def test_what_is_complete_later_does_not_count_at_an_earlier_time() -> None:
    one = Timed([10.0, 20.0, 400.0], [0.5, 0.7, 2.0], 0.1, 6.0, 0.5)
    assert [one.best_after(seconds) for seconds in (9.9, 10.0, 360.0)] == [0.1, 0.5, 0.7]
    assert one.done_after(360.0) == 2


def test_the_picture_shows_what_was_known_at_each_time() -> None:
    best, done = panels({"async": {4000: Timed([5.0, 15.0], [0.5, 0.7], 0.1, 6.0, 0.5)}, "sync": {}})
    assert best.arms["async"].curves[0][:3] == [0.1, 0.5, 0.7]
    assert done.arms["async"].curves[0][:3] == [0, 1, 2]
    assert len(best.arms["async"].curves[0]) == CLOCK.seconds // STEP + 1
    assert best.arms["sync"].curves == []


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ({"sync": 0.001, "async": 0.001}, f"async is ahead of sync after {CLOCK.seconds} s: reproduced"),
        ({"sync": 0.003, "async": 0.001}, f"async is ahead of sync after {CLOCK.seconds} s: contradicted"),
    ],
)
def test_the_verdict_follows_from_the_best_after_equal_time(gains: dict[str, float], verdict: str) -> None:
    rates = {"sync": 0.5, "async": 1.0}
    seeds = range(CLOCK.first, CLOCK.first + CLOCK.seeds)
    found = {arm: {seed: run(rates[arm], gains[arm] * (1 + seed % 3 / 100)) for seed in seeds} for arm in ARMS}
    assert verdict in report(found)
    after = int(rates["sync"] * CLOCK.seconds)
    gap = sum((gains["async"] - gains["sync"]) * after * (1 + seed % 3 / 100) for seed in seeds) / len(seeds)
    assert f"slower run of each pair: async less sync {gap:+.3f}" in report(found)
    del found["sync"][CLOCK.first]
    assert "No verdict: 9 of 10 pairs" in report(found)
