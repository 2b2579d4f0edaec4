"""The answer of a rollout that is one call: one rule says what counts, and from there on the form is strict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.advise.one_answer import parse_one
from pace_async.errors import CandidateFault

GOOD = """\
The parent spends its time in the sort. Perhaps
Idea A (refine): a draft that does not count

Let me think again.

**Idea A (refine):** Replicate the hottest experts first,
and stop at the budget.
- Idea B (explore): Solve an integer program for the residual.
## Choice: B
Reasoning: the residual is what is left
and it is small.
Specification:
1. Take the residual of candidate 17.

```python
def place(load): ...
```
3. Return the placement.
"""


def test_what_stands_before_the_last_idea_a_is_thinking() -> None:
    answer = parse_one(GOOD)
    assert answer.ideas == (
        ("refine", "Replicate the hottest experts first, and stop at the budget."),
        ("explore", "Solve an integer program for the residual."),
    )
    assert (answer.place, answer.number) == (2, None)
    assert answer.reasoning == "the residual is what is left and it is small."
    assert answer.specification.startswith("1. Take the residual of candidate 17.\n\n```python\ndef place")
    assert answer.specification.endswith("3. Return the placement.")
    assert answer.texts[1] == "(explore) Solve an integer program for the residual."


def test_a_known_idea_is_chosen_by_its_number() -> None:
    answer = parse_one(GOOD.replace("Choice: B", "Choice: idea 40"))
    assert (answer.place, answer.number) == (None, 40)


@pytest.mark.parametrize(
    ("line", "numbers", "places"),
    [
        ("Covers: 7, 12", (7, 12), ()),
        ("**Covers:** idea 7, #12 and A.", (7, 12), (1,)),
        ("covers: ideas 7 and 12", (7, 12), ()),
        ("Covers: none", (), ()),
        ("Covers: 7 (the same thing), and the one on sorting", (7,), ()),
        ("Covers: C, Z and B", (), (2,)),
        ("Covers:", (), ()),
    ],
)
def test_ideas_that_need_no_try_any_more_stand_below_the_choice(
    line: str, numbers: tuple[int, ...], places: tuple[int, ...]
) -> None:
    answer = parse_one(GOOD.replace("## Choice: B", f"## Choice: B\n{line}"))
    assert (answer.covers, answer.covers_places) == (numbers, places)
    assert answer.reasoning == parse_one(GOOD).reasoning and parse_one(GOOD).covers == ()


def test_the_line_of_covered_ideas_may_stand_lower_and_is_no_part_of_the_specification() -> None:
    below = GOOD.replace("Specification:\n", "Covers: 7\nSpecification:\n")
    within = GOOD.replace("3. Return", "**Covers:** 12 and A\n3. Return").replace("```\n3", "Covers: 9\n```\n3")
    answer = parse_one(below.replace("3. Return", "Covers: 12\n3. Return"))
    assert answer.covers == (7, 12) and answer.specification == parse_one(GOOD).specification
    answer = parse_one(within)
    assert (answer.covers, answer.covers_places) == ((12,), (1,))
    assert "Covers" not in answer.specification and answer.reasoning == parse_one(GOOD).reasoning


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("Choice: B", "Covers: 7\nChoice: B"),
        ("Idea A (refine):** Rep", "Idea A (other):** Rep"),
        ("Choice: B", "Choice: C"),
        ("Choice: B", "Choice: the second"),
        ("## Choice: B\n", ""),
        ("Reasoning: the residual is what is left\nand it is small.\n", ""),
        ("Specification:\n", ""),
        ("Idea B (explore)", "Idea C (explore)"),
        ("Choice: B", "Choice: B\nChoice: A"),
        ("3. Return the placement.", "\n".join(f"{n}. line" for n in range(40))),
        ("3. Return the placement.", "\x07"),
        ("3. Return the placement.", "x" * 7000),
    ],
)
def test_another_form_is_unparsed(was: str, becomes: str) -> None:
    assert was in GOOD
    with pytest.raises(CandidateFault) as raised:
        parse_one(GOOD.replace(was, becomes))
    assert raised.value.kind == "unparsed"


@given(st.text(), st.text())
def test_any_text_is_an_answer_or_unparsed(before: str, after: str) -> None:
    for text in (before, f"{before}\n{GOOD}", f"{GOOD}{after}"):
        try:
            answer = parse_one(text)
        except CandidateFault as fault:
            assert fault.kind == "unparsed"
        else:
            assert 1 <= len(answer.ideas) <= 3 and answer.specification.strip()
