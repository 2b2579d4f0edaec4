"""The trials of learning: which runs they ask for, and the statistics that decide a verdict."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from research.science import main
from research.trials.figures import Figures, difference, holm, verdict
from research.trials.page import Found, verdicts
from research.trials.plan import (
    CANDIDATES,
    CORRECTIONS,
    FAMILIES,
    FRESH,
    OBJECTIVES,
    OWN_RATE,
    TESTBEDS,
    THREADS,
    Comparison,
    Family,
    arm_arguments,
    confirmatory,
    own,
    run_of,
)

LEARNING = FAMILIES["learning"]
BETTER = Comparison("ours is better", "columnar", "pace", "none", "share after 1000", +1, 10)
SOONER = Comparison("ours is sooner", "columnar", "pace", "none", "evaluations to the mark", -1, 10)
EQUAL = Comparison("they are equivalent", "columnar", "pace", "sync", "share after 1000", 0, 10)


def figures(end: float, length: int = CANDIDATES) -> Figures:
    """A run whose share grows evenly to its end."""
    return Figures([end * (place + 1) / length for place in range(length)], 125, 0, 1, 0.99, (0.3, 0.2), 100.0, 1.2)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_every_comparison_has_its_runs_on_both_sides_and_on_fresh_seeds_alone(family: Family) -> None:
    runs = set(confirmatory(family))
    for comparison in family.comparisons:
        for seed in range(family.first, family.first + comparison.seeds):
            assert {(comparison.testbed, arm, seed) for arm in (comparison.ours, comparison.theirs)} <= runs
    assert {testbed for testbed, _, _ in runs} <= set(TESTBEDS)
    assert min(seed for _, _, seed in runs) == family.first >= FRESH
    assert len(runs) == len(confirmatory(family))


def test_families_share_no_seed() -> None:
    every = [seed for family in FAMILIES.values() for seed in {seed for _, _, seed in confirmatory(family)}]
    assert len(every) == len(set(every))


def test_every_objective_is_compared_at_its_own_rate() -> None:
    arms = {arm for one in FAMILIES["objectives"].comparisons for arm in (one.ours, one.theirs)}
    assert set(OWN_RATE) == set(OBJECTIVES)
    for objective, rate in OWN_RATE.items():
        named = [arm_arguments()[arm] for arm in arms if arm.startswith(objective)]
        assert len(named) == 1
        assert f"--set=learner.tiny_learning_rate={rate:g}" in named[0]
        assert named[0][named[0].index("--objective") + 1] == objective
    [sync] = [arm_arguments()[arm] for arm in arms if arm.startswith("sync")]
    assert [given for given in sync if given != "--sync"] == [*arm_arguments()[own("pace")]]


def test_arms_of_a_seed_search_in_the_same_hidden_instance_and_differ_in_what_their_name_says(tmp_path: Path) -> None:
    none, pace = (run_of(tmp_path, "columnar", arm, 1003, CANDIDATES).arguments for arm in ("none", "pace"))
    for arguments in (none, pace):
        assert "--set=evaluation.seed=1003" in arguments
        assert arguments[arguments.index("--seed") + 1] == "1003"
    assert [given for given in none if given not in pace] == ["none"]
    assert {given for given in pace if given not in none} <= {*arm_arguments()["pace"]}
    assert not any(given.startswith(("--set=search", "--set=advisor")) for given in pace if given not in none)


def test_the_names_of_arms_are_names_of_different_folders(tmp_path: Path) -> None:
    folders = {run_of(tmp_path, "columnar", arm, 1, 480).folder for arm in arm_arguments()}
    assert len(folders) == len(arm_arguments())


def test_a_difference_is_paired_by_seed_and_has_the_interval_and_the_p_of_a_t_test() -> None:
    draw = random.Random(3)
    theirs = {seed: draw.random() for seed in range(12)}
    ours = {seed: value + draw.gauss(0.1, 0.05) for seed, value in theirs.items() if seed != 5}
    found = difference(ours, theirs | {99: 7.0})
    assert found is not None
    test: Any = stats
    expected = test.ttest_rel([ours[seed] for seed in ours], [theirs[seed] for seed in ours])
    low, high = expected.confidence_interval(0.95)
    assert (found.pairs, found.p) == (11, pytest.approx(expected.pvalue))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert difference({1: 0.5}, {2: 0.5}) is None


def test_a_single_pair_and_differences_that_do_not_vary_have_no_p() -> None:
    for ours in ({1: 0.5}, {1: 0.5, 2: 0.75}):
        found = difference(ours, {seed: value - 0.25 for seed, value in ours.items()})
        assert found is not None
        assert found.mean == 0.25
        assert math.isnan(found.p)


def test_holm_rejects_what_the_step_down_procedure_rejects() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("comparison", "gap", "said"),
    [
        (BETTER, 0.1, "reproduced"),
        (BETTER, -0.1, "contradicted"),
        (SOONER, -0.1, "reproduced"),
        (SOONER, 0.1, "contradicted"),
    ],
)
def test_the_sign_of_a_significant_difference_decides(comparison: Comparison, gap: float, said: str) -> None:
    found = difference({seed: gap + seed / 1e4 for seed in range(10)}, dict.fromkeys(range(10), 0.0))
    assert found is not None
    assert verdict(comparison, found, found.p) == said
    assert verdict(comparison, found, 0.05) == "not told apart"


def test_two_arms_are_equivalent_only_if_their_interval_lies_within_the_margin() -> None:
    near = difference({seed: (-1) ** seed * 0.02 for seed in range(10)}, dict.fromkeys(range(10), 0.0))
    far = difference({seed: 0.06 + (-1) ** seed * 0.02 for seed in range(10)}, dict.fromkeys(range(10), 0.0))
    wide = difference({seed: (-1) ** seed * 0.4 for seed in range(10)}, dict.fromkeys(range(10), 0.0))
    said = [verdict(EQUAL, found, found.equivalent_p) for found in (near, far, wide) if found is not None]
    assert said == ["reproduced", "not told apart", "not told apart"]


def test_a_run_that_never_reaches_the_mark_counts_with_its_whole_length() -> None:
    never, late = figures(0.4), figures(1.0)
    assert never.censored
    assert never.measured("evaluations to the mark") == CANDIDATES
    assert not late.censored
    assert late.measured("evaluations to the mark") == CANDIDATES / 2
    assert late.measured("share after 480") == pytest.approx(0.48)
    assert late.measured("area") == pytest.approx(0.5005)


def ended(arms: dict[str, float]) -> Found:
    """Every run that a verdict needs. The share at the end of each arm's runs varies a little."""
    draw, runs = random.Random(1), dict[tuple[str, str], dict[int, Figures]]()
    for testbed, arm, seed in confirmatory(LEARNING):
        runs.setdefault((testbed, arm), {})[seed] = figures(arms.get(arm, 0.4) + draw.gauss(0, 0.01))
    return runs


