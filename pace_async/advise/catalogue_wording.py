"""The wording for an advisor that reads the task's catalogue in its prompt.

The texts are those of `catalogue_prompts`. A catalogue of at most MECHANISMS mechanisms with ALTERNATIVES alternatives
each is listed whole. Of a larger one each prompt offers a menu, as many as the advisor reads well: MENU mechanisms with
MENU_ALTERNATIVES alternatives each, drawn at random, in the order of the catalogue. The prompt's tokens stand in the
row, so the row tells what was offered.
A present value is read from the parent's evolve block. A mechanism that the block does not assign exactly once is not
offered.
"""

import ast
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pace_async.advise.catalogue_prompts import (
    NUMBERS,
    Edit,
    Offer,
    Status,
    assess_text,
    propose_text,
    select_text,
)
from pace_async.advise.prompts import Detail
from pace_async.advise.wording import Question
from pace_async.programs.languages import PYTHON, Language, assigned
from pace_async.programs.text import editable
from pace_async.reward import better
from pace_async.search.ideas import recognised
from pace_async.search.state import Idea, SearchContext

MECHANISMS, ALTERNATIVES = 14, 7
"""Most mechanisms of a catalogue that is listed whole, and most alternatives of each."""
MENU, MENU_ALTERNATIVES = 8, 4
"""The same of a menu."""

T = TypeVar("T")

_ASSIGNMENT = re.compile(r"^[ \t]*([a-z][a-z0-9_]*)[ \t]*=[ \t]*([^#\n]*?)[ \t]*(?:#.*)?$", re.MULTILINE)
_IDEA = re.compile(r"(\S+) to (\S+) helps\.")


class CatalogueWording:
    """Implements `Wording`. `options` are the words of each mechanism's options, by name. `direction` is the task's,
    `language` that of its programs, by default Python."""

    compares = True

    def __init__(
        self, options: Mapping[str, tuple[str, ...]], direction: str, language: Language | None = None
    ) -> None:
        self._options = options
        self._language = language
        self._direction = direction

    def propose(self, context: SearchContext, detail: Detail, draw: random.Random) -> Question:
        present = present_values(self._options, context.parent.program, self._language)
        tried = (self._edit(idea, context) for idea in _latest(context, detail))
        edits = [edit for edit in tried if edit is not None]
        return Question(propose_text(menu(self._options, present, draw), edits), ())

    def assess(self, context: SearchContext, proposals: Sequence[str], detail: Detail) -> Question:
        ideas = _latest(context, detail)
        following = max((idea.number for idea in context.ideas), default=0) + 1
        known = recognised(context.ideas, proposals, [None] * len(proposals), following)
        numbers = {idea.number: place for place, idea in enumerate(ideas, start=1)}
        return Question(assess_text([None if k is None else numbers.get(k) for k in known]), ideas)

    def select(self, context: SearchContext, detail: Detail) -> Question:
        """Lists the ideas that change the parent, the latest NUMBERS of them."""
        present = present_values(self._options, context.parent.program, self._language)
        edits = ((idea, self._edit(idea, context)) for idea in context.ideas[detail.ideas_left_out :])
        useful = [(i, e) for i, e in edits if e is not None and e.name in present and present[e.name] != e.option]
        useful = useful[-NUMBERS:]
        text = select_text([(edit, present[edit.name]) for _, edit in useful])
        return Question(text, tuple(idea for idea, _ in useful))

    def shorter(self, context: SearchContext, proposals: Sequence[str], detail: Detail) -> Detail | None:
        """Leaves out the ideas used least recently, down to one."""
        if detail.ideas_left_out + 1 < len(context.ideas):
            return replace(detail, ideas_left_out=detail.ideas_left_out + 1)
        return None

    def _edit(self, idea: Idea, context: SearchContext) -> Edit | None:
        match = _IDEA.fullmatch(idea.description)
        if match is None or match[2] not in self._options.get(match[1], ()):
            return None
        return Edit(match[1], match[2], self._status(idea, context))

    def _status(self, idea: Idea, context: SearchContext) -> Status:
        """What became of the latest experiment, beside the parent's score."""
        if not idea.trials:
            return "untried"
        score = idea.trials[-1].score
        if score is None:
            return "failed"
        return "better" if better(self._direction, score, context.parent.score) else "worse"


def present_values(
    options: Mapping[str, tuple[str, ...]], program: str, language: Language | None = None
) -> dict[str, str | None]:
    """The present option of each mechanism that the evolve block assigns exactly once. None: a value that is no
    option."""
    try:
        block = editable(program)[1]
    except ValueError:
        return {}
    found: dict[str, list[str]] = {}
    if language is None or language.name == PYTHON:
        for name, value in _ASSIGNMENT.findall(block):
            found.setdefault(name, []).append(value)
    else:
        found = {name: [match[2] for match in assigned(language, name).finditer(block)] for name in options}
    return {name: _option(words, found[name][0]) for name, words in options.items() if len(found.get(name, ())) == 1}


def menu(options: Mapping[str, tuple[str, ...]], present: Mapping[str, str | None], draw: random.Random) -> list[Offer]:
    """Alternatives to the present values, as many as a prompt lists. Draws only for a large catalogue."""
    offers = [
        Offer(name, value, tuple(option for option in options[name] if option != value))
        for name, value in present.items()
    ]
    offers = [offer for offer in offers if offer.options]
    if is_listed_whole(options):
        return offers
    chosen = _some(offers, MENU, draw)
    return [Offer(one.name, one.present, tuple(_some(one.options, MENU_ALTERNATIVES, draw))) for one in chosen]


def is_listed_whole(options: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether each prompt lists every alternative."""
    return len(options) <= MECHANISMS and all(len(words) <= ALTERNATIVES + 1 for words in options.values())


def _some(items: Sequence[T], most: int, draw: random.Random) -> list[T]:
    """At most `most` of the items, in their order."""
    if len(items) <= most:
        return list(items)
    return [items[i] for i in sorted(draw.sample(range(len(items)), most))]


def _option(words: tuple[str, ...], value: str) -> str | None:
    """The option that a literal of the program is."""
    try:
        word = str(ast.literal_eval(value))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        word = value
    return word if word in words else None


def _latest(context: SearchContext, detail: Detail) -> tuple[Idea, ...]:
    return context.ideas[detail.ideas_left_out :][-NUMBERS:]
