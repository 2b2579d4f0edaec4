"""The rules by which an evaluation ends early, and how what is reported is read."""

import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_async.config import EvaluationConfig
from pace_async.evaluate.pruning import LONGEST_LINE, MOST_POINTS, Bar, Reports, Rule, Rules, bar_of, in_words, rules_of
from pace_async.events import Curve
from pace_async.fitness import fitness_of

HIGHER, LOWER = fitness_of("maximize", 0.0, 1.0), fitness_of("minimize", 0.0, 1.0)
LISTENS = Bar("median", HIGHER)


def curve_of(*values: float) -> Curve:
    return tuple(enumerate(values, 1))


def line(step: object, value: object) -> bytes:
    return json.dumps({"step": step, "value": value}).encode() + b"\n"


def stops_at(bar: Bar, values: Sequence[float]) -> int | None:
    """The step at which these values, from step 1 on, are stopped."""
    reports = Reports(bar)
    for step, value in enumerate(values, 1):
        reports.add(step, value)
        if reports.missed is not None:
            return step
    return None


def test_median_compares_the_best_so_far_with_the_completed_ones_at_the_same_step() -> None:
    earlier = [(curve_of(0.1, final), True) for final in (0.3, 0.4, 0.5, 0.6, 0.7)]
    bar = bar_of(Rules("median"), [*earlier, (curve_of(9.0, 9.0), False)], HIGHER)
    assert stops_at(bar, (0.1, 0.5)) is None  # equal goes on
    assert stops_at(bar, (0.1, 0.49)) == 2
    assert stops_at(bar, (0.55, 0.2)) is None
    assert stops_at(bar, (0.09, 9.9)) == 1
    assert stops_at(bar, (0.1, 0.5, 0.0)) is None  # no earlier one came so far


def test_where_lower_is_better_the_larger_value_is_stopped() -> None:
    bar = bar_of(Rules("median"), [(curve_of(value), True) for value in (0.1, 0.2, 0.3, 0.4, 0.5)], LOWER)
    reports = Reports(bar)
    reports.add(1, 0.31)
    assert reports.missed == pytest.approx(0.3)
    assert in_words(reports.curve, 0.3) == "stopped at step 1 with 0.31, where earlier programs had 0.3"
    assert stops_at(bar, (0.3,)) is None


@pytest.mark.parametrize("rule", ["median", "asha"])
def test_warm_up_too_few_earlier_curves_and_the_margin_each_let_it_go_on(rule: Rule) -> None:
    earlier = [(curve_of(0.5, 0.5, 0.5, 0.5), True)] * 5
    assert stops_at(bar_of(Rules(rule), earlier, HIGHER), (0.4,) * 4) == 1
    assert stops_at(bar_of(Rules(rule, warmup=3), earlier, HIGHER), (0.4,) * 4) == 3
    assert stops_at(bar_of(Rules(rule), earlier[:4], HIGHER), (0.4,) * 4) is None
    assert stops_at(bar_of(Rules(rule, margin=0.11), earlier, HIGHER), (0.4,) * 4) is None


def test_asha_lets_the_best_share_of_a_rung_go_on_and_counts_the_stopped_ones() -> None:
    earlier = [(curve_of(value / 10), value > 5) for value in range(1, 8)]
    bar = bar_of(Rules("asha"), earlier, HIGHER)  # with one more 8 came so far, of which 2 go on
    assert stops_at(bar, (0.6,)) is None
    assert stops_at(bar, (0.59,)) == 1
    late = bar_of(Rules("asha"), [(((4, 0.5),), True)] * 5, HIGHER)
    assert late.least == ((1, 0.5), (4, 0.5))  # a first report at step 4 counts at every rung up to there
    assert stops_at(late, (0.6, 0.1, 0.1, 0.4)) == 4


def test_the_settings_of_a_run_make_its_rules() -> None:
    assert rules_of(EvaluationConfig()) is None
    given = EvaluationConfig(prune="asha", prune_warmup=2, prune_least=3, prune_margin=0.1, prune_factor=3)
    assert rules_of(given) == Rules("asha", 2, 3, 0.1, 3)


