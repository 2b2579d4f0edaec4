"""Whether a proposed idea is new, decided by its text. Pure.

Equal words (see `ideas.words`) are the same idea, and so are nearly equal texts with the same numbers in them: "step
0.3" and "step 0.5" are near as texts and different ideas. A text that is near, and no more, is for a model to decide.
"""

import re
from collections.abc import Mapping

from rapidfuzz import fuzz, process

from pace_async.search.ideas import words
from pace_async.search.results import Results, bare

SAME, NEAR = 97.0, 82.0
"""Likeness in percent, of words in any order."""
LOOKED_AT = 200
"""The latest ideas are compared, and of older ones only equal words are found."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


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
    found = process.extractOne(bare(text).casefold(), texts, scorer=fuzz.token_sort_ratio, score_cutoff=least)
    return None if found is None else (found[2], view.ideas[found[2]].text)


def _numbers(text: str) -> list[str]:
    return sorted(_NUMBER.findall(text))
