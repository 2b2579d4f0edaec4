"""What is known of each language: marks, assignments, and a compiler's first error."""

import pytest

from pace_async.implement.catalogue import MechanismEdit, apply_edit
from pace_async.programs.languages import LANGUAGES, first_error, language_called, language_of
from pace_async.programs.text import assigned, assignments, editable, is_marked, marks, split_block

LINES = {
    "c": ["const int tries = 200;", "int tries = 200; // how often", "#define other 1\nstatic const long tries = 200;"],
    "c++": ["constexpr std::size_t tries = 200;", "const auto tries = 200;"],
    "rust": [
        "const tries: usize = 200;",
        "    let mut tries: u64 = 200; // how often",
        "static tries: &'static str = 200;",
    ],
    "go": ["var tries = 200", "const tries int = 200 // how often", "\ttries := 200"],
    "fortran": ["integer, parameter :: tries = 200", "real(real64), parameter :: tries = 200 ! how often"],
    "r": ["tries <- 200", "tries = 200 # how often"],
    "julia": ["const tries = 200", "tries::Int = 200 # how often"],
    "zig": ["const tries = 200;", "tries: 1 -- no assignment\ntries = 200 -- how often"],
}


@pytest.mark.parametrize(("language", "text"), [(name, text) for name, texts in LINES.items() for text in texts])
def test_the_value_of_an_assignment_is_found_in_each_language(language: str, text: str) -> None:
    assert [line["value"] for line in assigned(text, language_of(language), "tries")] == ["200"]


@pytest.mark.parametrize(
    "text", ["const int more_tries = 200;", "const int tries = 200 + 1;", "if (tries == 200)", "f(tries = 200)"]
)
def test_what_is_no_assignment_of_one_value_is_left_alone(text: str) -> None:
    assert not assigned(text, language_of("c++"), "tries")


@pytest.mark.parametrize(
    ("language", "block", "values"),
    [
        ("python", 'tries = 5\n\n\ndef f(x):\n    tries = x\n    return {\n        "tries": 7,\n    }\n', ["5"]),
        ("python", 'TABLE = {\n    "tries": 5,\n}\n\n\ndef f(x):\n    if x:\n        tries = 7\n', ["5"]),
        ("python", "def f(x):\n    tries = 7\n\n\ntries = 5  # how often\n", ["5"]),
        ("python", "    tries = 5\n\n    def f(x):\n        tries = 7\n", ["5"]),
        ("python", "tries = 5\nif x:\n    tries = 7\ntries = 9\n", ["5", "9"]),
        ("c++", "const int tries = 5;\nint f() {\n\tint tries = 7;\n    int tries = 9;\n}\n", ["5"]),
        ("go", "var tries = 5\n\nfunc f() int {\n\ttries := 7\n\treturn tries\n}\n", ["5"]),
    ],
)
def test_of_assignments_with_different_indentation_only_the_outermost_count(
    language: str, block: str, values: list[str]
) -> None:
    lines = assigned(block, language_of(language), "tries")
    assert [line["value"] for line in lines] == values
    assert assignments(block, language)["tries"] == tuple(values)


def test_an_edit_changes_the_setting_and_no_variable_of_a_function() -> None:
    block = "tries = 5  # how often\n\n\ndef f(x):\n    tries = 5\n    return tries\n"
    assert apply_edit(block, MechanismEdit("tries", 80)) == block.replace("tries = 5  #", "tries = 80  #")


SAID = {
    "c++": (
        "In file included from x:\nm.cpp:7:22: error: 'x' was not declared\n  7 | x\n",
        "m.cpp:7:22: error: 'x' was not declared",
    ),
    "rust": (
        "warning: unused\nerror[E0425]: cannot find value `x`\n --> m.rs:3:9\n  |\n",
        "error[E0425]: cannot find value `x` --> m.rs:3:9",
    ),
    "go": (
        "# command-line-arguments\n./m.go:4:2: undefined: x\n./m.go:9:2: undefined: y\n",
        "./m.go:4:2: undefined: x",
    ),
    "fortran": (
        "m.f90:5:10:\n\n    5 |   x = y\n      |          1\nError: Symbol 'y' has no type\n",
        "m.f90:5:10: Error: Symbol 'y' has no type",
    ),
    "zig": ("starting\nm.zig:3:5: Error: no\nmore\n", "m.zig:3:5: Error: no"),
    "c": ("ld: cannot find -lz\ncollect2: it failed\n", "collect2: it failed"),
    "r": ("", ""),
}


@pytest.mark.parametrize("language", SAID)
def test_a_compilers_first_error_is_given_in_one_line(language: str) -> None:
    said, told = SAID[language]
    assert first_error(language_of(language), said) == told


@pytest.mark.parametrize("comment", sorted({one.comment for one in LANGUAGES.values()} | {"--", "%", ";"}))
def test_marks_stand_in_the_comments_of_a_language(comment: str) -> None:
    start, end = marks(comment)
    program = f"before\n  {start}\nx = 1\n{end}  \nafter\n"
    assert split_block(program) == (f"before\n  {start}\n", "x = 1\n", f"{end}  \nafter\n")
    assert editable(program) == split_block(program)


def test_a_program_without_marks_may_change_as_a_whole_and_one_with_half_of_them_is_refused() -> None:
    assert editable("int x = 1;\n") == ("", "int x = 1;\n", "")
    assert not is_marked('puts("EVOLVE-BLOCK-START");\n')
    for program in ("// EVOLVE-BLOCK-START\nint x;\n", "// EVOLVE-BLOCK-END\n// EVOLVE-BLOCK-START\n"):
        with pytest.raises(ValueError, match="exactly one"):
            editable(program)


def test_a_language_is_found_by_its_name_and_by_that_of_its_code_blocks() -> None:
    assert [language_called(name) is LANGUAGES["c++"] for name in ("c++", "C++", "cpp")] == [True] * 3
    assert language_called("cobol") is None
