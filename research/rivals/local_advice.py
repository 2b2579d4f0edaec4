"""Answers of the local server to an advisor's prompts: ideas and experiments that name edits of the task's catalogue,
or numbers to change where it has none.

is_advice   whether a question is an advisor's
advice      a good answer, or one with a fault by name
"""

import re
from collections.abc import Mapping

from pace_async.implement.catalogue import Catalogue
from research.rivals import number_moves

QUESTIONS = (
    "Propose three new ideas",
    "Say of each proposal",
    "Choose one idea",
    "What limits the parent",
    "Say which",
)
ADVICE_FAULTS: Mapping[str, str] = {
    "empty": "ok",
    "length": "ok",
    "prose": "ok",
    "refusal": "refusal",
    "echo_key_in_answer": "secret_in_answer",
}
"""What goes wrong with an answer, and the outcome of its call. An answer that cannot be parsed is paid for as a good
one."""


NOTES = " Say why things worked or failed where the results show it,"
PAGE = "I looked.\nWorked:\nlayout hex, in candidate 2\nFailed:\nrings\nOpen:\nmore restarts"
"""What only the request for a page of notes says, and the answer to it."""

POOL = "# The pool of ideas\n"
"""What only the question which ideas leave says."""


def leaving(question: str) -> str:
    """All ideas but the newest leave."""
    numbers = re.findall(r"^Idea (\d+) \(", question, re.MULTILINE)
    (stay,) = re.findall(r"and (\d+) may stay", question)
    kept = numbers[-int(stay) :]
    return f"Leave: {', '.join(numbers[: -int(stay)])}\nIdea {kept[0]}: the older ones and {kept[0]} in one"


def is_advice(question: str) -> bool:
    """Whether an advisor asks."""
    return any(f"\n{beginning}" in question for beginning in QUESTIONS)


def advice(behaviour: str, question: str, key: str, catalogue: Catalogue | None, number: int) -> str:
    """The answer to call `number`. Without a catalogue its ideas change numbers (`number_moves`)."""
    match behaviour:
        case "empty":
            return " \n"
        case "prose" | "refusal":
            return "I would rather talk about something else."
        case "length":
            return "Idea 1\nHypothesis: it goes on and"
        case "echo_key_in_answer":
            return f"Idea 1\nHypothesis: the key is {key}"
        case _:
            return _good(question, catalogue, number)


def _good(question: str, catalogue: Catalogue | None, number: int) -> str:
    proposals = re.findall(r"^Proposal (\d+): ", question, re.MULTILINE)
    if QUESTIONS[0] in question:
        told = _ideas(catalogue, number)
        return "\n".join(f"Idea {n}\nHypothesis: {edit}\nReasoning: it may help" for n, edit in enumerate(told, 1))
    if QUESTIONS[3] in question:
        edit = _ideas(catalogue, number)[0]
        return f"Idea A (refine): {edit}\nChoice: A\nReasoning: it may help\nSpecification:\n{edit}\nNeeds: none"
    if QUESTIONS[1] in question or QUESTIONS[4] in question:
        return "\n".join(f"Proposal {proposal}: new" for proposal in proposals)
    ideas = re.findall(r"^Idea (\d+): (.*) \(", question, re.MULTILINE)
    ideas = ideas or re.findall(r"^- idea (\d+): (.*)", question, re.MULTILINE)
    place, described = ideas[number % len(ideas)]
    return f"Idea ID: {place}\nExperiment description: {described}"


def _ideas(catalogue: Catalogue | None, number: int) -> list[str]:
    if catalogue is None:
        return [number_moves.idea(3 * number + place) for place in range(3)]
    edits = [
        f"Set {mechanism.name} to {option}."
        for mechanism in catalogue.mechanisms
        for option in map(str, mechanism.options)
    ]
    return [edits[(7 * number + 3 * place) % len(edits)] for place in range(3)]
