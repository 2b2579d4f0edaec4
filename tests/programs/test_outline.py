"""What one program has and another has not, told by functions."""

from hypothesis import given
from hypothesis import strategies as st

from pace_async.context.beside import text_difference
from pace_async.programs.outline import differing, outline

BEFORE = '''step = 1


def first(x):
    """Steps."""
    return x + step


def second(x):
    return first(x) * 2


class Solver:
    """Solves."""

    def solve(self, x):
        return second(x)

    def rest(self, x):
        return x
'''
AFTER = '''step = 2


def first(x):
    """Steps twice."""
    return third(x) + step


def third(x):
    """A third
    of it.

    Not shown."""
    return x / 3


class Solver:
    """Solves."""

    def solve(self, x):
        return first(x)

    def rest(self, x):
        return x
'''


def told(*whole: str) -> list[str]:
    return outline(BEFORE, AFTER, text_difference, whole).split("\n")


def test_functions_that_differ_are_told_by_their_first_line_and_what_they_say() -> None:
    assert told() == [
        *("-step = 1", "+step = 2"),
        " def first(x): ...  # differs, 3 lines: Steps twice.",
        "+def third(x): ...  # new, 6 lines: A third of it.",
        *(" class Solver:", "     def solve(self, x): ...  # differs, 2 lines"),
        "-# gone: second",
    ]


def test_what_is_asked_for_is_shown_with_what_it_uses() -> None:
    lines = told("first")
    assert (
        "+    return third(x) + step" in lines and "+    return x / 3" in lines and "+    Not shown." + '"""' in lines
    )
    assert "     def solve(self, x): ...  # differs, 2 lines" in lines
    assert "+        return first(x)" in told("solve")
    assert "+    return x / 3" not in told("second")


def test_names_are_those_of_functions_that_differ() -> None:
    assert differing(BEFORE, AFTER, {"first", "second", "third", "rest", "step"}) == {"first", "third"}
    assert differing(BEFORE, AFTER, {"Solver"}) == {"Solver"} and differing(BEFORE, BEFORE, {"first"}) == frozenset()


def test_a_property_and_its_setter_differ_each_by_itself() -> None:
    setter = "    @x.setter\n    def x(self, v):\n        self.y = v\n"
    before = f"class A:\n    @property\n    def x(self):\n        return 1\n\n{setter}"
    told = outline(before, before.replace("return 1", "return 2"), text_difference)
    assert told.count("def x(self): ...  # differs") == 1
    assert "def x(self, v)" not in told


def test_a_method_that_a_method_calls_is_shown_with_it() -> None:
    before = "class A:\n    def go(self):\n        return self.helper()\n\n    def helper(self):\n        return 1\n"
    after = before.replace("self.helper()", "2 * self.helper()").replace("return 1", "return 10")
    assert "return 10" in outline(before, after, text_difference, {"go"})


def test_equal_programs_have_nothing_to_tell() -> None:
    assert outline(BEFORE, BEFORE, text_difference) == ""


LINES = st.lists(st.sampled_from((*BEFORE.splitlines(), *AFTER.splitlines(), "```", "# The parent")), max_size=30)


@given(LINES, LINES, st.sets(st.sampled_from(("first", "third", "Solver", "solve"))))
def test_each_line_begins_as_in_a_difference(before: list[str], after: list[str], whole: set[str]) -> None:
    text = outline("\n".join(before), "\n".join(after), text_difference, whole)
    assert all(line[:1] in " +-@" for line in text.split("\n"))
