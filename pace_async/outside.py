"""What enters from outside: one form for every text, one bound for every number. Pure.

A text of a model, an agent, an evaluator or a file may hold what neither a database nor UTF-8 can: a NUL, or half of a
surrogate pair, as a server's JSON can spell it. A number may be finite and still be none that a table takes. Both are
made sound, or refused, where they come in, so that no commit, prompt or file fails of them later.
"""

import re

REPLACEMENT = "\ufffd"
BYTE_ORDER_MARK = "\ufeff"
LARGEST = 1e308
"""Every number from outside lies strictly between this and its negative, as the tables demand."""
MOST_COUNTED = (1 << 31) - 1
"""The largest whole number that every database takes."""
_UNSOUND = re.compile("[\x00\ud800-\udfff]")


def sound(text: str) -> str:
    """The text with each NUL and each surrogate code point replaced by U+FFFD."""
    if text.isascii() and "\0" not in text:  # fast path for nearly every text
        return text
    return _UNSOUND.sub(REPLACEMENT, text) if _UNSOUND.search(text) else text


def readable(text: str) -> str:
    """The text, sound, with each character that is not printable replaced by a space, except for tabs and line ends: no
    control sequence and no change of the writing direction is left."""
    return "".join(one if one.isprintable() or one in "\n\t" else " " for one in sound(text))


def sound_file(text: str) -> str:
    """The content of a text file, sound and without the byte order mark that some editors write at its beginning."""
    return sound(text.removeprefix(BYTE_ORDER_MARK))


def is_bounded(number: float) -> bool:
    """Whether the tables take a number. False for one that is not finite."""
    return -LARGEST < number < LARGEST


def counted(number: int) -> int:
    """A count as the tables take it: at least 0, at most MOST_COUNTED."""
    return min(max(number, 0), MOST_COUNTED)
