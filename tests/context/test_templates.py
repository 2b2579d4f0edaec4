"""The templates of the package and of a folder."""

from pathlib import Path

import pytest

from pace_async.config import PromptsConfig
from pace_async.context.checked import check
from pace_async.context.templates import ADVISORS, NAMES, Templates, copied
from pace_async.errors import UsageError
from tests.support.contexts import TASK


def test_the_package_has_every_template_in_full_and_a_copy_renders_the_same(tmp_path: Path) -> None:
    copied(tmp_path / "mine", PromptsConfig())
    own = Templates.of(PromptsConfig(folder=str(tmp_path / "mine")))
    assert own.digest == Templates.of(PromptsConfig()).digest
    assert sorted(file.stem for file in (tmp_path / "mine").iterdir()) == sorted(NAMES)
    with pytest.raises(UsageError, match="exists"):
        copied(tmp_path / "mine", PromptsConfig())


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("one\n{{ nobody }}", "line 2"),
        ("one\ntwo\n{% if %}", "line 3"),
        ("{{ section.nothing }}", "line 1"),
        ("{{ 1 / 0 }}", "line 1"),
        ("{{ ''.__class__.__mro__ }}", "line 1"),
    ],
)
def test_a_template_that_does_not_render_is_refused_with_its_file_and_line(
    source: str, place: str, tmp_path: Path
) -> None:
    (tmp_path / "one.j2").write_text(source)
    templates = Templates.of(PromptsConfig(folder=str(tmp_path)))
    with pytest.raises(UsageError) as raised:
        check(templates, TASK)
    assert str(tmp_path / "one.j2") in str(raised.value) and place in str(raised.value)


def test_a_file_that_no_prompt_uses_is_refused(tmp_path: Path) -> None:
    (tmp_path / "onee.j2").write_text("text")
    with pytest.raises(UsageError, match="onee"):
        Templates.of(PromptsConfig(folder=str(tmp_path)))


def test_both_sets_render() -> None:
    for name in ("full", "paper"):
        check(Templates.of(PromptsConfig.model_validate({"set": name})), TASK)
    assert Templates.of(PromptsConfig(set="paper")).digest != Templates.of(PromptsConfig()).digest
    assert set(ADVISORS) < set(NAMES)


def test_a_file_that_changes_under_a_run_changes_nothing_that_it_asks(tmp_path: Path) -> None:
    copied(tmp_path / "mine", PromptsConfig())
    own = Templates.of(PromptsConfig(folder=str(tmp_path / "mine")))
    digest = own.digest
    (tmp_path / "mine" / "system.j2").write_text("another text")
    assert own.render("system", answer_length="").startswith("You direct a search") and own.digest == digest
    assert Templates.of(PromptsConfig(folder=str(tmp_path / "mine"))).render("system") == "another text\n"
