"""The lines that an edit may have meant whose SEARCH stands nowhere in the block."""

from hypothesis import given
from hypothesis import strategies as st

from pace_async.implement.nearest import MOST_EDITS, MOST_LINES, ROOM, nearest_lines
from pace_async.programs.text import DIVIDER, REPLACE, SEARCH

MARKS = (SEARCH, DIVIDER)
BLOCK = """\
def cost(route, distances):
    total = 0.0
    for a, b in zip(route, route[1:]):
        total += distances[a][b]
    return total


def improve(route, distances):
    for a in range(len(route)):
        for b in range(a + 1, len(route)):
            route = exchanged(route, a, b)
    return route
"""


def edit(*search: str) -> str:
    return "\n".join(["Here it is.", SEARCH, *search, DIVIDER, "pass", REPLACE, ""])


def test_the_lines_that_differ_in_spaces_or_a_word_are_shown_exactly_with_their_numbers() -> None:
    answer = edit(
        "  for a in range(len(route)):", "      for b in range(a+1, len(route)):", "    route = swapped(route, a, b)"
    )
    assert nearest_lines(answer, BLOCK, MARKS, first=11) == (
        "Lines 19 to 21 of the program:\n"
        "    for a in range(len(route)):\n"
        "        for b in range(a + 1, len(route)):\n"
        "            route = exchanged(route, a, b)"
    )


def test_an_edit_that_stands_in_the_block_is_left_out() -> None:
    answer = edit("    return total") + edit("    total = 0")
    assert nearest_lines(answer, BLOCK, MARKS) == "Lines 2 to 2 of the program:\n    total = 0.0"


def test_what_is_like_nothing_gets_nothing() -> None:
    assert nearest_lines(edit("import quantum_annealing as qa"), BLOCK, MARKS) == ""
    assert nearest_lines(f"{SEARCH}\n    total = 0\n", BLOCK, MARKS) == ""  # it has no end
    assert nearest_lines("no edit at all", BLOCK, MARKS) == ""


LINES = st.lists(st.sampled_from([*BLOCK.split("\n"), "", "x" * 5_000, "total = 1"]), min_size=1, max_size=80)


@given(st.lists(LINES, max_size=6), LINES)
def test_it_is_bounded_and_made_of_lines_of_the_block(searches: list[list[str]], block: list[str]) -> None:
    shown = nearest_lines("".join(edit(*search) for search in searches), "\n".join(block), MARKS)
    heads = [line for line in shown.split("\n") if line.startswith("Lines ")]
    assert len(heads) <= MOST_EDITS
    assert len(shown) <= ROOM + 60 * MOST_EDITS
    assert len(shown.split("\n")) <= MOST_EDITS * (MOST_LINES + 2)
    assert all(line in block or line in heads or not line for line in shown.split("\n"))
