"""What early ends of evaluations saved, as a screen and a summary show it."""

from dataclasses import replace
from pathlib import Path

from pace_async.cli.showing import POINTS_SHOWN, reported
from pace_async.events import Evaluated, RunStateChanged
from pace_async.observe.model import RunView
from pace_async.observe.search_sections import outcomes_of
from pace_async.observe.summary import closing_words
from tests.support.observe_facts import fold_all
from tests.support.population_facts import HEADER, evaluated


def ended(lease: int, score: float | None, seconds: float, outcome: str = "ok", *, memoised: bool = False) -> Evaluated:
    return replace(evaluated(lease, score=score), seconds=seconds, outcome=outcome, memoised=memoised)  # type: ignore[arg-type]


def view_of(*ends: Evaluated) -> RunView:
    return fold_all(RunView(header=HEADER), [RunStateChanged("running", "", 0.0), *ends])


def test_a_stop_saves_what_is_left_of_the_mean_of_those_that_ran_to_a_score() -> None:
    whole = (ended(1, 1.0, 80.0), ended(2, 1.5, 120.0), ended(3, 1.5, 0.0, memoised=True))
    assert view_of(*whole).saved.share is None
    view = view_of(*whole, ended(4, None, 25.0, "pruned"), ended(5, None, 75.0, "timeout"))
    assert view.saved.share == 75 / (300 + 75)
    assert "about 20 % of evaluation time saved" in " ".join(part.plain for part in outcomes_of(view))
    assert any(
        line.split() == ["saved", *["about", "20", "%", "of", "evaluation", "time"]]
        for line in closing_words(view, Path("r"), 1.0)
    )


def test_a_stop_later_than_the_others_end_saves_nothing() -> None:
    assert view_of(ended(1, 1.0, 10.0), ended(2, None, 25.0, "pruned")).saved.share == 0.0


def test_a_long_curve_is_shown_in_a_few_points_with_its_ends() -> None:
    assert reported([], None) == {}
    said = "3: 0.5 (step: value, 1 in all, by its evaluator under shared trust)"
    assert reported([(3, 0.5)], "evaluator") == {"reported": said}
    text = str(reported([(step, step / 10) for step in range(200)], "scorer")["reported"])
    assert text.endswith("by the trusted scorer)")
    assert text.startswith("0: 0, 18: 1.8") and ", 199: 19.9 (step: value, 200 in all" in text
    assert text.count(": ") == POINTS_SHOWN + 1
