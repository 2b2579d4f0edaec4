"""The answer of a rollout that is one call: one rule says what counts, and from there on the form is strict."""

from dataclasses import replace

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


@pytest.mark.parametrize("nothing", ["", " ", " none", " None.", " -", " n/a"])
def test_the_line_of_an_idea_that_there_is_none_for_is_passed_over(nothing: str) -> None:
    assert parse_one(GOOD.replace("## Choice", f"Idea C (combine):{nothing}\n## Choice")) == parse_one(GOOD)
    with pytest.raises(CandidateFault):
        parse_one(GOOD.replace("## Choice: B", f"Idea C (combine):{nothing}\n## Choice: C"))


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
    ("line", "base"),
    [
        ("Base: 17", 17),
        ("**Base:** candidate 17.", 17),
        ("- base: #0", 0),
        ("Base: program 17 (the best so far)", 17),
        ("Base: 17, because it has the table", 17),
        ("Base: none", None),
        ("Base: the parent", None),
        ("Base:", None),
        ("Base: 2-opt moves", None),
        ("Base: 0.5 of the load", None),
        ("Base: the program of candidate 17", None),
        ("Base: none\nBase: 17", None),
        ("Base: 12345678901", None),
    ],
)
@pytest.mark.parametrize("above", ["Reasoning", "Covers: none\nReasoning"])
def test_the_program_to_change_is_named_below_the_choice(above: str, line: str, base: int | None) -> None:
    covered = GOOD.replace("Reasoning", above)
    for text in (GOOD.replace("Reasoning", f"{line}\n{above}"), covered.replace("Reasoning", f"{line}\nReasoning")):
        answer = parse_one(text)
        assert answer.base == base
        assert replace(answer, base=None) == parse_one(GOOD)


@pytest.mark.parametrize(
    ("line", "base"),
    [
        ("Base: 17", 17),
        ("**Base:** candidate 17 (the best)", 17),
        ("Base: none", None),
        ("Base: 2-opt moves", None),
        ("Base: 17 rounds of the loop", None),
        ("Base: keep the forecast", None),
    ],
)
def test_in_a_reason_or_a_specification_only_the_bare_number_names_a_base(line: str, base: int | None) -> None:
    taken = base is not None or line == "Base: none"
    reason = parse_one(GOOD.replace("and it is small.", f"and it is small.\n{line}"))
    assert reason.base == base and (line not in reason.reasoning) == taken
    below = parse_one(GOOD.replace("3. Return", f"{line}\n3. Return"))
    assert below.base == base and (line not in below.specification) == taken
    idea = parse_one(GOOD.replace("and stop at the budget.", f"{line}"))
    assert idea.base is None and line in idea.ideas[0][1]
    code = parse_one(GOOD.replace("```\n3", f"{line}\n```\n3"))
    assert code.base is None and line in code.specification


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


@given(st.text().filter(lambda text: text.isprintable()))
def test_no_remark_in_the_line_of_the_base_costs_the_answer(remark: str) -> None:
    answer = parse_one(GOOD.replace("Reasoning", f"Base: {remark}\nReasoning"))
    assert replace(answer, base=None) == parse_one(GOOD)
    assert answer.base is None or str(answer.base) in remark or not remark.isascii()
    below = parse_one(f"{GOOD}Base: {remark}")
    assert below.base == answer.base or f"Base: {remark}".rstrip() in below.specification
