"""The wording for an advisor that reads the task's catalogue in its prompt.

The texts are those of `catalogue_prompts`. A *target* is what an idea can set: a mechanism, or a mechanism at a site. A
catalogue of at most MECHANISMS targets with ALTERNATIVES alternatives each is listed whole. Of a larger one each prompt
offers a *menu*, as many as the advisor reads well: MENU targets, at different sites where there are as many, with
MENU_ALTERNATIVES alternatives each, drawn at random. The row holds the prompt's tokens, so it shows what was offered. A
present value is read from the parent's evolve block. A target that the block does not assign exactly once is not
offered.

Where words of the catalogue share entries of the advisor's vocabulary (`binding`), a prompt holds at most one word of
each entry. Ideas of the pool have precedence, the latest first. What does not fit beside them is not offered. Where
nothing could be offered beside them, the oldest are left out.
"""

import ast
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pace_async.advise.catalogue_prompts import (
    NUMBERS,
    UNKNOWN,
    Edit,
    Offer,
    Status,
    assess_text,
    propose_text,
    select_text,
)
from pace_async.advise.wording import Detail, Question
from pace_async.answers import parse_first
from pace_async.errors import CandidateFault
from pace_async.fitness import Fitness
from pace_async.programs.languages import PYTHON, Language
from pace_async.programs.text import assignments, editable
from pace_async.search.edit_bandit import edit_text
from pace_async.search.ideas import recognised
from pace_async.search.state import Idea, SearchContext

MECHANISMS, ALTERNATIVES = 14, 7
"""Most targets of a catalogue that is listed whole, and most alternatives of each."""
MENU, MENU_ALTERNATIVES = 8, 4
"""The same of a menu."""

FIRST_IDEA = 6
"""Tokens of the first idea of an answer: its heading, site, mechanism, "to", option, and the end of its sentence. Each
word of a catalogue is one token."""

_IDEA = re.compile(r"((?:\S+ )?\S+) to (\S+) helps\.")


class PromptVocabulary:
    """The words of one prompt. `shared` names the entry of each word that shares one."""

    def __init__(self, shared: Mapping[str, str]) -> None:
        self.shared = shared
        self.meant: dict[str, str] = {}

    def fit(self, *phrases: str | None) -> bool:
        """Whether the prompt may hold these phrases."""
        return self._added(phrases) is not None

    def add(self, *phrases: str | None) -> bool:
        """Takes these phrases into the prompt, if it may hold them all."""
        added = self._added(phrases)
        self.meant.update(added or {})
        return added is not None

    def spoken(self, phrase: str) -> str:
        """The phrase as the prompt has it."""
        return " ".join(self.shared.get(word, word) for word in phrase.split())

    def _added(self, phrases: Iterable[str | None]) -> dict[str, str] | None:
        added: dict[str, str] = {}
        for word in (word for phrase in phrases if phrase for word in phrase.split()):
            entry = self.shared.get(word)
            if entry is not None and added.setdefault(entry, self.meant.get(entry, word)) != word:
                return None
        return added


