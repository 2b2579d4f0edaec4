"""What enters from outside: one form for every text, one bound for every number. Pure.

A text of a model, an agent, an evaluator or a file may hold what neither a database nor UTF-8 can: a NUL, or half of a
surrogate pair, as a server's JSON can spell it. A number may be finite and still be none that a table takes. Both are
made sound, or refused, where they come in, so that no commit, prompt or file fails of them later.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import cast
from unicodedata import category

REPLACEMENT = "\ufffd"
BYTE_ORDER_MARK = "\ufeff"
LARGEST = 1e308
"""Every number from outside lies strictly between this and its negative, as the tables demand."""
MOST_COUNTED = (1 << 31) - 1
"""The largest whole number that every database takes."""
LARGEST_SEED = (1 << 63) - 1
"""The largest seed that every database takes."""
LONGEST_NAME = 100
"""Characters of a name: of a task, a stage, a metric."""
MOST_METRICS = 256
_UNSOUND = re.compile("[\x00\ud800-\udfff]")


def sound(text: str) -> str:
    """The text with each NUL and each surrogate code point replaced by U+FFFD."""
    return text if is_sound(text) else _UNSOUND.sub(REPLACEMENT, text)


def is_sound(text: str) -> bool:
    """Whether the text has no NUL and no surrogate code point. To encode it is the fastest way to find one."""
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def readable(text: str) -> str:
    """The text, sound, with each character that is not printable replaced by a space, except for tabs and line ends: no
    control sequence and no change of the writing direction is left."""
    return "".join(character if character.isprintable() or character in "\n\t" else " " for character in sound(text))


def sound_file(text: str) -> str:
    """The content of a text file, sound and without the byte order mark that some editors write at its beginning."""
    return sound(text.removeprefix(BYTE_ORDER_MARK))


def is_bounded(number: float) -> bool:
    """Whether the tables take a number. False for one that is not finite."""
    return -LARGEST < number < LARGEST


def bounded_count(number: int) -> int:
    """A count as the tables take it: at least 0, at most MOST_COUNTED."""
    return min(max(number, 0), MOST_COUNTED)


def printable(text: str) -> str:
    """The text with every character that could steer a terminal, or that UTF-8 cannot write, replaced by U+FFFD. Ends
    of lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" or category(character) == "Zs" else REPLACEMENT
        for character in text
    )


def indented(text: str, by: int = 4) -> str:
    """Lines of foreign text with their spacing, after `by` spaces, without control characters."""
    return "\n".join(f"{'':{by}}{printable(line.expandtabs(4)).rstrip()}" for line in text.splitlines())


def why_refused(value: object, most: int = MOST_COUNTED) -> str:
    """Why no table, file name or limit of the system takes a setting's value, empty if they do. `most` is the largest
    whole number. The numbers within a mapping are the task's or the provider's own."""
    match value:
        case bool() | None:
            return ""
        case int() if abs(value) > most:
            return f"must be between -{most} and {most}"
        case float() if not is_bounded(value):
            return f"must lie between -{LARGEST:g} and {LARGEST:g}"
        case str() if value != sound(value):
            return "holds a NUL, or half of a character"
        case PurePath():
            parts = [str(value)]
        case Mapping():
            entries = cast("Mapping[object, object]", value)
            parts = [element for pair in entries.items() for element in pair if not isinstance(element, int | float)]
        case Sequence() if not isinstance(value, str | bytes):
            parts = list(cast("Sequence[object]", value))
        case _:
            return ""
    return next((reason for part in parts if (reason := why_refused(part, most))), "")