@pytest.mark.parametrize(
    "said",
    [
        line(2, float("nan")),
        line(2, float("inf")),
        b'{"step": 2, "value": 1e999}\n',
        line(1, 0.5),
        line(0, 0.5),
        line(-1, 0.5),
        line(1 << 40, 0.5),
        line(2.5, 0.5),
        line("2", 0.5),
        line(True, 0.5),
        line(2, True),
        line(2, "0.5"),
        line(2, None),
        b'{"step": 2}\n',
        b'{"step": 2, "value": 0.5, "more": 1}\n',
        b"[2, 0.5]\n",
        b"step 2 0.5\n",
        b"{" * 200 + b"\n",
        b"\xff\xfe\n",
        b'{"step": 2, "value": 0.5' + b" " * LONGEST_LINE + b"}\n",
    ],
)
def test_what_is_no_report_is_passed_over(said: bytes) -> None:
    reports = Reports(LISTENS)
    reports.hear(line(1, 0.25) + said + line(3, 0.75))
    assert reports.curve == ((1, 0.25), (3, 0.75))


@given(st.lists(st.integers(1, 40), max_size=12))
def test_how_the_output_is_cut_into_chunks_changes_nothing(cuts: list[int]) -> None:
    said = b"hello\n" + line(1, 1) + b"x" * 300 + b"\n" + line(4, -2.5) + b"\n\n" + line(9, 0.125)
    reports, rest = Reports(LISTENS), said
    for cut in cuts:
        reports.hear(rest[:cut])
        rest = rest[cut:]
    reports.hear(rest)
    assert reports.curve == ((1, 1.0), (4, -2.5), (9, 0.125))


def test_a_flood_is_read_no_further_than_its_first_lines() -> None:
    reports = Reports(LISTENS)
    reports.hear(b"".join(line(step, 0.5) for step in range(10_000)))
    assert reports.curve == tuple((step, 0.5) for step in range(MOST_POINTS))
    junk = Reports(LISTENS)
    junk.hear(b'{"junk": 1}\n' * MOST_POINTS + line(1, 0.5))
    assert junk.curve == ()


def test_nothing_is_heard_after_the_stop() -> None:
    bar = bar_of(Rules("median"), [(curve_of(0.5, 0.5), True)] * 5, HIGHER)
    reports = Reports(bar)
    reports.hear(line(1, 0.25) + line(2, 9.0))
    assert (reports.curve, reports.missed) == (((1, 0.25),), 0.5)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from(["median", "asha"]), st.integers(0, 3))
def test_the_rules_decide_as_optuna_does(seed: int, higher: bool, rule: Rule, warmup: int) -> None:
    optuna = pytest.importorskip("optuna", reason="needs optuna (pip install optuna)")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    draw, fitness = random.Random(seed), HIGHER if higher else LOWER
    least = draw.randint(1, 4) if rule == "median" else 1
    pruner = (
        optuna.pruners.MedianPruner(n_startup_trials=least, n_warmup_steps=warmup, n_min_trials=least)
        if rule == "median"
        else optuna.pruners.SuccessiveHalvingPruner(min_resource=max(1, warmup), reduction_factor=3)
    )
    study = optuna.create_study(direction=fitness.name, pruner=pruner)
    rules, earlier = Rules(rule, warmup, least, factor=3), list[tuple[Curve, bool]]()
    for _ in range(12):
        trial, reports = study.ask(), Reports(bar_of(rules, earlier, fitness))
        for step in range(1, draw.randint(2, 10)):
            value = float(draw.randint(0, 8))
            reports.add(step, value)
            trial.report(value, step)
            assert trial.should_prune() == (reports.missed is not None), (step, reports.curve, earlier)
            if reports.missed is not None:
                break
        pruned = reports.missed is not None
        earlier.append((reports.curve, not pruned))
        states = optuna.trial.TrialState
        study.tell(trial, None if pruned else 1.0, states.PRUNED if pruned else states.COMPLETE)
