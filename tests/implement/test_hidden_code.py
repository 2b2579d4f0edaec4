"""A specification says what its author needs, the author sees no more, and what it wrote is put back among the rest."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pace_async.config import PromptsConfig
from pace_async.context.briefing import Briefing, needed
from pace_async.context.questions import Prompts
from pace_async.context.templates import Templates
from pace_async.errors import CandidateFault
from pace_async.events import ImplementerTry
from pace_async.implement.answers import made_of
from pace_async.implement.base import Experiment
from pace_async.implement.edits import Edit, UselessProgram, WholeBlock, parse, program_of
from pace_async.implement.prompts import messages_for, seen_program
from pace_async.programs.folding import folded, parts
from pace_async.programs.text import DIVIDER, REPLACE, SEARCH
from pace_async.search.state import Member
from pace_async.task import load_task, split_block
from tests.support.rounds_by_hand import asked

TASK = load_task("eplb")
PARENT = Member(4, TASK.program, 0.8)
BRIEFING = Briefing(Prompts(TASK, Templates.of(PromptsConfig())), "why")
SEEN = folded(TASK.program, {"forecast"})
ONE_CALL = Path(__file__).parents[1] / "data" / "one_call"


def experiment(specification: str, **changed: object) -> Experiment:
    return replace(Experiment(9, "an idea", specification, briefing=BRIEFING), **changed)  # type: ignore[arg-type]


def edit(search: str, text: str) -> str:
    return f"{SEARCH}\n{search}\n{DIVIDER}\n{text}\n{REPLACE}"


def made(answer: str) -> str:
    return program_of(answer, TASK.program, entry="place", seen=SEEN)


def test_needs_are_read_in_the_forms_that_models_write() -> None:
    assert needed("1. Do it.\nNeeds: `forecast`, snake and PLACERS") == {"forecast", "snake", "and", "PLACERS"}
    assert needed("- **Needs:** none") == {"none"} and needed("4. needs: f(x)") == {"f", "x"}
    assert needed("It needs: nothing") is None and needed("Do it.") is None
    assert needed("Needs: all of it") is None and needed("Needs: the whole program") is None


def test_an_author_sees_what_the_specification_needs() -> None:
    seen = seen_program(PARENT, experiment("Average twice.\nNeeds: forecast"))
    assert "def place_scan(weights, ranked, gpus): ...  # " in seen and 'memory.get("load", load)' in seen
    assert len(seen) < 0.3 * len(TASK.program)
    text = messages_for(TASK, PARENT, experiment("Average twice.\nNeeds: forecast"))[1]["content"]
    assert seen in text and "A line that ends in `hidden`" in text and f"{len(TASK.program)} characters" in text


def test_an_author_sees_all_without_needs_in_most_repairs_and_of_a_short_program() -> None:
    assert seen_program(PARENT, experiment("Average twice.")) == TASK.program
    assert seen_program(PARENT, experiment("Average.\nNeeds: none", briefing=None)) == TASK.program
    broken = ImplementerTry(1, "model", "hidden_lines_lost", "lost", None, "an answer")
    assert seen_program(PARENT, experiment("Average.\nNeeds: none", tries=(broken,))) == TASK.program
    short = TASK.program[TASK.program.index("def snake") : TASK.program.index("def count_scan")]
    assert seen_program(Member(1, short, 0.1), experiment("Deal.\nNeeds: none")) == short


def test_after_a_search_that_stands_nowhere_code_stays_hidden_once() -> None:
    failed = ImplementerTry(1, "model", "search_not_found", "nowhere", None, "an answer")
    first = experiment("Average.\nNeeds: none")
    assert seen_program(PARENT, replace(first, tries=(failed,))) == seen_program(PARENT, first) != TASK.program
    assert seen_program(PARENT, replace(first, tries=(failed, failed))) == TASK.program


def test_edits_that_apply_are_kept_also_where_code_is_hidden() -> None:
    seen = seen_program(PARENT, experiment("Average.\nNeeds: forecast"))
    right, wrong = edit("recent = 1.0", "recent = 0.5"), edit("recent = 7.0", "recent = 8.0")
    with pytest.raises(UselessProgram) as caught:
        program_of(f"{right}\n{wrong}", TASK.program, seen=seen)
    assert caught.value.program == TASK.program.replace("recent = 1.0", "recent = 0.5")
    assert caught.value.unapplied == f"{wrong}\n" and caught.value.kind == "search_not_found"


def test_what_a_named_program_has_in_other_words_is_seen_too() -> None:
    other = Member(7, TASK.program.replace("best = each.argmax(axis=1)", "best = (-each).argmin(axis=1)"), 0.9)
    seen = seen_program(PARENT, experiment("As candidate 7.\nNeeds: none", briefing=replace(BRIEFING, named=(other,))))
    assert "best = each.argmax(axis=1)" in seen and "def count_heap(need, extra): ...  # " in seen


def test_an_edit_of_what_is_seen_leaves_hidden_code_as_it_was() -> None:
    program = made(edit("recent = 1.0", "recent = 0.5"))
    assert program == TASK.program.replace("recent = 1.0", "recent = 0.5")


def test_a_search_is_unique_among_what_is_seen() -> None:
    line = "    load = forecast(np.array(instance["
    assert TASK.program.count("    return np.array(placed)") == 2 and line in TASK.program
    seen = folded(TASK.program, {"place_heap"})
    program = program_of(edit("    return np.array(placed)", "    return np.asarray(placed)"), TASK.program, seen=seen)
    assert program.count("    return np.asarray(placed)") == 1 and program.count("    return np.array(placed)") == 1


def test_an_edit_of_hidden_code_that_is_right_all_the_same_is_applied() -> None:
    program = made(edit("        best = each.argmax(axis=1)", "        best = each.argmin(axis=1)"))
    assert program == TASK.program.replace("best = each.argmax(axis=1)", "best = each.argmin(axis=1)")


def test_a_folded_line_may_be_replaced_by_a_new_definition() -> None:
    line = next(line for line in SEEN.splitlines() if line.startswith("def snake("))
    program = made(edit(line, "def snake(count, bins):\n    return np.arange(count)"))
    assert "def snake(count, bins):\n    return np.arange(count)\n" in program
    assert "Positions 0" not in program and "hidden" not in program
    assert 'def replicas(rows, extra):\n    """(rows' in program


def test_a_whole_block_with_its_folded_lines_is_the_whole_program() -> None:
    block = split_block(SEEN)[1].replace("recent = 1.0", "recent = 0.5")
    assert made(f"```python\n{block}```") == TASK.program.replace("recent = 1.0", "recent = 0.5")


@pytest.mark.parametrize(
    "instead",
    ["", "ORDERS = ...\n", "ORDERS = ...  # 5-6 hidden\n", "ORDERS = ...  # as before\n", "x = 1  # 5-6 hidden\n"],
)
def test_a_whole_block_that_loses_hidden_code_is_refused(instead: str) -> None:
    block = split_block(SEEN)[1]
    line = next(line for line in block.splitlines(keepends=True) if line.startswith("ORDERS = "))
    with pytest.raises(CandidateFault) as raised:
        made(f"```python\n{block.replace(line, instead)}```")
    assert raised.value.kind == "hidden_lines_lost"


def test_a_whole_block_may_leave_out_hidden_code_that_nothing_uses_any_more() -> None:
    block = split_block(SEEN)[1]
    line = next(line for line in block.splitlines(keepends=True) if line.startswith("def place_scan("))
    assert TASK.program.count("place_scan") == 2
    without = block.replace(line, "").replace('"scan": place_scan, ', "")
    assert "place_scan" not in made(f"```python\n{without}```")
    with pytest.raises(CandidateFault, match="place_scan"):
        made(f"```python\n{block.replace(line, '')}```")


def test_neither_a_word_of_a_docstring_nor_an_attribute_of_another_class_uses_hidden_code() -> None:
    """As a model by hand was refused twice: "ridge regression" stands above the block, and a class has `self.parts`."""
    task = load_task("multi_evolve")
    seen = folded(task.program, {"predict"})
    assert "def regression(" in seen and "    def parts(self, held): ...  # " in seen

    def written(use: str) -> str:
        other = "class Other:\n    def __init__(self):\n        self.parts = [1.0]\n\n\n"
        block = f"{other}def predict(instance):\n    return [{use} for _ in instance['test']]\n"
        return program_of(f"```python\n{block}```", task.program, entry="predict", seen=seen)

    assert "Other().parts[0]" in written("Other().parts[0]")
    with pytest.raises(CandidateFault, match="regression"):
        written("regression([1.0])")


def test_a_hidden_function_that_is_written_anew_counts_and_one_of_three_dots_does_not() -> None:
    block = split_block(SEEN)[1]
    line = next(line for line in block.splitlines(keepends=True) if line.startswith("def snake("))
    anew, stub = ("def snake(count, bins):\n    return np.arange(count)\n", "def snake(count, bins):\n    ...\n")
    written = made(f"```python\n{block.replace(line, anew)}```")
    assert "return np.arange(count)\n" in written and "Positions 0" not in written
    with pytest.raises(CandidateFault, match="snake"):
        made(f"```python\n{block.replace(line, stub)}```")


async def test_a_helper_makes_the_same_program() -> None:
    answer = edit("recent = 1.0", "recent = 0.5")
    assert await made_of(answer, TASK.program, entry="place", seen=SEEN) == made(answer)


@pytest.mark.parametrize("number", ["0007", "0015"])
def test_real_answers_fit_what_their_authors_would_see(number: str) -> None:
    question, answer = (ONE_CALL / f"{number}{suffix}" for suffix in (".md", ".txt"))
    match = re.search(r"\n(`{3,})python\n(\"\"\"Place.*?\n)\1\n", question.read_text("utf-8"), re.DOTALL)
    assert match is not None
    parent, wrote = match[2], answer.read_text("utf-8")
    seen = folded(parent, ())
    assert len(seen) < 0.3 * len(parent)
    assert program_of(wrote, parent, seen=seen) == program_of(wrote, parent)


@pytest.mark.parametrize(
    ("name", "least", "share"),
    [("eplb_three_calls", 10, 0.25), ("multi_evolve_one_call", 9, 0.6), ("routing_one_call", 15, 0.6)],
)
def test_edits_of_a_strong_model_make_the_same_programs_where_only_what_they_change_is_seen(
    name: str, least: int, share: float
) -> None:
    sizes = list[tuple[int, int]]()
    for kind, question, answer in asked(name):
        shown = re.search(r"^# The program\n.*?^(`{3,})python\n(.*?)^\1$", question, re.MULTILINE | re.DOTALL)
        edits = parse(answer) if kind == "implement" else WholeBlock("")
        if isinstance(edits, WholeBlock) or shown is None or "characters of the middle" in shown[2]:
            continue
        try:
            program = program_of(answer, shown[2])
        except CandidateFault:
            continue
        seen = folded(shown[2], touched(shown[2], edits))
        assert program_of(answer, shown[2], seen=seen) == program
        sizes.append((len(shown[2]), len(seen)))
    assert len(sizes) >= least
    assert sum(size for _, size in sizes) < share * sum(size for size, _ in sizes)


def touched(program: str, edits: Sequence[Edit]) -> set[str]:
    """Names of the functions and tables that the edits change."""
    names = set[str]()
    for part in parts(program.splitlines(keepends=True)):
        text = part.text(program.splitlines(keepends=True))
        names |= {part.name for edit in edits if any(line and line in text for line in edit.search)}
    return names
