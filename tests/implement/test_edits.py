"""Answers made into programs: strictly inside the evolve block, and each way to be wrong has its own kind."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.errors import CandidateFault
from pace_async.implement.edits import Edit, UselessProgram, WholeBlock, parse, program_of
from pace_async.task import BLOCK_END, BLOCK_START, split_block

BLOCK = 'layout = "grid"\nstep = 0.1\nrepeat = 3\nextra = 0\nextra = 0\n'
PARENT = f"import math\n\n{BLOCK_START}\n{BLOCK}{BLOCK_END}\n\ndef pack(instance):\n    return layout, step\n"


def edit(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE"


def fenced(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}```"


def block_of(answer: str) -> str:
    return split_block(program_of(answer, PARENT))[1]


def kind_of(answer: str) -> str:
    with pytest.raises(CandidateFault) as caught:
        program_of(answer, PARENT)
    return caught.value.kind


def test_edits_that_apply_are_kept_beside_those_that_do_not() -> None:
    nowhere, twice = edit("stride = 2", "stride = 3"), edit("extra = 0", "extra = 1")
    with pytest.raises(UselessProgram) as caught:
        program_of("\n".join([nowhere, edit("step = 0.1", "step = 0.2"), twice]), PARENT)
    fault = caught.value
    assert fault.program == PARENT.replace("0.1", "0.2") and fault.unapplied == f"{nowhere}\n{twice}\n"
    assert fault.kind == "search_not_found"
    assert fault.detail == "the SEARCH of edit 1 stands nowhere in the program; the SEARCH of edit 3 stands 2 times"


def test_where_no_edit_applies_there_is_no_program() -> None:
    with pytest.raises(CandidateFault) as caught:
        program_of(edit("stride = 2", "stride = 3"), PARENT)
    assert not isinstance(caught.value, UselessProgram)


def test_an_edit_replaces_the_lines_it_names_and_nothing_else() -> None:
    assert block_of(edit("step = 0.1", "step = 0.2")) == BLOCK.replace("0.1", "0.2")


@pytest.mark.parametrize("wrap", ["{}", "```python\n{}\n```", "I do this:\n\n```\n{}\n```\nDone.", "{}\r\n"])
def test_edits_are_found_wherever_they_stand(wrap: str) -> None:
    assert block_of(wrap.format(edit("step = 0.1", "step = 0.2"))) == BLOCK.replace("0.1", "0.2")


def test_several_edits_are_applied_to_the_block_as_it_was_shown() -> None:
    answer = edit("repeat = 3", "step = 0.1") + "\n" + edit("step = 0.1", "repeat = 4\nmore = 1")
    assert block_of(answer) == BLOCK.replace("step = 0.1", "repeat = 4\nmore = 1").replace("repeat = 3", "step = 0.1")


def test_an_edit_may_delete_lines() -> None:
    assert block_of("<<<<<<< SEARCH\nrepeat = 3\n=======\n>>>>>>> REPLACE") == BLOCK.replace("repeat = 3\n", "")


@pytest.mark.parametrize("language", ["python", "py", "Python3", ""])
def test_a_fenced_block_takes_the_place_of_the_whole_block(language: str) -> None:
    assert block_of(f"As you say.\n{fenced('step = 5' + chr(10), language)}\nDone.") == "step = 5\n"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("I cannot help with that.", "no_code_block"),
        (fenced("step = 1\n") + "\nor\n" + fenced("step = 2\n"), "several_code_blocks"),
        (fenced("let step = 1;\n", "rust"), "wrong_language"),
        ("```python\nstep = 1\n", "unclosed_code_block"),
        (edit("step = 0.3", "step = 1"), "search_not_found"),
        (edit("step", "step"), "search_not_found"),
        (edit("extra = 0", "extra = 1"), "search_ambiguous"),
        (edit("import math", "import os"), "edit_leaves_block"),
        (edit(f"step = 0.1\nrepeat = 3\nextra = 0\nextra = 0\n{BLOCK_END}", "x = 1"), "edit_leaves_block"),
        (edit("step = 0.1\nrepeat = 3", "a = 1") + "\n" + edit("repeat = 3", "b = 1"), "edits_overlap"),
        (edit("  ", "x = 1"), "empty_search"),
        ("<<<<<<< SEARCH\nstep = 0.1\n=======\nstep = 1\n", "malformed_edit"),
        ("<<<<<<< SEARCH\nstep = 0.1\n>>>>>>> REPLACE\n", "malformed_edit"),
        ("<<<<<<< SEARCH\n" + edit("step = 0.1", "step = 1"), "malformed_edit"),
        (edit("step = 0.1\n=======\nrepeat = 3", "step = 1"), "malformed_edit"),
        (edit("step = 0.1", "step = 1\n=======\nrepeat = 4"), "malformed_edit"),
        (edit("step = 0.1", 'mark = """\n>>>>>>> REPLACE\n"""'), "malformed_edit"),
        ("<think>\n" + edit("step = 0.1", "step = 1"), "empty_answer"),
        (edit("step = 0.1", "step = 1") + "\n" + fenced("step = 2\n"), "mixed_answer"),
        (fenced("\n  \n"), "empty_block"),
        (fenced("step = (\n"), "syntax_error"),
        (fenced("step = 1\x00\n"), "syntax_error"),
        (fenced(f"{BLOCK_START}\n{BLOCK}{BLOCK_END}\n"), "markers_in_block"),
        (fenced(f"step = 1\n{BLOCK_END}\n"), "markers_in_block"),
        (edit("step = 0.1", f"{BLOCK_END}\nstep = 1\n{BLOCK_START}"), "markers_in_block"),
        (fenced(BLOCK), "unchanged"),
        (fenced(BLOCK + "# a comment\n"), "unchanged"),
        (edit("step = 0.1", "step  =  0.1  # the same"), "unchanged"),
        (fenced("# " + "x" * 2_000_000 + "\n"), "answer_too_long"),
    ],
)
def test_each_kind_of_error_has_its_own_name(answer: str, kind: str) -> None:
    assert kind_of(answer) == kind


@pytest.mark.parametrize("text", ["x = " + "(" * 50_000, "x = " + "-" * 50_000 + "1\n", "x = 1\n" * 3 + "\\d = 2\n"])
def test_code_made_to_break_the_parser_is_a_syntax_error(text: str) -> None:
    assert kind_of(fenced(text + "\n")) == "syntax_error"


def test_an_answer_with_a_parser_warning_prints_nothing() -> None:
    assert "\\d" in program_of(fenced("pattern = '\\d'\n"), PARENT)


@given(answer=st.text(max_size=400))
def test_every_text_is_a_program_or_a_named_fault(answer: str) -> None:
    try:
        program = program_of(answer, PARENT)
    except CandidateFault as fault:
        assert fault.kind.isidentifier()
    else:
        assert split_block(program)[::2] == split_block(PARENT)[::2]


PIECES = st.sampled_from(
    [
        "<<<<<<< SEARCH",
        "=======",
        ">>>>>>> REPLACE",
        "```",
        "```python",
        "~~~",
        BLOCK_START,
        BLOCK_END,
        "step = 0.1",
        "step = 0.2",
        "extra = 0",
        "import math",
        "",
        "def pack(instance):",
        "\u2028",
        "\x0c",
        "x = 'a\rb'",
    ]
)


@given(lines=st.lists(PIECES, max_size=14))
def test_no_answer_changes_the_rest_of_the_program(lines: list[str]) -> None:
    try:
        program = program_of("\n".join(lines), PARENT)
    except CandidateFault:
        return
    before, _, after = split_block(program)
    assert (before, after) == split_block(PARENT)[::2]
    ast.parse(program)


NAMES = st.lists(st.sampled_from("abcdefghij"), unique=True, min_size=1, max_size=8)


@given(names=NAMES, data=st.data())
def test_edits_of_distinct_lines_do_what_replacing_the_lines_does(names: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    parent = f"{BLOCK_START}\n" + "".join(f"{name} = 0\n" for name in names) + f"{BLOCK_END}\n"
    answer = "\n".join(edit(f"{name} = 0", f"{name} = 1") for name in data.draw(st.permutations(chosen)))
    wanted = [f"{name} = {int(name in chosen)}\n" for name in names]
    assert split_block(program_of(answer, parent))[1] == "".join(wanted)


@given(text=st.text(alphabet=st.characters(exclude_characters="`~\r"), max_size=200))
def test_a_fenced_text_is_read_as_it_was_written(text: str) -> None:
    if any(mark in text for mark in ("<<<<<<<", ">>>>>>>")):
        return
    assert parse(f"```python\n{text}\n```") == WholeBlock(f"{text}\n")


def test_edits_keep_blank_lines_and_indentation() -> None:
    parsed = parse(edit("def f():\n\n    return 1", "def f():\n    return 2"))
    assert parsed == (Edit(("def f():", "", "    return 1"), ("def f():", "    return 2")),)


ENTRY = f"import math\n{BLOCK_START}\ndef f(x):\n    return x\n{BLOCK_END}\n"


@pytest.mark.parametrize(
    "block",
    [
        "def f(x):\n    return 2 * x\n",
        "async  def f(x):\n    return x\n",
        "f = abs\n",
        "class f:\n    pass\n",
        "if True:\n    def f(x):\n        return 2\n",
        "from math import (\n    sin as f,\n)\n",
        "from math import *\n",
        "def g(x):\n    global f\n    f = abs\ng(1)\n",
        "globals()['f'] = abs\n",
    ],
)
def test_a_program_that_may_define_the_entry_is_made(block: str) -> None:
    assert split_block(program_of(fenced(block), ENTRY, entry="f"))[1] == block


@pytest.mark.parametrize(
    "block", ["def g(x):\n    return x\n", "# def f(x)\ng = 1\n", "def g(x):\n    f = x\n    return f\n", "f.x = 2\n"]
)
def test_a_program_without_the_entry_is_refused_before_an_evaluation(block: str) -> None:
    with pytest.raises(UselessProgram) as fault:
        program_of(fenced(block), ENTRY, entry="f")
    assert (fault.value.kind, fault.value.detail) == ("no_entry", "the program defines no function f")
    assert split_block(fault.value.program)[1] == block
    assert split_block(program_of(fenced(block), ENTRY))[1] == block  # of a program of its own nothing is called


def test_the_entry_may_stand_outside_the_block_and_belongs_into_the_first_file() -> None:
    fixed = f"{BLOCK_START}\ndef g(x):\n    return x\n{BLOCK_END}\ndef f(x):\n    return g(x)\n"
    assert program_of(fenced("def g(x):\n    return 2 * x\n"), fixed, entry="f")
    two = f"# FILE: a.py\n{ENTRY}# FILE: b.py\ndef f(x):\n    return x\n"
    with pytest.raises(UselessProgram):
        program_of(fenced("def g(x):\n    return 2 * x\n"), two, entry="f")


def test_a_program_whose_parent_does_not_show_its_entry_either_is_made() -> None:
    assert program_of(fenced("x = 2\n"), f"{BLOCK_START}\nx = 1\n{BLOCK_END}\n", entry="f")