class CatalogueWording:
    """Implements `Wording`. `options` are the words of each target's options. `language`
    is that of its programs, by default Python. `shared` names the entry of each word that shares one.
    `mechanism_first`: catalogue and ideas of a prompt name a target's mechanism before its site. Ideas are read in
    both orders."""

    compares = True

    def __init__(
        self,
        options: Mapping[str, tuple[str, ...]],
        fitness: Fitness,
        language: Language | None = None,
        shared: Mapping[str, str] | None = None,
        *,
        mechanism_first: bool = False,
    ) -> None:
        self._options = options
        self._language = language
        self._fitness = fitness
        self.shared = shared or {}
        self._mechanism_first = mechanism_first

    def propose(self, context: SearchContext, detail: Detail, draw: Callable[[], random.Random]) -> Question:
        present = present_values(self._options, context.parent.program, self._language)
        latest = [edit for edit in map(partial(self._edit, context), reversed(_latest(context, detail))) if edit]
        words, edits, offers = self._beside(latest, present, draw())
        while latest and not offers:
            latest.pop()
            words, edits, offers = self._beside(latest, present, draw())
        text = propose_text(
            [
                Offer(
                    self._ordered(words.spoken(offer.name)),
                    offer.present and words.spoken(offer.present),
                    tuple(map(words.spoken, offer.options)),
                )
                for offer in offers
            ],
            [
                replace(spoken_edit, name=self._ordered(spoken_edit.name))
                for spoken_edit in (_worded(edit, words) for edit in reversed(edits))
            ],
        )
        return Question(text, (), words.meant)

    def _beside(
        self, latest: Sequence[Edit], present: Mapping[str, str | None], draw: random.Random
    ) -> tuple[PromptVocabulary, list[Edit], list[Offer]]:
        """The words of a prompt that shows these ideas, the ideas that fit in it, and what it can offer beside them."""
        words = PromptVocabulary(self.shared)
        edits = [edit for edit in latest if words.add(edit.name, edit.option)]
        return words, edits, menu(self._options, present, draw, words)

    def only(self, context: SearchContext, detail: Detail, draw: Callable[[], random.Random]) -> Question:
        """The question for three ideas, whose answer is cut off after the first one: the advisor was trained on it."""
        return replace(self.propose(context, detail, draw), cut_after=FIRST_IDEA)

    def read_only(self, context: SearchContext, text: str) -> tuple[str, str]:
        """The experiment carries out the idea on the parent as it is."""
        idea = parse_first(text)
        edit = self._edit_of(idea)
        if edit is None:
            raise CandidateFault("unparsed", f"the catalogue has no such edit: {idea[:80]!r}")
        present = present_values(self._options, context.parent.program, self._language)
        return idea, edit_text(edit.name, edit.option, present.get(edit.name) or UNKNOWN)

    def assess(self, context: SearchContext, proposals: Sequence[str], detail: Detail) -> Question:
        ideas = _latest(context, detail)
        following = max((idea.number for idea in context.ideas), default=0) + 1
        known = recognised(context.ideas, proposals, [None] * len(proposals), following)
        numbers = {idea.number: place for place, idea in enumerate(ideas, start=1)}
        return Question(assess_text([None if k is None else numbers.get(k) for k in known]), ideas)

    def select(self, context: SearchContext, detail: Detail) -> Question:
        """Lists the ideas that change the parent, the latest NUMBERS of them."""
        present = present_values(self._options, context.parent.program, self._language)
        words = PromptVocabulary(self.shared)
        listed: list[tuple[Idea, Edit, str | None]] = []
        for idea in reversed(context.ideas[detail.ideas_left_out :]):
            edit = self._edit(context, idea)
            if edit is None or edit.name not in present or present[edit.name] == edit.option or len(listed) == NUMBERS:
                continue
            if words.add(edit.name, edit.option, present[edit.name]):
                listed.insert(0, (idea, edit, present[edit.name]))
        text = select_text([(_worded(edit, words), value and words.spoken(value)) for _, edit, value in listed])
        return Question(text, tuple(idea for idea, _, _ in listed), words.meant)

    def shorter(
        self, context: SearchContext, proposals: Sequence[str], detail: Detail, excess: int | None = None
    ) -> Detail | None:
        """Leaves out the ideas used least recently, down to one."""
        if detail.ideas_left_out + 1 < len(context.ideas):
            return replace(detail, ideas_left_out=detail.ideas_left_out + 1)
        return None

    def _edit(self, context: SearchContext, idea: Idea) -> Edit | None:
        edit = self._edit_of(idea.description)
        return edit and replace(edit, status=self._status(idea, context))

    def _ordered(self, target: str) -> str:
        """The target as a prompt names it."""
        return _turned(target) if self._mechanism_first else target

    def _edit_of(self, idea: str) -> Edit | None:
        """The edit that an idea names, with the target's name in the order of the catalogue."""
        match = _IDEA.fullmatch(idea)
        if match is None:
            return None
        orders = (match[1], _turned(match[1]))
        names = reversed(orders) if self._mechanism_first else orders
        return next((Edit(name, match[2]) for name in names if match[2] in self._options.get(name, ())), None)

    def _status(self, idea: Idea, context: SearchContext) -> Status:
        """The result of the latest experiment, with the parent's score."""
        if not idea.trials:
            return "untried"
        score = idea.trials[-1].score
        if score is None:
            return "failed"
        return "better" if self._fitness.better(score, context.parent.score) else "worse"


