"""Runs in which a strong model answered by hand and knew only the prompts: `eplb`, `multi_evolve`, and programs of a
user's own of 342 and 314 lines, first in longer questions and then with folded functions. Every answer is read as
meant."""

import re
from collections import Counter

import pytest

from pace_async.advise.one_answer import parse_one
from pace_async.answers import parse_propose, parse_select
from pace_async.context.notes_page import page_in
from pace_async.errors import CandidateFault
from pace_async.implement.edits import WholeBlock, apply_edits, parse, program_of
from pace_async.programs.folding import lost_names
from pace_async.programs.text import editable
from scripts.benchmarks.rounds_by_hand import RUNS
from tests.support.rounds_by_hand import asked

_PROGRAM = re.compile(r"^# The program\n.*?^(`{3,})python\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_PARENT = re.compile(r"^# The parent\nCandidate (\d+),.*?^(`{3,})python\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
_OF = re.compile(r"^It is candidate (\d+),", re.MULTILINE)
KINDS = {
    "eplb_three_calls": {"propose": 16, "select": 16, "implement": 16},
    "multi_evolve_one_call": {"one": 16, "implement": 16},
    "routing_one_call": {"one": 26, "implement": 30},
    "eplb_one_call": {"one": 16, "implement": 16},
    "multi_evolve_one_call_2": {"one": 16, "implement": 17, "notes": 2},
    "routing_one_call_2": {"one": 16, "implement": 21},
    "eplb_one_call_2": {"one": 16, "implement": 16},
    "multi_evolve_one_call_3": {"one": 16, "implement": 18, "notes": 2},
    "packing_one_call": {"one": 16, "implement": 13},
}
FAULTS = {
    "routing_one_call": {"search_not_found": 3},
    "multi_evolve_one_call_2": {"search_not_found": 1},
    "routing_one_call_2": {"search_not_found": 4},
    "multi_evolve_one_call_3": {"search_not_found": 2},
}


FOLDED = {
    "eplb_one_call_3": 16,
    "eplb_one_call_4": 16,
    "eplb_one_call_5": 17,
    "eplb_one_call_6": 16,
    "eplb_three_calls_2": 32,
    "eplb_three_calls_3": 32,
    "multi_evolve_one_call_4": 16,
    "multi_evolve_one_call_5": 17,
    "multi_evolve_one_call_6": 16,
    "multi_evolve_one_call_7": 16,
    "rostering_one_call": 16,
    "routing_one_call_3": 16,
}
"""Later runs, whose authors saw programs with folded functions, and how many answers their advisors gave."""
MADE = {
    "eplb_one_call_6": {"edited": 12, "whole": 4},
    "eplb_three_calls_3": {"edited": 7, "whole": 10},
    "multi_evolve_one_call_7": {"edited": 11, "whole": 8, "search_not_found": 2},
    "rostering_one_call": {"edited": 11, "whole": 5},
}
"""What was not 16 times edited."""
WRONG_ON_PURPOSE = {"multi_evolve_one_call_5": 1}
ADVICE = ("one", "propose", "select")


def is_whole(kind: str, answer: str) -> bool:
    """Whether an advisor's answer has all that is asked for. Raises CandidateFault if it cannot be read."""
    if kind == "propose":
        return len(parse_propose(answer)) == 3
    if kind == "select":
        return bool(parse_select(answer, 99)[1])
    read = parse_one(answer)
    return 1 <= len(read.ideas) <= 3 and bool(read.place or read.number) and bool(read.specification)


@pytest.mark.parametrize("name", KINDS)
def test_every_answer_of_a_round_by_hand_is_read(name: str) -> None:
    kinds, faults, made, parents = Counter[str](), Counter[str](), 0, dict[str, str]()
    for kind, question, answer in asked(name):
        kinds[kind] += 1
        if kind in ADVICE:
            assert is_whole(kind, answer)
            if kind == "one" and (parent := _PARENT.search(question)) is not None:
                parents[parent[1]] = parent[3]
        elif kind == "notes":
            assert page_in(answer).startswith("Worked:\n")
        elif (program := _PROGRAM.search(question)) is not None and "characters of the middle" not in program[2]:
            made += 1
            begun = _OF.search(question)
            parent_text = parents.get(begun[1], program[2]) if begun is not None else program[2]
            try:
                assert program_of(answer, parent_text, seen=program[2]) != parent_text
            except CandidateFault as fault:
                faults[fault.kind] += 1
    assert kinds == KINDS[name]
    assert made >= 13
    assert faults == FAULTS.get(name, {})


@pytest.mark.parametrize("name", FOLDED)
def test_every_answer_to_a_program_with_folded_functions_is_put_back_as_its_author_meant(name: str) -> None:
    advised, refused, made = 0, 0, Counter[str]()
    for kind, question, answer in asked(name):
        if kind in ADVICE:
            advised += 1
            try:
                assert is_whole(kind, answer)
            except CandidateFault:
                refused += 1
        elif kind == "implement":
            seen, parsed = _PROGRAM.search(question), parse(answer)
            assert seen is not None
            block = editable(seen[2])[1]
            if isinstance(parsed, WholeBlock):
                assert lost_names(parsed.text, block, parsed.text) == []
                made["whole"] += 1
                continue
            try:
                assert apply_edits(block, parsed, seen[2]) != block
                made["edited"] += 1
            except CandidateFault as fault:
                made[fault.kind] += 1
    assert (advised, refused) == (FOLDED[name], WRONG_ON_PURPOSE.get(name, 0))
    assert made == MADE.get(name, {"edited": 16})


def test_every_kept_run_is_read() -> None:
    assert sorted({*KINDS, *FOLDED}) == sorted(RUNS)
