"""The replay of learning curves under the rules that end evaluations early."""

from pathlib import Path

from pace_async.evaluate.pruning import Rules
from pace_async.events import Curve
from research.benchmarks.early_ends import CANDIDATES, EPOCHS, RULES, read, recorded, run, search, table

FORMS: list[Curve] = [
    tuple((epoch, final * epoch / EPOCHS) for epoch in range(1, EPOCHS + 1)) for final in (0.14, 0.12, 0.16)
]


def test_without_a_rule_all_epochs_are_spent_and_none_is_stopped() -> None:
    made = run(search(FORMS, 1), 50, None)
    assert (made.saved, made.stopped, made.epochs) == (0.0, set(), 50 * EPOCHS)
    assert made.best == max(made.finals) >= 0.14 == made.finals[0]


def test_a_rule_saves_epochs_and_what_it_stops_is_no_best() -> None:
    made = run(search(FORMS, 1), 50, Rules("median"))
    assert 0.2 < made.saved < 1.0
    assert made.best == max(final for place, final in enumerate(made.finals) if place not in made.stopped)
    assert made.false_stops == len(set(made.bests) & made.stopped)


def test_on_straight_curves_no_would_be_best_is_stopped() -> None:
    curves = [tuple((epoch, final * epoch / 1600) for epoch in range(1, EPOCHS + 1)) for final in range(5, 25)]
    for seed in range(5):
        made = run(recorded(curves, seed), len(curves), Rules("median"))
        assert made.stopped and made.false_stops == 0 and made.best == max(made.finals)


def test_each_rule_has_a_line_for_each_set_and_the_file_reads(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    head = ",".join(["candidate", *(f"epoch_{epoch}" for epoch in range(1, EPOCHS + 1))])
    rows = [",".join([str(number), *(f"{value:.5f}" for _, value in form)]) for number, form in enumerate(FORMS)]
    path.write_text("\n".join([head, *rows]) + "\n")
    assert [curve[-1] for curve in read(path)] == [(EPOCHS, 0.14), (EPOCHS, 0.12), (EPOCHS, 0.16)]
    lines = list(table(read(path), range(2), 20))
    assert len(lines) == 2 + 3 * len(RULES) and CANDIDATES > 20
