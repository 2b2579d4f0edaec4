"""Tables on a terminal and in a pipe."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.cli.output import print_table
from pace_async.observe.columns import NARROWEST, cells_of, fitting, table_lines

ROWS: list[dict[str, object]] = [
    {"candidate": 1, "score": 2.5, "experiment": "x" * 900, "idea": "short"},
    {"candidate": 12, "experiment": "y"},
]
ROWS[1] |= {"score": None, "idea": "z" * 300}


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=12), st.integers(1, 300))
def test_columns_fit_the_room_unless_all_are_at_their_narrowest(widths: list[int], room: int) -> None:
    fitted = fitting(widths, room)
    total = sum(fitted) + 2 * (len(fitted) - 1)
    assert total <= room or all(width <= NARROWEST for width in fitted)
    assert all(new == old or new >= NARROWEST for new, old in zip(fitted, widths, strict=True))
    if sum(widths) + 2 * (len(widths) - 1) <= room:
        assert fitted == widths


def test_on_a_terminal_wide_cells_are_cut_and_in_a_pipe_they_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_table(ROWS)
    assert "x" * 900 in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(ROWS)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["candidate", "score", "experiment", "idea"]
    assert max(map(len, (head, first, second))) <= 80
    assert first.split()[:2] == ["1", "2.5"] and first.split()[2].endswith("x…") and second.endswith("z…")


@pytest.mark.parametrize("room", [None, 24])
def test_columns_of_names_in_any_script_stay_aligned(room: int | None) -> None:
    names = ("plain", "実験の名前がとても長い場合", "ru\u0308ckwa\u0308rts", "прогон")
    head, *lines = table_lines([{"run": name, "best": 1.5} for name in names], room)
    starts = {cells_of(line[: line.index("1.5")]) for line in lines} | {cells_of(head[: head.index("best")])}
    assert len(starts) == 1
    assert room is None or max(map(cells_of, lines)) <= room
    assert cells_of("実験") == 4 and cells_of("u\u0308") == 1
