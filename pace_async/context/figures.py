"""Figures as text: scores with as many digits as tell them apart, gains beside them. Pure."""

from collections.abc import Iterable

LEAST, MOST = 5, 17
"""Significant digits. With 17 any two numbers differ."""


def digits_for(scores: Iterable[float]) -> int:
    """The significant digits with which different scores stay different."""
    different = set(scores)
    for digits in range(LEAST, MOST):
        if len({f"{score:.{digits}g}" for score in different}) == len(different):
            return digits
    return MOST


def score_text(score: float | None, digits: int) -> str:
    """The score with these digits."""
    return "no score" if score is None else f"{score:.{digits}g}"


def gain_text(gain: float | None) -> str:
    """A gain over the parent with its sign and three digits, empty if it is not known."""
    if gain is None:
        return ""
    return "same as its parent" if gain == 0 else f"{gain:+.3g}"


def tokens_in(text: str) -> int:
    """About how many tokens a text has. An estimate: tokenizers differ by a fifth."""
    return round(len(text) / CHARACTERS_PER_TOKEN)


CHARACTERS_PER_TOKEN = 3.5
"""Of code and prose together. Most tokenizers have a little more."""


def seconds_text(seconds: float) -> str:
    """How long an evaluation took. Empty if nothing was evaluated."""
    if not seconds:
        return ""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
