"""Charts and shortened texts of an exact size."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pace_async.observe.chart import area, bar, spark
from pace_async.observe.lines import elided


@given(values=st.lists(st.floats(-1e6, 1e6), max_size=80), width=st.integers(0, 60), height=st.integers(0, 8))
def test_a_chart_has_the_given_size(values: list[float], width: int, height: int) -> None:
    lines = area(values, width, height)
    assert [len(line) for line in lines] == [width] * height


def test_a_chart_rises_from_the_lowest_to_the_highest_value() -> None:
    assert spark([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert area([0.0, 7.5, 15.0], 3, 2) == [" ▁█", "▁██"]
    assert spark([1.0], 3) == "▄  "
    assert [bar(0.0, 4), bar(0.5, 4), bar(0.001, 4), bar(1.0, 4)] == ["    ", "██  ", "▏   ", "████"]


@given(st.text(), st.integers(1, 200))
def test_what_is_elided_is_no_wider_than_its_room_and_begins_and_ends_as_before(text: str, width: int) -> None:
    shown = elided(text, width)
    assert shown == text or (width >= 24 and cell_len(shown) <= width)
    if shown != text:
        first, last = shown.split(" … ")[0], shown.rpartition(" … ")[2]
        assert text.startswith(first) and text.endswith(last)
