"""Prompts of an advisor that reads the task's catalogue in its prompt.

A catalogue word (a mechanism's name or an option) is one token for such an advisor, so the texts hold catalogue words
and a fixed wording, and no background and no code. The propose prompt lists alternatives to the parent's present
settings as pairs of name and option. The verdicts on proposals and the experiments that test the ideas are computed
here. The assess and select prompts hold them in exactly the form of the answer. Only ideas that change the parent
become experiments. Pure: equal values give equal text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pace_async.search.edit_bandit import edit_text

Status = Literal["untried", "better", "worse", "failed"]
STATUSES: tuple[Status, ...] = ("untried", "better", "worse", "failed")
UNKNOWN = "(other)"
"""The word for a present value that is not in the catalogue."""
NUMBERS = 9
"""A prompt numbers at most this many ideas."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One mechanism of a prompt: its present value, or None if that is not an option, and alternatives to it."""

    name: str
    present: str | None
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edit:
    """An idea that names a mechanism and an option, and its result."""

    name: str
    option: str
    status: Status = "untried"


def propose_text(offers: Sequence[Offer], edits: Sequence[Edit]) -> str:
    """Asks for three ideas."""
    lines = ""
    for offer in offers:
        pairs = "".join(f" {offer.name} to {option}" for option in offer.options)
        lines += f"\n    {offer.name} = {offer.present or UNKNOWN}{pairs}"
    ideas = "".join(f"\n    ({edit.status}): {edit.name} to {edit.option}" for edit in edits)
    return f"Catalogue:{lines}\nIdeas:{ideas}\n\nPropose three ideas.\n"


def idea_text(name: str, option: str) -> str:
    """The hypothesis in which an idea is worded."""
    return f"{name} to {option} helps."


def answer_to_propose(ideas: Sequence[tuple[str, str]]) -> str:
    """The answer that proposes these pairs of name and option."""
    parts = (
        f"Idea {number}\nHypothesis: {idea_text(name, option)}\nReasoning: untested here."
        for number, (name, option) in enumerate(ideas, start=1)
    )
    return "\n".join(parts)


def verdicts_text(places: Sequence[int | None]) -> str:
    """A verdict a line: new, or the number of the idea that is repeated."""
    return "\n".join(f"Proposal {n}: {'new' if k is None else f'known {k}'}" for n, k in enumerate(places, start=1))


def assess_text(places: Sequence[int | None]) -> str:
    """Asks to repeat the verdicts, which were compared in code."""
    return f"Compared:\n{verdicts_text(places)}\n\nRepeat the verdicts.\n"


def experiment_text(number: int, edit: Edit, present: str | None) -> str:
    """The answer that chooses experiment `number`."""
    return f"Idea ID: {number}\nExperiment description: {edit_text(edit.name, edit.option, present or UNKNOWN)}"


def select_text(experiments: Sequence[tuple[Edit, str | None]]) -> str:
    """Asks for one of the experiments, each an edit with the parent's present value. They are numbered from 1."""
    lines = (
        f"\n({edit.status}):\n{experiment_text(number, edit, present)}"
        for number, (edit, present) in enumerate(experiments, start=1)
    )
    return f"Experiments:{''.join(lines)}\n\nChoose one experiment.\n"
