"""Builds HTML and SVG text from values. Only here does a candidate's text become markup.

Invariant: `text` and `tag` escape every value, so that no value can open an element, end an attribute or run. Only
results of these functions (`Markup`) are inserted unescaped.
"""

import html
import re
from collections.abc import Iterable
from functools import lru_cache

from pace_async.report.visible import visible


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


EMPTY = Markup()
_VOID = frozenset(("input",))
"""Elements that have no content and no end."""
_PLAIN = re.compile(r"[^\x00-\x1f&<>\"'\x7f-\U0010ffff]*\Z")
"""Text that needs no escaping. Checked first because a long run's report has a million such pieces."""

Content = str | float | int | None


def text(value: Content) -> Markup:
    """A value as text of a page. Characters that could reorder it are shown as escapes."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return EMPTY
    string = str(value)
    return Markup(string if _PLAIN.match(string) else html.escape(visible(string, keep="\n\t"), quote=True))


def typed_text(value: str) -> Markup:
    """What a person typed, character by character, as the content of a text field, which drops a first line end."""
    return Markup(f"\n{html.escape(value, quote=True)}")


def tag(name: str, /, *content: Content, **attributes: Content) -> Markup:
    """An element. `class_` stands for class, an underscore for a hyphen. An attribute that is None is left out, and a
    number is written in short form."""
    listed = "".join(
        [f' {_name(key)}="{text(_short(value))}"' for key, value in attributes.items() if value is not None]
    )
    return Markup(f"<{name}{listed}>" if name in _VOID else f"<{name}{listed}>{join(content)}</{name}>")


def join(parts: Iterable[Content]) -> Markup:
    """The parts, concatenated."""
    return Markup("".join([text(part) for part in parts]))


@lru_cache
def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _short(value: Content) -> Content:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
