"""What a strong model really wrote, in both ways of asking, is read as it was meant."""

from pathlib import Path

import pytest

from pace_async.advise.one_answer import parse_one
from pace_async.answers import parse_assess, parse_propose, parse_select
from pace_async.context.briefing import named_candidates
from pace_async.implement.edits import WholeBlock, parse
from pace_async.implement.model_maker import deviation_in

ONE_CALL = Path(__file__).parents[1] / "data" / "one_call"
THREE_CALLS = Path(__file__).parents[3] / "shared" / "data" / "model_answers"
ADVISED = ("0001", "0002", "0005", "0006", "0009", "0010", "0013", "0014")
IMPLEMENTED = ("0003", "0004", "0007", "0008", "0011", "0012", "0015", "0016")


def answer(number: str) -> str:
    return (ONE_CALL / f"{number}.txt").read_text("utf-8")


@pytest.mark.parametrize("number", ADVISED)
def test_an_answer_of_one_call_is_read(number: str) -> None:
    read = parse_one(answer(number))
    assert 1 <= len(read.ideas) <= 3 and (read.place or read.number)
    assert 1 <= len([line for line in read.specification.split("\n") if line.strip()]) <= 10


def test_what_these_answers_chose_is_what_is_read() -> None:
    read = {number: parse_one(answer(number)) for number in ADVISED}
    assert {number: one.place for number, one in read.items()} == {
        **dict.fromkeys(("0001", "0002", "0005", "0006", "0009", "0014"), 1),
        "0010": None,
        "0013": 2,
    }
    assert read["0010"].number == 5
    assert named_candidates(read["0006"].specification) == [2]
    assert [kind for kind, _ in read["0005"].ideas] == ["combine", "refine", "explore"]


@pytest.mark.parametrize("number", IMPLEMENTED)
def test_an_answer_of_an_implementer_is_read(number: str) -> None:
    made = parse(answer(number))
    assert isinstance(made, WholeBlock) or len(made) >= 1
    assert bool(deviation_in(answer(number))) == (number in ("0003", "0008", "0011"))


@pytest.mark.skipif(not THREE_CALLS.is_dir(), reason="more answers than those in tests/data/by_hand are not here")
def test_every_answer_of_three_calls_is_read_as_before() -> None:
    kinds = {"propose": 0, "assess": 0, "select": 0}
    for question in sorted((THREE_CALLS / "q").glob("*.md")):
        asked, said = question.read_text("utf-8"), THREE_CALLS / "a" / f"{question.stem}.txt"
        if not asked.startswith("model: advisor"):
            continue
        wrote = said.read_text("utf-8")
        if "Propose three new ideas" in asked:
            assert len(parse_propose(wrote)) == 3
            kinds["propose"] += 1
        elif "Proposal N: known K" in asked:
            assert len(parse_assess(wrote, 3, 99)) == 3
            kinds["assess"] += 1
        else:
            assert parse_select(wrote, 99)[1]
            kinds["select"] += 1
    assert all(kinds.values())
