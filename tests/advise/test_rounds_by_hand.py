"""Three runs in which a strong model answered by hand and knew only the prompts: `eplb` with three calls,
`multi_evolve` with one call, and a routing program of 342 lines of a user's own. Every answer is read as meant."""

import re
from collections import Counter

import pytest

from pace_async.advise.one_answer import parse_one
from pace_async.answers import parse_propose, parse_select
from pace_async.errors import CandidateFault
from pace_async.implement.edits import program_of
from tests.support.rounds_by_hand import asked

_PROGRAM = re.compile(r"^# The program\n.*?^(`{3,})python\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
KINDS = {
    "eplb_three_calls": {"propose": 16, "select": 16, "implement": 16},
    "multi_evolve_one_call": {"one": 16, "implement": 16},
    "routing_one_call": {"one": 26, "implement": 30},
}
FAULTS = {"eplb_three_calls": {}, "multi_evolve_one_call": {}, "routing_one_call": {"search_not_found": 3}}


@pytest.mark.parametrize("name", KINDS)
def test_every_answer_of_a_round_by_hand_is_read(name: str) -> None:
    kinds, faults, made = Counter[str](), Counter[str](), 0
    for kind, question, answer in asked(name):
        kinds[kind] += 1
        if kind == "propose":
            assert len(parse_propose(answer)) == 3
        elif kind == "select":
            assert parse_select(answer, 99)[1]
        elif kind == "one":
            read = parse_one(answer)
            assert 1 <= len(read.ideas) <= 3 and (read.place or read.number) and read.specification
        elif (program := _PROGRAM.search(question)) is not None and "characters of the middle" not in program[2]:
            made += 1
            try:
                assert program_of(answer, program[2]) != program[2]
            except CandidateFault as fault:
                faults[fault.kind] += 1
    assert kinds == KINDS[name]
    assert made >= 14
    assert faults == FAULTS[name]