def _turned(target: str) -> str:
    """Mechanism and site in the other order."""
    return " ".join(reversed(target.split()))


def present_values(
    options: Mapping[str, tuple[str, ...]], program: str, language: Language | None = None
) -> dict[str, str | None]:
    """The present option of each target that the evolve block assigns exactly once. None: a value that is not an
    option."""
    try:
        block = editable(program)[1]
    except ValueError:
        return {}
    by_name = assignments(block, PYTHON if language is None else language.name)
    values = ((target, words, by_name.get(target.replace(" ", "_"), ())) for target, words in options.items())
    return {target: _option(words, each[0]) for target, words, each in values if len(each) == 1}


def menu(
    options: Mapping[str, tuple[str, ...]],
    present: Mapping[str, str | None],
    draw: random.Random,
    words: PromptVocabulary | None = None,
) -> list[Offer]:
    """Alternatives to the present values, as many as a prompt lists, in the order of the catalogue. Draws only for a
    large catalogue. Offers what fits beside `words`, and adds to them."""
    words = words or PromptVocabulary({})
    if is_listed_whole(options, words.shared):
        whole = [Offer(name, value, _others(options[name], value)) for name, value in present.items()]
        return [offer for offer in whole if offer.options]
    offers: dict[str, Offer] = {}
    sites: set[str] = set()
    places = {target: place for place, target in enumerate(present)}
    shuffled = draw.sample(list(present), len(present))
    for again in (False, True):
        for target in shuffled:
            site = target.rpartition(" ")[0]
            if len(offers) == MENU:
                break
            if target in offers or (site in sites and not again) or not words.fit(target, present[target]):
                continue
            offer = _offer(target, options[target], present[target], draw, words)
            if offer is not None:
                offers[target] = offer
                sites |= {site} - {""}
    return [offers[target] for target in sorted(offers, key=lambda target: places[target])]


def _offer(
    target: str, options: tuple[str, ...], present: str | None, draw: random.Random, words: PromptVocabulary
) -> Offer | None:
    """A line of a menu, with alternatives that fit. None if none of them does."""
    others = _others(options, present)
    chosen: list[str] = []
    for option in draw.sample(others, len(others)):
        if len(chosen) == MENU_ALTERNATIVES:
            break
        if words.fit(target, present, *chosen, option):
            chosen.append(option)
    if not chosen:
        return None
    words.add(target, present, *chosen)
    return Offer(target, present, tuple(option for option in others if option in chosen))


def is_listed_whole(options: Mapping[str, tuple[str, ...]], shared: Mapping[str, str]) -> bool:
    """Whether each prompt lists every alternative: the catalogue is small, and no words share an entry."""
    return (
        not shared and len(options) <= MECHANISMS and all(len(words) <= ALTERNATIVES + 1 for words in options.values())
    )


def _others(options: tuple[str, ...], present: str | None) -> tuple[str, ...]:
    return tuple(option for option in options if option != present)


def _worded(edit: Edit, words: PromptVocabulary) -> Edit:
    return replace(edit, name=words.spoken(edit.name), option=words.spoken(edit.option))


def _option(words: tuple[str, ...], value: str) -> str | None:
    """The option that a literal of the program is."""
    plain = value.strip("\"'")
    if plain in words:
        return plain
    try:
        word = str(ast.literal_eval(value))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        word = value
    return word if word in words else None


def _latest(context: SearchContext, detail: Detail) -> tuple[Idea, ...]:
    return context.ideas[detail.ideas_left_out :][-NUMBERS:]
