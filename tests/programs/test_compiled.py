"""Two texts have one digest exactly where they are the same program, and what is run of one is the program."""

import marshal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.evaluate.sandbox.inside.driver import PROGRAM as SHOWN
from pace_async.evaluate.sandbox.inside.driver import shift_lines
from pace_async.programs.compiled import compiled, parts_of, program_hash
from pace_async.task import load_task

PROGRAM = 'def f(a, b=2):\n    """Add."""\n    return [x for x in (a, b) if x in {"one", "two", 3}]\n'


@pytest.mark.parametrize(
    "same",
    [
        "# a comment\n" + PROGRAM,
        PROGRAM.replace("(a, b=2)", "( a,b = 2 )"),
        "\n\n" + PROGRAM.replace("return [x", "return [  # why\n        x"),
        PROGRAM.replace("    ", "\t"),
        PROGRAM.replace('"one"', "'one'"),
    ],
)
def test_layout_and_comments_do_not_change_the_digest(same: str) -> None:
    assert same != PROGRAM
    assert program_hash(same) == program_hash(PROGRAM)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b=2", "b=2.0"),
        ("b=2", "b=True"),
        ("b=2", "b=-2"),
        ("(a, b=2)", "(a, c=2)"),
        ("def f(a, b=2)", "async def f(a, b=2)"),
        ("def f(a, b=2)", "def f(a, *, b=2)"),
        ('"two"', '"Two"'),
        (", 3}", "}"),
        ("[x for", "[a for"),
        ("return [x", "yield [x"),
    ],
)
def test_every_change_of_behaviour_changes_the_digest(old: str, new: str) -> None:
    assert old in PROGRAM
    assert program_hash(PROGRAM.replace(old, new)) != program_hash(PROGRAM)


def test_zeros_of_two_signs_are_two_numbers() -> None:
    assert program_hash("x = 0.0") != program_hash("x = -0.0")
    assert program_hash("x = 0.0") != program_hash("x = 0")


def test_the_digest_does_not_depend_on_the_process() -> None:
    ask = f"from pace_async.programs.compiled import program_hash; print(program_hash({PROGRAM!r}))"
    found = {
        subprocess.run(
            [sys.executable, "-c", ask], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout.strip()
        for seed in ("1", "2", "3")
    }
    assert found == {program_hash(PROGRAM)}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x = (", "line 1: '(' was never closed"),
        ("def f():\n    return 1\nreturn 2\n", "line 3: 'return' outside function"),
        ("def f(a, a): pass", "line 1: duplicate argument 'a' in function definition"),
        ("x = '\0'", "source code string cannot contain null bytes"),
        ("(" * 300 + ")" * 300, "line 1: too many nested parentheses"),
        ("x = " + "-" * 200_000 + "1", "MemoryError"),
    ],
)
def test_a_text_that_the_compiler_refuses_has_a_reason_with_its_line(text: str, fault: str) -> None:
    found = compiled(text)
    assert fault in found.fault or found.fault in ("ValueError", "RecursionError")
    assert found.digest == program_hash(f"  {text}  \n\n") != program_hash(f"{text}!")


@given(st.text())
def test_every_text_is_compiled_or_refused(text: str) -> None:
    assert len(program_hash(text)) == 32


def test_an_assertion_and_a_docstring_change_the_digest() -> None:
    assert program_hash("assert x") != program_hash("pass")
    assert program_hash('"""One."""') != program_hash('"""Two."""')


def test_a_warning_of_a_candidates_program_is_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    assert compiled("x = 1 is 1\ny = '\\d'\n").fault == ""
    assert not recwarn.list


PIECES = (
    PROGRAM,
    "@f\n@f\ndef g(): pass\n",
    "@f(\n1)\nclass A:\n    def f(self): return 1\n",
    'text = """\ndef f(): pass\n',
    '"""\n',
    "x = (\n",
    ")\n",
    "y = 1 + \\\n",
    "if x:\n    pass\n",
    "else:\n    pass\n",
    "async def h(): await g()\n",
    "from __future__ import annotations\n",
    "global x\n",
    "if x:\n    global x\n",
    "x = 2\n",
    "# nothing\n\n",
    "return 1\n",
    "    z = 3\n",
)


def is_program(text: str) -> bool:
    """Whether the compiler takes it as it is."""
    try:
        compile(text, "", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def bare(code: CodeType) -> CodeType:
    """Without its lines: two of these are equal where the programs do the same, step by step."""
    inner = (bare(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts)
    return code.replace(co_firstlineno=1, co_linetable=b"", co_consts=tuple(inner))


@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
def test_a_program_compiled_in_parts_is_one_exactly_where_the_whole_is(text: str) -> None:
    assert (compiled(text).fault == "") == is_program(text)
    assert program_hash(f"# first\n{text}# last\n") == program_hash(text) or not is_program(text)


SOME = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)


@given(SOME, SOME)
def test_texts_with_one_digest_are_compiled_to_the_same(one: str, other: str) -> None:
    if is_program(one) and is_program(other) and program_hash(one) == program_hash(other):
        first, second = (bare(compile(text, "", "exec", dont_inherit=True, optimize=0)) for text in (one, other))
        assert first == second


def defined(codes: Iterable[CodeType]) -> Iterator[tuple[object, ...]]:
    """Of everything that is defined anywhere in it, what it is and in which lines. Not its byte code: where the whole
    module is seen, methods of what it imports are looked up with other instructions."""
    for code in codes:
        inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        for each in inner:
            lines = {line for *_, line in each.co_lines() if line}
            yield each.co_qualname, each.co_firstlineno, sorted(lines), each.co_names, each.co_varnames, each.co_flags
        yield from defined(inner)


def lines_of(codes: Iterable[CodeType]) -> set[int]:
    """The lines of the steps at the left margin. The return of the last one has no line."""
    return {line for code in codes for *_, line in code.co_lines() if line}


def run_of(text: str) -> list[CodeType]:
    compiled(text)
    return [shift_lines(marshal.loads(part.code), part.above) for part in parts_of(text)]


@given(SOME)
def test_the_code_that_is_run_equals_the_program_line_by_line(text: str) -> None:
    codes = run_of(text)
    if not is_program(text):
        assert codes == []
    elif codes:
        whole = compile(text, SHOWN, "exec", dont_inherit=True, optimize=0)
        assert sorted(defined(codes)) == sorted(defined([whole]))
        assert lines_of([whole]) <= lines_of(codes)
        assert {code.co_filename for code in codes} == {SHOWN}


@pytest.mark.parametrize("task", ["circle_packing", "eplb", "txn_scheduling", "multi_evolve"])
def test_the_packaged_programs_are_run_in_parts_and_are_the_same(task: str) -> None:
    text = load_task(task).program
    codes, whole = run_of(text), compile(text, SHOWN, "exec", dont_inherit=True, optimize=0)
    assert len(codes) > 5
    assert sorted(defined(codes)) == sorted(defined([whole]))
    one: dict[str, object] = {}
    other: dict[str, object] = {}
    exec(whole, one)
    for code in codes:
        exec(code, other)
    assert list(one) == list(other)
    assert one["__doc__"] == other["__doc__"]


@pytest.mark.parametrize("text", ["x = 1\r\ndef f(): pass\r\n", "x = 1\n\f\ndef f(): pass\n", "def f(:\n"])
def test_code_with_other_line_numbers_is_left_to_the_compiler(text: str) -> None:
    assert parts_of(text) == ()
