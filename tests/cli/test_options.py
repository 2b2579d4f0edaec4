"""How `--set` is read."""

import pytest

from pace_async.cli.options import overrides_of, settings_of_evaluator
from pace_async.errors import UsageError


def test_an_evaluators_settings_may_be_named_alone_or_by_the_key_that_a_run_takes() -> None:
    short, whole = settings_of_evaluator(["path=/data"]), settings_of_evaluator(["evaluation.settings.path=/data"])
    assert short == whole == {"evaluation.settings.path": "/data"}
    assert settings_of_evaluator(None) == {}


@pytest.mark.parametrize("wrong", ["learner.k", "=2", " =2"])
def test_a_text_that_is_no_assignment_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match=r"--set takes KEY=VALUE, such as learner\.k=2"):
        overrides_of([wrong])
