"""The answers of the advisor are read strictly: what was asked for, with what a chat model may add, or the candidate's
own fault."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_async.answers import (
    MAX_SENTENCE,
    parse_assess,
    parse_propose,
    parse_select,
    proposed_by_lines,
    selected_by_lines,
)
from pace_async.errors import CandidateFault

PROPOSAL = "\n".join(f"Idea {n}\nHypothesis: h{n}\nReasoning: r{n}" for n in (1, 2, 3))

sentences = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=60)
numbers = st.integers(1, 10_000)


def test_three_ideas_are_read_in_order() -> None:
    assert parse_propose(PROPOSAL) == (("h1", "r1"), ("h2", "r2"), ("h3", "r3"))


def test_blank_lines_and_trailing_spaces_are_accepted() -> None:
    assert parse_propose("\n" + PROPOSAL.replace("\n", "  \n\n") + "\n") == parse_propose(PROPOSAL)


@pytest.mark.fault("Advisor and engine", "no hypothesis")
@pytest.mark.fault("Advisor and engine", "five hundred hypotheses")
@pytest.mark.parametrize(
    "text",
    [
        "",
        PROPOSAL.removesuffix("\nReasoning: r3"),
        PROPOSAL + "\nIdea 3\nHypothesis: h4\nReasoning: r4",
        PROPOSAL + "\nHypothesis: h4",
        PROPOSAL.replace("Idea 2", "Idea 3"),
        PROPOSAL.replace("Idea 2", "Idea 02"),
        PROPOSAL.replace("Idea 2", "A second idea"),
        PROPOSAL.replace("Idea 2", "**Idea 2"),
        PROPOSAL.replace("Reasoning: r1", "Reasoning: r1\nand it goes on"),
        PROPOSAL.replace("Hypothesis: h1", "Hypothesis: h1\nand it goes on"),
        PROPOSAL.replace("Idea 1", "Idea 1\nHypothesis: h0"),
        PROPOSAL.replace("Hypothesis: h2", "Hypothesis:h2"),
        PROPOSAL.replace("Hypothesis: h2", "Hypothesis:"),
        PROPOSAL.replace("h2", "h2\x00"),
        PROPOSAL.replace("h2", "h2\ud800"),
        PROPOSAL.replace("h2", "h" * (MAX_SENTENCE + 1)),
        "Hypothesis: h0\n" + PROPOSAL,
        "\n".join(f"Idea {n}\nHypothesis: h{n}\nReasoning: r{n}" for n in range(1, 501)),
    ],
)
def test_a_proposal_of_any_other_form_is_unparsed(text: str) -> None:
    with pytest.raises(CandidateFault) as fault:
        parse_propose(text)
    assert fault.value.kind == "unparsed"
    assert fault.value.detail


@pytest.mark.parametrize(
    "text",
    [
        "Here are my ideas.\n" + PROPOSAL,
        PROPOSAL + "\nI hope that one of them helps.",
        PROPOSAL + "\nIdea 4\nHypothesis: h4\nReasoning: r4",
        PROPOSAL.replace("Idea 1", "Idea 1:"),
        PROPOSAL.replace("Idea 2", "**Idea 2**"),
        PROPOSAL.replace("Idea 2", "### Idea 2: a better layout"),
        PROPOSAL.replace("Idea 2", "---\n**Idea 2:**"),
        PROPOSAL.replace("Hypothesis: ", "- **Hypothesis:** "),
        PROPOSAL.replace("Reasoning: ", "* **Reasoning**: "),
        PROPOSAL.replace("Hypothesis: h2", "hypothesis: h2"),
        PROPOSAL.replace("Hypothesis: ", "Hypothesis:\n"),
        f"```text\n{PROPOSAL}\n```",
    ],
)
def test_what_a_chat_model_adds_is_tolerated_where_the_meaning_is_certain(text: str) -> None:
    assert parse_propose(text) == (("h1", "r1"), ("h2", "r2"), ("h3", "r3"))


@given(st.lists(st.tuples(sentences, sentences), min_size=3, max_size=3))
def test_a_well_formed_proposal_of_any_text_is_read_back(pairs: list[tuple[str, str]]) -> None:
    text = "\n".join(f"Idea {n}\nHypothesis: {h}\nReasoning: {r}" for n, (h, r) in enumerate(pairs, start=1))
    assert parse_propose(text) == tuple(pairs)


def test_verdicts_are_new_or_the_number_of_a_known_idea() -> None:
    assert parse_assess("Proposal 1: new\nProposal 2: known 7\nProposal 3: new", 3, 7) == (None, 7, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Proposal 1: new\nProposal 2: new",
        "Proposal 1: new\nProposal 2: known 8\nProposal 3: new",
        "Proposal 1: new\nProposal 2: known 0\nProposal 3: new",
        "Proposal 1: new\nProposal 3: new\nProposal 2: new",
        "Proposal 1: new\nProposal 2: known\nProposal 3: new",
        "Proposal 1: new\nProposal 1: new\nProposal 2: new\nProposal 3: new",
        "Proposal 1: new\nProposal 2: new, unlike idea 3\nProposal 3: new",
        "Proposal 1: new or known 2\nProposal 2: new\nProposal 3: new",
        "Proposal 1: new\nProposal 2: known ٧\nProposal 3: new",
        "Proposal 1: new\nProposal 2: known 07\nProposal 3: new",
        "Idea 1: new\nIdea 2: new\nIdea 3: new",
    ],
)
def test_a_verdict_of_any_other_form_is_unparsed(text: str) -> None:
    with pytest.raises(CandidateFault, match="unparsed"):
        parse_assess(text, 3, 7)


@pytest.mark.parametrize(
    "text",
    [
        "Proposal 1: New.\nProposal 2: known idea 7\nProposal 3: NEW",
        "**Proposal 1:** new\n- Proposal 2: **known 7**\n**Proposal 3: new**",
        "These are my verdicts:\nProposal 1: new\nIt is untried.\nProposal 2: known 7\nProposal 3: new\nThat is all.",
        "Proposal 1: new\nProposal 2: known 7\nProposal 3: new\nProposal 4: known 99",
    ],
)
def test_verdicts_of_a_chat_model_are_read_where_the_meaning_is_certain(text: str) -> None:
    assert parse_assess(text, 3, 7) == (None, 7, None)


@given(st.lists(st.none() | numbers, max_size=6))
def test_well_formed_verdicts_are_read_back(verdicts: list[int | None]) -> None:
    lines = [f"Proposal {i}: {'new' if k is None else f'known {k}'}" for i, k in enumerate(verdicts, start=1)]
    assert parse_assess("\n".join(lines), len(verdicts), max((k for k in verdicts if k), default=0)) == tuple(verdicts)


def test_a_choice_is_an_idea_of_the_pool_and_an_experiment() -> None:
    text = 'Idea ID: 7\nExperiment description: Change layout from "grid" to "hex".'
    assert parse_select(text, 7) == (7, 'Change layout from "grid" to "hex".')


@pytest.mark.parametrize(
    "text",
    [
        "I choose the seventh.\nIdea ID: 7\nExperiment description: x\nIt may help.",
        "**Idea ID:** 7\n\n**Experiment description:** x",
        "idea id: Idea 7\nexperiment description:\nx",
        "```\nIdea ID: #7\nExperiment description: x\n```",
    ],
)
def test_a_choice_of_a_chat_model_is_read_where_the_meaning_is_certain(text: str) -> None:
    assert parse_select(text, 7) == (7, "x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Idea ID: 7",
        "Idea ID: 7\nbecause it is untried\nExperiment description: x",
        "Idea ID: 7 or 6\nExperiment description: x",
        "Idea ID: 7\nExperiment description: x\nExperiment description: y",
        "Idea ID: 8\nExperiment description: x",
        "Idea ID: 0\nExperiment description: x",
        "Idea ID: seven\nExperiment description: x",
        "Idea ID: 7\nExperiment description: ",
        "Idea ID: 7\nExperiment description: x\nIdea ID: 7",
        "Idea ID: 7 Experiment description: x",
        "Experiment description: x\nIdea ID: 7",
    ],
)
def test_a_choice_of_any_other_form_is_unparsed(text: str) -> None:
    with pytest.raises(CandidateFault, match="unparsed"):
        parse_select(text, 7)


@given(st.text(max_size=200))
def test_no_text_makes_a_parser_fail_in_another_way(text: str) -> None:
    for parse in (lambda: parse_propose(text), lambda: parse_assess(text, 3, 1), lambda: parse_select(text, 1)):
        with pytest.raises(CandidateFault):
            parse()


values = st.one_of(
    st.text(st.sampled_from(["a", "7", " ", "\t", "\r", "\x0b", "\xa0", "\u2028", "*", "_", "`", "\0"]), max_size=6),
    st.sampled_from(["Idea 2", "Hypothesis: b", "h" * MAX_SENTENCE, "h" * (MAX_SENTENCE + 1), "```", "\nx"]),
)
"""What may follow the name of a field."""


def read_or_refused(read: Callable[[], object]) -> object:
    """The result, or the words of the refusal."""
    try:
        return read()
    except CandidateFault as fault:
        return str(fault)


@given(st.lists(values, min_size=6, max_size=6), st.sampled_from(["", "\n", "\n\n", " \n", "\nmore"]))
def test_a_proposal_in_just_the_form_asked_for_is_read_as_any_other(said: list[str], end: str) -> None:
    ideas = [f"Idea {n}\nHypothesis: {said[2 * n - 2]}\nReasoning: {said[2 * n - 1]}" for n in (1, 2, 3)]
    text = "\n".join(ideas) + end
    assert read_or_refused(lambda: parse_propose(text)) == read_or_refused(lambda: proposed_by_lines(text))


@given(st.sampled_from(["1", "2", "3", "03", "0", "x", "1.", "1 "]), values, st.sampled_from(["", "\n", "\nmore"]))
def test_a_choice_in_just_the_form_asked_for_is_read_as_any_other(number: str, said: str, end: str) -> None:
    text = f"Idea ID: {number}\nExperiment description: {said}{end}"
    assert read_or_refused(lambda: parse_select(text, 2)) == read_or_refused(lambda: selected_by_lines(text, 2))
