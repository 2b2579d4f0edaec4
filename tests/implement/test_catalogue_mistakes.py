"""A mistake in a catalogue is one sentence that names the mechanism and says what to do."""

import re
from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.implement.catalogue import load_catalogue
from pace_async.runtime.children.advisor_choice import serving_of
from pace_async.task import load_task
from tests.support.catalogues import with_catalogue
from tests.support.evaluate_tasks import make_task


@pytest.mark.parametrize(
    ("mechanisms", "sentence"),
    [
        ("[{name: x, about: a, options: [1]}]", "x needs at least two options: add one, or remove the mechanism"),
        ("[{name: x, about: a, options: [1, 2, 1]}]", "x has the option 1 twice: give each option once"),
        (
            "[{name: x, about: a, options: [1, two words]}]",
            "the option 'two words' of x is not a single word or number",
        ),
        (
            "[{name: x, about: a, options: [1, 2]}, {name: x, about: b, options: [3, 4]}]",
            "x is named twice: give each mechanism a name of its own",
        ),
        (
            "[{name: KERNEL, about: a, options: [1, 2]}]",
            "mechanisms.0.name: 'KERNEL' must be small letters, digits and _",
        ),
        ("[{name: x, about: a, options: [a, null]}]", "mechanisms.0.options.1 must be a word or a text"),
        ("[{name: x, options: [1, 2]}]", "mechanisms.0.about is missing"),
        ("[x]", "mechanisms.0 must be a mapping of fields"),
        ("[]", "mechanisms needs at least one entry"),
    ],
)
def test_the_sentence_names_the_mechanism(tmp_path: Path, mechanisms: str, sentence: str) -> None:
    file = tmp_path / "catalogue.yaml"
    file.write_text(f"mechanisms: {mechanisms}\n")
    with pytest.raises(UsageError) as raised:
        load_catalogue(file)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_catalogue_of_ten_thousand_options_is_read_by_menus(tmp_path: Path) -> None:
    serving = serving_of("reader", with_catalogue(tmp_path, 1, 10_000))
    assert serving.fit == "reads"
    assert "menu" in serving.said


def test_an_empty_catalogue_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "catalogue.yaml"
    file.write_text("")
    with pytest.raises(UsageError, match=r"catalogue\.yaml: the catalogue must be a mapping of fields\.$"):
        load_catalogue(file)


@pytest.mark.parametrize("field", ["program", "evaluator", "catalogue"])
@pytest.mark.parametrize("beyond", [False, True])
def test_a_task_that_names_a_file_outside_its_folder_is_refused(tmp_path: Path, field: str, beyond: bool) -> None:
    folder = make_task(tmp_path / "sums").folder
    outside = tmp_path / "outside.py"
    outside.write_text((folder / "initial.py").read_text())
    named = "../outside.py" if beyond else str(outside)
    with (folder / "task.yaml").open("a") as file:
        file.write(f"{field}: {named}\n")
    with pytest.raises(UsageError, match=rf"{field} names '{re.escape(named)}', which is not in {folder}"):
        load_task(str(folder))
