"""How `--set` and `--minutes` are read."""

import pytest
import typer

from pace_async.cli.options import minutes, overrides_of, settings_of_evaluator
from pace_async.configure import resolve
from pace_async.errors import UsageError


def test_an_evaluators_settings_may_be_named_alone_or_by_the_key_that_a_run_takes() -> None:
    short, whole = settings_of_evaluator(["path=/data"]), settings_of_evaluator(["evaluation.settings.path=/data"])
    assert short == whole == {"evaluation.settings.path": "/data"}
    assert settings_of_evaluator(None) == {}


@pytest.mark.parametrize("wrong", ["learner.k", "=2", " =2"])
def test_a_text_that_is_no_assignment_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match=r"--set takes KEY=VALUE, such as learner\.k=2"):
        overrides_of([wrong])


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("8h", "480 for 8h"),
        ("1.5 h", "90 for 1.5 h"),
        ("90s", "1.5 for 90s"),
        ("30m", "30 for 30m"),
        ("30min", "30 for 30min"),
        ("2d", "2880 for 2d"),
        ("8 lots", "480 for 8 hours"),
        ("", "480 for 8 hours"),
    ],
)
def test_minutes_with_a_unit_are_refused_with_the_number_that_was_meant(text: str, meant: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"give a number of minutes, such as {meant}$"):
        minutes(text)
    with pytest.raises(UsageError, match=f"stop.minutes: give a number of minutes, such as {meant}"):
        resolve(None, {"stop.minutes": text}, environment={})


@pytest.mark.parametrize("text", ["8", "0.5", "1e2"])
def test_a_number_of_minutes_is_taken_as_it_is(text: str) -> None:
    assert minutes(text) == resolve(None, {"stop.minutes": text}, environment={}).stop.minutes == float(text)
