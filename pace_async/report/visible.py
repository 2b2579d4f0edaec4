"""Shows a candidate's text character by character: characters that control a terminal or reverse a line become escapes.

Invariant: the result holds printable characters and, if asked, tabs and line ends. Nothing is dropped, so different
texts stay different. Not `observe.formatting.clean`, which makes one short line and may drop characters.
"""

import re
import unicodedata
from functools import lru_cache

_PLAIN = re.compile(r"[\x20-\x7e]*\Z")


def visible(text: str, keep: str = "") -> str:
    """`text` with every control, format (bidi), combining, surrogate, private or unassigned character, and every line
    separator, written as an escape such as \\x1b or \\u202e. Characters in `keep` stay as they are."""
    if _PLAIN.match(text):
        return text
    return "".join([_visible_form(character, keep) for character in text])


@lru_cache(maxsize=4096)
def _visible_form(character: str, keep: str) -> str:
    return character if character in keep or _harmless(character) else _escape(character)


def _harmless(character: str) -> bool:
    return character == " " or (character.isprintable() and not unicodedata.category(character).startswith("M"))


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
