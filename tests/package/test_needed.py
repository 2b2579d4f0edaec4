"""A test that lacks something of the machine is skipped, and fails where that was declared to be there."""

from pathlib import Path
from typing import get_args

import pytest

from tests.support.needed import Needed, skipped_without, without

CHECKS = Path(__file__).parents[2] / ".ci" / "run"
NAMES: tuple[Needed, ...] = get_args(Needed)


@pytest.mark.parametrize("name", NAMES)
def test_a_test_that_lacks_something_fails_only_where_it_is_required(
    name: Needed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in NAMES:
        monkeypatch.setenv(f"PACE_NEEDS_{other}", "1")
    monkeypatch.delenv(f"PACE_NEEDS_{name}")
    with pytest.raises(pytest.skip.Exception, match="a reason"):
        without(name, "a reason")
    assert skipped_without(name, False, "a reason").args == (True,)
    assert skipped_without(name, True, "a reason").args == (False,)
    monkeypatch.setenv(f"PACE_NEEDS_{name}", "1")
    with pytest.raises(pytest.fail.Exception, match="a reason"):
        without(name, "a reason")
    assert skipped_without(name, False, "a reason").args == (False,)


@pytest.mark.parametrize("name", NAMES)
def test_the_checks_before_a_change_lands_can_require_it(name: Needed) -> None:
    assert f"export PACE_NEEDS_{name}=1" in CHECKS.read_text(encoding="utf-8")
