"""A page of notes as text: the page in a model's answer, and the same page shorter. Pure.

    Worked:                    (marks of Markdown around a heading do not matter)
    lines
    Failed:
    lines
    Open:
    lines, to the end of the answer

All from the last line on that is the first heading counts. What stands before is thinking.
"""

import re

from pace_async.errors import CandidateFault
from pace_async.outside import sound

HEADINGS = ("Worked", "Failed", "Open")
LONGEST = 1500
"""Characters of a page."""
LEAST = 200
"""Characters below which a page says nothing."""
_HEADING = re.compile(r"(?:#+ *)?(?:\*\*|__)?(Worked|Failed|Open) ?(?:\*\*|__)?(?::(?:\*\*|__)? *(.*))?", re.IGNORECASE)


def page_in(answer: str) -> str:
    """The page in an answer, sound and of at most LONGEST characters. Raises CandidateFault("unparsed") if one of the
    parts is missing or all are empty."""
    texts = _parts([_clean(line) for line in answer.splitlines()])
    if len(texts) < len(HEADINGS):
        raise CandidateFault("unparsed", f"the notes have no part {HEADINGS[len(texts)]!r}")
    if not any(texts):
        raise CandidateFault("unparsed", "the notes are empty")
    return _bounded([text or "nothing" for text in texts], LONGEST)


def shorter(page: str, longest: int) -> str:
    """The page with at most `longest` characters: the longer parts lose their ends. Empty below LEAST."""
    if len(page) <= longest:
        return page
    return "" if longest < LEAST else _bounded(_parts(page.split("\n")), longest)


def _parts(lines: list[str]) -> list[str]:
    """The texts under the headings, as far as these stand there in their order."""
    matches = [_HEADING.fullmatch(line.strip()) for line in lines]
    starts = [at for at, match in enumerate(matches) if match is not None and match[1].capitalize() == HEADINGS[0]]
    parts: list[list[str]] = []
    for line, match in zip(lines[starts[-1] :], matches[starts[-1] :], strict=True) if starts else ():
        if match is not None and match[1].capitalize() in HEADINGS[len(parts) : len(parts) + 1]:
            parts.append([match[2] or ""])
        else:
            parts[-1].append(line)
    return ["\n".join(line.rstrip() for line in part if line.strip()) for part in parts]


def _clean(line: str) -> str:
    """The line with each character that cannot be printed replaced by a space."""
    return "".join(character if character.isprintable() else " " for character in sound(line))


def _bounded(texts: list[str], longest: int) -> str:
    """The page of these texts. The longer ones lose their ends, and a short one loses nothing for a long one."""
    left = cap = longest - sum(len(heading) + len(":\n\n") for heading in HEADINGS)
    for place, size in enumerate(sorted(map(len, texts))):
        cap = left // (len(texts) - place)
        if size > cap:
            break
        left -= size
    bodies = (text if len(text) <= cap else f"{text[: cap - 3].rstrip()}..." for text in texts)
    return "\n".join(f"{heading}:\n{text}" for heading, text in zip(HEADINGS, bodies, strict=True))
