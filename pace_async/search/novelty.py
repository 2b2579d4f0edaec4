"""Whether a proposed idea is new, decided by its text. Pure.

Equal words (see `ideas.words`) are the same idea, and so are nearly equal texts with the same numbers in them: "step
0.3" and "step 0.5" are near as texts and different ideas. A text that is near, and no more, is for a model to decide.

Ideas that are alike are not the same for the search, only listed as one: most of their words begin alike, and no
number, name or quoted word of each is missing in the other.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from rapidfuzz import fuzz, process

from pace_async.search.ideas import words
from pace_async.search.results import KnownIdea, Results, bare

SAME, NEAR = 97.0, 82.0
"""Likeness in percent, of words in any order."""
LOOKED_AT = 200
"""The latest ideas are compared, and of older ones only equal words are found."""
ALIKE = 0.6
"""Share of words in common (Dice's coefficient) from which on ideas are alike."""
FEWEST_ALIKE = 4
"""Words and names in common of ideas that are alike: of shorter ones a single word makes the difference."""
CLOSE = 0.38
"""The same share from which on an untried idea is close to what was tried. Of eight such ideas in a run by hand seven
were, to a reader, what had been tried."""
SHORTEST, BEGINNING = 4, 5
"""Letters of a word that counts, and of those that are compared."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TOKEN = re.compile(r"\w+(?:\.\d+)?")
_QUOTED = re.compile(r"[\"`]([^\"`]+)[\"`]")


def repeated(view: Results, text: str) -> int | None:
    """The number of the idea that this text certainly repeats."""
    known = view.by_words.get(words(bare(text)))
    if known is not None:
        return known
    near = _nearest(view, text, SAME)
    return near[0] if near is not None and _numbers(near[1]) == _numbers(text) else None


def nearest(view: Results, text: str) -> tuple[int, str] | None:
    """(number, text) of the known idea that is nearest, if one is near."""
    return _nearest(view, text, NEAR)


def _nearest(view: Results, text: str, least: float) -> tuple[int, str] | None:
    texts: Mapping[int, str] = {
        number: bare(view.ideas[number].text).casefold() for number in view.ordered[-LOOKED_AT:]
    }
    match = process.extractOne(bare(text).casefold(), texts, scorer=fuzz.token_sort_ratio, score_cutoff=least)
    return None if match is None else (match[2], view.ideas[match[2]].text)


def _numbers(text: str) -> list[str]:
    return sorted(_NUMBER.findall(text))


def alike(text: str, other: str) -> bool:
    """Whether two texts say nearly the same."""
    (a, names), (b, others) = _words_and_names(text), _words_and_names(other)
    common = len(a & b)
    if common + len(names & others) < FEWEST_ALIKE or 2 * common < ALIKE * (len(a) + len(b)):
        return False
    return names <= others or others <= names


def closest(idea: str, trials: Iterable[tuple[int, str]]) -> int | None:
    """The candidate that tried something close to the idea, the closest if there are several."""
    best = max(((_closeness(idea, text), -candidate) for candidate, text in trials), default=(0.0, 0))
    return -best[1] if best[0] >= CLOSE else None


@lru_cache(maxsize=16384)
def _closeness(idea: str, text: str) -> float:
    """The share of words in common, 0 if what was tried lacks a number or a name of the idea."""
    (a, names), (b, others) = _words_and_names(idea), _words_and_names(text)
    return 2 * len(a & b) / (len(a) + len(b)) if a and names <= others and len(a & b) >= FEWEST_ALIKE else 0.0


def distinct(ideas: Sequence[KnownIdea]) -> dict[KnownIdea, tuple[KnownIdea, ...]]:
    """The ideas to list, each with those that are like it. The oldest is listed, at the place of the first of them."""
    groups = list[list[KnownIdea]]()
    for idea in sorted(ideas, key=lambda idea: idea.number):
        group = next((group for group in groups if alike(group[0].text, idea.text)), None)
        if group is None:
            groups.append(group := [])
        group.append(idea)
    groups.sort(key=lambda group: min(map(ideas.index, group)))
    return {group[0]: tuple(group[1:]) for group in groups}


@lru_cache(maxsize=4096)
def _words_and_names(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The beginnings of its longer words, and its numbers, names and quoted words."""
    text = bare(text).casefold()
    tokens = _TOKEN.findall(text)
    names = [token for token in tokens if not token.isalpha()]
    words = (token[:BEGINNING] for token in tokens if token.isalpha() and len(token) >= SHORTEST)
    return frozenset(words), frozenset([*names, *_QUOTED.findall(text)])
