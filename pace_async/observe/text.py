"""Text that came from a model, a program or a library, made safe to show.

Invariant: what `clean` returns is one line of visible characters without marks that combine, so it can neither move
the cursor, colour, reverse or overprint anything, nor upset an alignment. It is data: put it into rich's `Text`, which
reads no markup. Not for storage: the population keeps the text as it was.
"""

import re
import unicodedata

from rich.cells import cell_len, set_cell_size

_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]?"  # the rest
)
_LONGEST = 4000


def clean(text: str, limit: int | None = None) -> str:
    """One printable line: escape sequences, control, format (bidi), surrogate, private-use, unassigned and combining
    characters are gone, runs of white space are one space. Cut to `limit` terminal cells where given."""
    visible = unicodedata.normalize("NFC", _ANSI.sub("", text[:_LONGEST]))
    kept = "".join(" " if character.isspace() else character for character in visible if _shows(character))
    line = " ".join(kept.split())
    return line if limit is None else cut(line, limit)


def cut(line: str, cells: int) -> str:
    """`line` in at most `cells` terminal cells, with … where something was cut off."""
    if cell_len(line) <= cells:
        return line
    return set_cell_size(line, cells - 1).rstrip() + "…" if cells > 0 else ""


def _shows(character: str) -> bool:
    return character.isspace() or unicodedata.category(character)[0] not in "CM"
