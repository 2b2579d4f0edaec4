"""Text from outside is data: it cannot alter the terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from pace_async.observe import formatting
from pace_async.observe.formatting import clean, cut_to_cells

HOSTILE = st.text(
    st.characters() | st.sampled_from("\x1b\x9b\x07\r\n\t\b\x00\u202e\u2066\u200f\ufeff\u0301[]m0;2J中あ😀"),
    max_size=60,
)


@given(text=HOSTILE)
def test_shown_text_is_one_line_of_visible_characters(text: str) -> None:
    shown = clean(text)
    assert not any(unicodedata.category(character)[0] in "CM" for character in shown)
    assert shown == " ".join(shown.split())
    assert clean(shown) == shown


@given(text=HOSTILE, cells=st.integers(0, 30))
def test_a_cut_line_is_never_wider_than_its_limit(text: str, cells: int) -> None:
    assert cell_len(clean(text, cells)) <= cells


@pytest.mark.fault("Configuration and terminal", "hostile text cannot steer the terminal")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x1b[2J\x1b[Hb", "ab"),
        ("\x9b2Jx", "x"),
        ("safe\u202egnp.exe", "safegnp.exe"),
        ("z\u0300\u0301\u0302algo", "zalgo"),
        ("line\r\nnext\ttab", "line next tab"),
        ("null\x00bell\x07", "nullbell"),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("[bold red]markup[/] :smile:", "[bold red]markup[/] :smile:"),
        ("", ""),
    ],
)
def test_control_sequences_are_removed(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_rich_reads_no_markup_in_a_text() -> None:
    assert Text(clean("[bold]x[/bold] [link=file:///etc]y[/link]")).plain == "[bold]x[/bold] [link=file:///etc]y[/link]"


def test_a_cut_line_ends_in_an_ellipsis() -> None:
    assert cut_to_cells("candidate 17 scored", 12) == "candidate 1…"
    assert cut_to_cells("中中中中", 5) == "中中…"
    assert cut_to_cells("short", 5) == "short"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (1.23456, "1.23"), (123.4, "123"), (12345.0, "12345"), (0.000123, "0.000123"), (1e-7, "1e-07")],
)
def test_a_measure_has_three_significant_digits(value: float, shown: str) -> None:
    assert formatting.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(2.63598, "2.6360"), (-0.5, "-0.5000"), (0.0, "0.0000"), (1e-5, "1e-05"), (1.5e9, "1.5e+09")]
)
def test_a_score_has_four_decimals_where_they_say_something(value: float, shown: str) -> None:
    assert formatting.score(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3661, "1:01:01"), (-5, "0:00")]
)
def test_durations_are_minutes_and_seconds(seconds: float, shown: str) -> None:
    assert formatting.duration(seconds) == shown


def test_not_finite_values_are_named_and_missing_ones_are_a_dash() -> None:
    assert [formatting.number(float("nan")), formatting.number(None), formatting.score(float("inf"))] == [
        "nan",
        "–",
        "inf",
    ]


def test_money_shows_cents_and_less_where_it_is_less() -> None:
    assert [formatting.usd(0), formatting.usd(0.0012), formatting.usd(1234.5)] == ["$0.00", "$0.0012", "$1,234.50"]