def test_a_verdict_is_said_once_every_seed_of_its_comparison_has_run() -> None:
    whole = ended({"pace": 0.7, "bandit": 0.8})
    said = list(verdicts(LEARNING.comparisons, whole))[2:]
    assert [line.split("|")[-2].strip() for line in said] == ["reproduced"] * len(LEARNING.comparisons)
    part: Found = {**whole, ("expression_passes", "pace"): {}}
    cells = [line.split("|") for line in list(verdicts(LEARNING.comparisons, part))[2:]]
    assert {line[-2].strip() for line in cells if line[2].strip() == "columnar"} == {"reproduced"}
    assert {(line[-2].strip(), line[-3].strip()) for line in cells if line[2].strip() != "columnar"} == {
        ("still running", "")
    }


def test_a_correction_for_comparisons_that_still_run_is_never_too_small() -> None:
    whole = ended({"pace": 0.41, "bandit": 0.415})
    part: Found = {**whole, ("expression_passes", "pace"): {}}
    tables = (list(verdicts(LEARNING.comparisons, found))[2:7] for found in (whole, part))
    for final, early in zip(*tables, strict=True):
        assert float(final.split("|")[-3]) <= float(early.split("|")[-3]) * 1.01


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["verdicts", "--seeds", "0-2"], "leave out --seeds"),
        (["explore", "--seeds", "3"], "seeds of develop are below 1000"),
        (["develop", "--seeds", "1000"], "seeds of develop are below 1000"),
        (["develop", "--arms", "magic"], "there is no arm magic"),
        (["explore", "--candidates", "500"], "480 or 1000 candidates"),
    ],
)
def test_what_the_plan_does_not_allow_is_refused(
    arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["science.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_larger_bound_has_threads_enough_to_make_tokens_as_old() -> None:
    arms = arm_arguments()
    for bound, threads in THREADS.items():
        assert threads >= bound * 8
        compared = [given for arm, given in arms.items() if arm.startswith(f"staleness {bound} ")]
        assert len(compared) == len(CORRECTIONS)
        assert len(set(compared)) == len(CORRECTIONS)
        for given in (*compared, arms[f"none with {threads} threads"]):
            assert f"--set=search.threads={threads}" in given
        assert all(given[given.index("--max-staleness") + 1] == str(bound) for given in compared)
