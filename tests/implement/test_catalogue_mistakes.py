"""A mistake in a catalogue is one sentence that names the mechanism and says what to do."""

from pathlib import Path

import pytest

from pace_async.errors import UsageError
from pace_async.implement.catalogue import load_catalogue
from pace_async.runtime.children.advisor_choice import serving_of
from tests.support.catalogues import with_catalogue


@pytest.mark.parametrize(
    ("mechanisms", "sentence"),
    [
        ("[{name: x, about: a, options: [1]}]", "x needs at least two options: add one, or remove the mechanism"),
        ("[{name: x, about: a, options: [1, 2, 1]}]", "x has the option 1 twice: give each option once"),
        ("[{name: x, about: a, options: [1, two words]}]", "the option 'two words' of x is no single word or number"),
        (
            "[{name: x, about: a, options: [1, 2]}, {name: x, about: b, options: [3, 4]}]",
            "x is named twice: give each mechanism a name of its own",
        ),
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
