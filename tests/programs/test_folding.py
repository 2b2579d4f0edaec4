"""Programs shown without the code that does not matter: what is left out, and that it comes back exactly."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.programs.folding import (
    changed_names,
    folded,
    in_use,
    is_folded,
    lost_names,
    mentioned_in,
    parts,
    unfolded,
)

BODY = "    total = 0  # a comment that is long enough to be worth a line\n    return total + x\n"
PROGRAM = f'''"""What it does."""
import math

# EVOLVE-BLOCK-START
step = 0.5
TABLE = {{
    "first": (1.0, 2.0, 3.0, 4.0, 5.0),
    "second": (1.0, 2.0, 3.0, 4.0, 5.0),
    "third": (1.0, 2.0, 3.0, 4.0, 5.0),
}}


@cached
def first(x):
{BODY}

def second(
    x: int,  # the number (
    *rest: tuple[int, ...],
) -> dict[str, int]:
{BODY}

class Solver(Base):
    """Solves."""

    limit = 3

    def solve(self, x):
        def inner(x):
            return x

{BODY.replace("    ", "        ")}
    async def rest(self, x):
{BODY.replace("    ", "        ")}

def short(x): return x


def brief(x):
    return x
# EVOLVE-BLOCK-END
print(first(2))
'''


def test_functions_methods_and_tables_become_a_line_each_and_the_rest_stays() -> None:
    seen = folded(PROGRAM.replace("print(first(2))", "print(first(2), Solver)"), ())
    assert [line for line in seen.splitlines() if is_folded(line)] == [
        "TABLE = ...  # 6-10 hidden",
        "def first(x): ...  # 14-18 hidden",
        "def second(x: int, *rest: tuple[int, ...],) -> dict[str, int]: ...  # 19-24 hidden",
        "    def solve(self, x): ...  # 32-38 hidden",
        "    async def rest(self, x): ...  # 39-41 hidden",
    ]
    for kept in (
        '"""What it does."""',
        "step = 0.5",
        "@cached",
        "    limit = 3",
        "def short(x): return x",
        "def brief",
    ):
        assert kept in seen
    assert "total" not in seen and '"first"' not in seen


def test_what_is_needed_is_whole() -> None:
    assert BODY in folded(PROGRAM, {"first"}) and "def second(x: int" in folded(PROGRAM, {"first"})
    assert "def inner" in folded(PROGRAM, {"inner"}) and "async def rest(self, x): ..." in folded(PROGRAM, {"inner"})
    assert '"second": (1.0' in folded(PROGRAM, (), mentioned={"second"})
    assert '"second": (1.0' in folded(PROGRAM, {"TABLE"})
    assert "def second(x: int, " in folded(PROGRAM, (), mentioned={"second"})


def test_a_class_of_which_a_method_is_needed_keeps_the_attributes_that_it_sets() -> None:
    begins = (
        "    def __init__(self, load):\n        self.load = load\n        self.of_each_expert = [0.0] * len(load)\n\n"
    )
    other = f"class Other:\n{begins}    def go(self):\n{BODY}\n\n"
    program = PROGRAM.replace("    limit = 3\n\n", f"    limit = 3\n\n{begins}").replace(
        "class Solver", f"{other}class Solver"
    )
    assert "of_each_expert" not in folded(program, {"first"}) and "limit = 3" not in folded(program, {"first"})
    seen = folded(program, {"rest"})
    assert seen.count(begins) == 1 and seen.index(begins) > seen.index("class Solver")
    assert "class Other: ...  # " in seen
    assert unfolded(seen, seen, program) == program


def test_a_class_is_left_out_whole_unless_something_that_is_shown_uses_it() -> None:
    def hidden(program: str, *needed: str) -> list[str]:
        return [line for line in folded(program, needed).splitlines() if "Solver" in line and is_folded(line)]

    assert hidden(PROGRAM) == ["class Solver(Base): ...  # 27-41 hidden"]
    used = PROGRAM.replace("def second(", "def third():\n    return Solver()\n\n\ndef second(")
    for program, needed in ((PROGRAM, "rest"), (PROGRAM, "Solver"), (used, "third")):
        assert hidden(program, needed) == [] and '"""Solves."""' in folded(program, {needed})
    seen = folded(PROGRAM, ())
    line = "class Solver(Base): ...  # 27-41 hidden\n"
    assert lost_names(seen.replace(line, ""), seen, "x = Solver()\n") == ["Solver"]
    assert lost_names(seen.replace(line, "class Solver:\n    limit = 4\n"), seen, "x = Solver()\n") == []


def test_of_what_a_program_says_of_itself_above_its_block_the_first_line_is_left() -> None:
    program = PROGRAM.replace(
        '"""What it does."""',
        '"""What it does.\n\nThis and that, at some length, so that it is worth a line.\n"""',
    )
    seen = folded(program, ())
    assert seen.startswith('"""What it does.""" ...  # 1-4 hidden\nimport math\n') and "at some length" not in seen
    assert unfolded(seen, seen, program) == program
    unmarked = program.replace("# EVOLVE-BLOCK-START\n", "").replace("# EVOLVE-BLOCK-END\n", "")
    assert "at some length" in folded(unmarked, ())


NUMBERS = "".join(f"    ({number}, -0.25, 1e-3, 0.125, 2.5, 3.75),\n" for number in range(20))


def test_code_within_a_docstring_goes_with_it() -> None:
    above = '"""Solve.\n\ndef sample(x):\n    ' + "y = x\n    " * 20 + 'return y\n\nIt ends here.\n"""\n'
    seen = folded(above + "# EVOLVE-BLOCK-START\nstep = 1\n# EVOLVE-BLOCK-END\n", {"step"})
    assert seen.splitlines()[0].startswith('"""Solve.""" ...')
    assert seen.splitlines()[1] == "# EVOLVE-BLOCK-START"


def test_of_a_class_around_a_block_the_methods_are_folded_one_by_one() -> None:
    long = "        y = 1\n" * 20
    block = f"    # EVOLVE-BLOCK-START\n    def n(self):\n{long}    # EVOLVE-BLOCK-END\n"
    program = f"class A:\n    def m(self):\n{long}\n{block}"
    assert len(folded(program, {"other"})) < 0.5 * len(program)


def test_a_class_that_a_short_function_uses_is_shown() -> None:
    long = "        y = 1\n" * 20
    seen = folded(f"class A:\n    def m(self):\n{long}\ndef short(x):\n    return A(x)\n", {"other"})
    assert "class A:" in seen
    assert "class A: ..." not in seen


def test_who_says_what_to_change_reads_what_is_in_use() -> None:
    program = PROGRAM.replace("step = 0.5\n", f"step = 0.5\nPOINTS = [\n{NUMBERS}]\n").replace(
        "print(first(2))", f"def fixed(x):\n{BODY}"
    )
    lines = [line.partition("  # ")[0] for line in in_use(program).splitlines() if is_folded(line)]
    assert lines == ["POINTS = ...", "def fixed(x): ..."]
    calls = program.replace("    return x\n# EVOLVE", "    return second(x)\n# EVOLVE")
    lines = [line.partition("  # ")[0] for line in in_use(calls, "brief").splitlines() if is_folded(line)]
    assert lines[:3] == ["POINTS = ...", "TABLE = ...", "def first(x): ..."]
    assert "def second(x: int, ..." not in lines and BODY in in_use(calls, "brief")
    assert in_use(PROGRAM) == PROGRAM


SOLVERS = f'''"""The old regression, which brief took once."""


class Old:
    """What regression did."""

    def __init__(self):
        self.made = New()

    def solve(self, x):
{BODY.replace("    ", "        ")}

def regression(x):  # of Old
{BODY}

class New:
    def solve(self, x):
{BODY.replace("    ", "        ")}
    def rest(self, x):
{BODY.replace("    ", "        ")}

def brief(x):
    """Not by regression, nor by Old."""
    return {{}}
'''


@pytest.mark.parametrize(
    ("made", "hidden"),
    [
        ("New().solve(x)", ["class Old: ...", "def regression(x): ...", "    def rest(self, x): ..."]),
        ("Old().rest(x)", ["    def solve(self, x): ...", "def regression(x): ...", "    def solve(self, x): ..."]),
        ("solve(x)", ["class Old: ...", "def regression(x): ...", "class New: ..."]),
        ('globals()["regression"](x)', ["class Old: ...", "class New: ..."]),
    ],
)
def test_a_class_that_nothing_in_use_names_is_left_out_whole(made: str, hidden: list[str]) -> None:
    program = SOLVERS.format(made)
    seen = in_use(program, "brief")
    lines = [line.partition("  # ")[0] for line in seen.splitlines() if is_folded(line)]
    assert lines == hidden
    assert unfolded(seen, seen, program) == program


def test_words_that_can_only_be_names_are_mentioned() -> None:
    assert mentioned_in('Take the mean; set `copies` to "hottest", POINTS and last_one.') >= {"copies", "hottest"}
    assert "mean" not in mentioned_in("Take the mean of both.")
    assert {"POINTS", "last_one"} <= mentioned_in("Of POINTS the last_one.")


def test_lines_that_an_answer_keeps_moves_or_drops_are_unfolded_as_they_stand() -> None:
    seen = folded(PROGRAM, ())
    line = "def first(x): ...  # 14-18 hidden\n"
    moved = f"{line}step = 1\n"
    assert unfolded(moved, seen, PROGRAM) == f"def first(x):\n{BODY}\n\nstep = 1\n"
    uses = "x = first(TABLE)\n"
    assert lost_names(seen, seen, uses) == []
    assert lost_names(seen.replace(line, ""), seen, uses) == ["first"]
    for unused in ("x = 1  # first\n", '"""What comes first."""\n', "x = y.first\n"):
        assert lost_names(seen.replace(line, ""), seen, unused) == []
    assert lost_names(seen.replace(line, "def first(x, y=1):\n    return x\n"), seen, uses) == []
    assert lost_names("x = 1\n", '"""f(x, y) for each.""" ...  # 1-4 hidden\n', uses) == []
    assert lost_names(seen.replace("TABLE = ...", "TABLE: dict = {}  # ..."), seen, uses) == []
    assert unfolded("def first(x): ...  # 1-99 hidden\n", seen, PROGRAM) == "def first(x): ...  # 1-99 hidden\n"


def test_a_function_around_the_block_and_a_program_with_a_line_that_looks_folded_stay() -> None:
    around = f"def first(x):\n    # EVOLVE-BLOCK-START\n{BODY}    # EVOLVE-BLOCK-END\n"
    assert folded(around, ()) == around
    alike = f"def first(x):\n{BODY}# 3-4 hidden\n"
    assert folded(alike, ()) == alike


def test_what_another_program_has_in_other_words_is_changed() -> None:
    other = PROGRAM.replace("return total + x\n\n\ndef second", "return total - x\n\n\ndef second")
    assert changed_names(PROGRAM, [other]) == {"first"}
    assert changed_names(PROGRAM, [PROGRAM]) == frozenset()


@pytest.mark.parametrize(
    "file", sorted(Path("tasks").resolve().glob("*/initial.py")), ids=lambda file: file.parent.name
)
def test_bundled_programs_come_back_and_get_much_shorter(file: Path) -> None:
    program = file.read_text("utf-8")
    seen = folded(program, ())
    assert unfolded(seen, seen, program) == program
    assert len(seen) < 0.6 * len(program)


LINES = st.sampled_from(
    (
        *(
            "def f(x):",
            "    def g(",
            "        x):",
            "class C:",
            "    return x",
            "        long = 'line ' * 30",
            "",
            "x = [",
            "]",
        ),
        *(
            "    # EVOLVE-BLOCK-START",
            '"""',
            "\tdef tabs(self): # :",
            "):",
            "async def h(",
            "T = {",
            '  "key": {',
            "  }",
            "}",
        ),
    )
)


@given(st.lists(LINES, max_size=40), st.sets(st.sampled_from(("f", "g", "h", "C", "T", "key"))))
def test_any_text_comes_back(lines: list[str], needed: set[str]) -> None:
    for program in ("\n".join(lines), "\n".join(lines) + "\n"):
        seen = folded(program, needed)
        assert unfolded(seen, seen, program) == program
        used = in_use(program, next(iter(needed), ""))
        assert unfolded(used, used, program) == program
        assert sum(
            len(part.text(program.splitlines(keepends=True))) for part in parts(program.splitlines(keepends=True))
        ) <= len(program)
