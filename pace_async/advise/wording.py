"""The seam to the wording of a rollout's questions, which is a choice of the advisor.

A question says which ideas its numbers mean, because a wording may list only part of the pool. The wording for any
language model is `prompts.ProseWording`. An advisor trained on another wording brings its own. Pure: a wording draws
only from the generator that `draw` makes.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pace_async.frozen_values import fast_init
from pace_async.search.state import Idea, SearchContext

_WORD = re.compile(r"[\w.+-]*\w")


@dataclass(frozen=True, slots=True)
class Detail:
    """How much a prompt contains. An idea shows its latest `trials_shown` experiments, after a summary of all if there
    are `summary_from` or more. To save space: `results` False omits all results, `best` False omits the lines in which
    the best program differs, `ideas_left_out` omits that many ideas from the start of the pool (least recently used),
    and a text longer than `longest` characters loses its middle."""

    trials_shown: int = 2
    summary_from: int = 20
    results: bool = True
    best: bool = True
    ideas_left_out: int = 0
    longest: int | None = None


@fast_init
@dataclass(frozen=True, slots=True)
class Question:
    """A prompt. Number N of its answer means `ideas[N - 1]`. `words` are those words of the prompt and of its answer
    that stand for another word. `cut_after`: after so many tokens the answer is cut off, because only the part before
    counts."""

    text: str
    ideas: tuple[Idea, ...]
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    cut_after: int | None = None


def read_words(text: str, words: Mapping[str, str]) -> str:
    """The text with each of `words` replaced by what it stands for."""
    return _WORD.sub(lambda match: words.get(match[0], match[0]), text) if words else text


class Wording(Protocol):
    """Words the questions. `compares`: whether an idea is known is compared in code, and the verdicts of the answer are
    ignored."""

    compares: bool

    def propose(self, context: SearchContext, detail: Detail, draw: Callable[[], random.Random]) -> Question:
        """Asks for three ideas."""
        ...

    def only(self, context: SearchContext, detail: Detail, draw: Callable[[], random.Random]) -> Question:
        """Asks for one idea and its experiment, in the only call of a rollout."""
        ...

    def read_only(self, context: SearchContext, text: str) -> tuple[str, str]:
        """The idea and the experiment of the answer to `only`. Raises CandidateFault for an answer that has none."""
        ...

    def assess(self, context: SearchContext, proposals: Sequence[str], detail: Detail) -> Question:
        """Asks for each proposal whether the pool already holds it."""
        ...

    def select(self, context: SearchContext, detail: Detail) -> Question:
        """Asks for one idea and an experiment. The pool already holds the new proposals."""
        ...

    def shorter(
        self, context: SearchContext, proposals: Sequence[str], detail: Detail, excess: int | None = None
    ) -> Detail | None:
        """The next shorter detail, or None after the shortest. `excess`: the characters too many, if that is known."""
        ...
