"""One implementer behind any scaffold: what it takes for the parent, and in which words it answers."""

import random

import pytest

from pace_async.implement.base import Experiment
from pace_async.implement.catalogue import Catalogue, load_catalogue
from pace_async.implement.edits import program_of
from pace_async.implement.prompts import messages_for
from pace_async.search.state import Member
from pace_async.task import Task, load_task, split_block
from research.rivals.catalogue_moves import move_answer, moves, shown_parent

TASK: Task = load_task("circle_packing")
assert TASK.catalogue_path is not None
CATALOGUE: Catalogue = load_catalogue(TASK.catalogue_path)
OTHER = TASK.program.replace('layout = "rings"', 'layout = "hex"')


def ours() -> str:
    messages = messages_for(TASK, Member(1, OTHER, 1.0), Experiment(1, "an idea", "an experiment"))
    return "\n".join(message["content"] for message in messages)


def beside_others(ending: str) -> str:
    return (
        f"# Program Evolution History\n### Top program\n```python\n{TASK.program}```\n"
        f"# Current Program Information\n- Fitness: 1\n# Current Program\n```python\n{OTHER}```\n{ending}"
    )


def distance(program: str, other: str) -> int:
    return sum(a != b for a, b in zip(program.split("\n"), other.split("\n"), strict=True))


def test_every_move_changes_one_line_and_no_two_are_the_same() -> None:
    block = split_block(OTHER)[1]
    found = moves(block, CATALOGUE)
    assert len(found) == len(set(found)) == sum(len(each.options) - 1 for each in CATALOGUE.mechanisms)
    assert {distance(block, new) for new in found} == {1}


def test_the_parent_is_the_program_under_its_heading_or_the_only_one() -> None:
    assert shown_parent(ours()) == OTHER
    assert shown_parent(beside_others("# Task")) == OTHER
    with pytest.raises(ValueError, match="shows no program"):
        shown_parent("# Current Program\n```python\nprint(1)\n```\n")


def test_an_answer_to_pace_is_one_edit_of_the_parent() -> None:
    answer = move_answer(ours(), CATALOGUE, random.Random(0))
    assert distance(program_of(answer, OTHER), OTHER) == 1


def test_an_answer_has_the_words_that_the_prompt_asks_for() -> None:
    diff = move_answer(beside_others("<DIFF>\n<<<<<<< SEARCH\n"), CATALOGUE, random.Random(0))
    assert diff.startswith("<NAME>") and diff.endswith(">>>>>>> REPLACE\n</DIFF>")
    whole = move_answer(beside_others("<CODE>"), CATALOGUE, random.Random(0))
    program = whole.partition("```python\n")[2].partition("\n```\n</CODE>")[0]
    assert distance(program, OTHER) == 1
    bare = move_answer(beside_others("Rewrite it."), CATALOGUE, random.Random(0))
    assert distance(bare.removeprefix("```python\n").removesuffix("\n```"), OTHER) == 1


def test_a_program_without_the_catalogue_s_assignments_is_refused() -> None:
    program = "# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n"
    with pytest.raises(ValueError, match="no edit of the catalogue"):
        move_answer(f"```python\n{program}```\n", CATALOGUE, random.Random(0))
