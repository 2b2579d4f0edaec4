"""Reads the answer of a rollout that is one call: ideas, a choice, its reason, a specification.

    Idea A (explore): what to change and why, one line or several      (B and C may follow)
    Choice: A                                                          (or the number of a known idea)
    Base: 17                                                           (optional, here or below: the program to change)
    Covers: 7, 12, B                                                   (optional, here or below: they need no try)
    Reasoning: why this first
    Specification:
    lines, to the end of the answer

One rule says what counts: all from the last line on that begins Idea A. What stands before is thinking, drafts of an
answer too. From there on the form is strict: fields stand in this order, each once. Marks of Markdown before and
around a field's name do not matter. A line `Base:` above the choice, or one in a specification that names no program,
is prose. Nothing is repaired. Raises CandidateFault("unparsed"). Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pace_async.answers import MAX_SENTENCE
from pace_async.errors import CandidateFault

KINDS = ("refine", "combine", "explore")
LETTERS = "ABC"
MOST_LINES = 30
"""Lines of a specification that say something. Three to ten are asked for."""
LONGEST_SPECIFICATION = 6000
"""Characters."""

_BEFORE = re.compile(r"(?:[#>*+-]+\s+)*(\*\*|__)?")
_COLON = r"(?:\*\*|__)? ?:(?:\*\*|__)? *(.*)"
_IDEA = re.compile(rf"Idea ([{LETTERS}]) ?\((\w+)\){_COLON}", re.IGNORECASE)
_LIKE_IDEA = re.compile(r"Idea [A-Z]\b", re.IGNORECASE)
_FIELD = re.compile(rf"(Choice|Base|Covers|Reasoning|Specification){_COLON}", re.IGNORECASE)
OPTIONAL = frozenset({"Base", "Covers"})
"""Fields that may stand anywhere below the choice, and in the specification."""
_CHOICE = re.compile(rf"(?:idea )?#?(?:([{LETTERS}])|([1-9][0-9]{{0,8}}))\.?", re.IGNORECASE)
_NOTHING = re.compile(r"(?:none|n/a)?[\s.–-]*", re.IGNORECASE)
_PROGRAM = r"(?:candidate |program )?#?([0-9]{1,9})(?![-.]?\w)"
_BASE = re.compile(_PROGRAM, re.IGNORECASE)
_BASE_ALONE = re.compile(rf"(?:none|(?:the )?parent|{_PROGRAM})\.?(?: \(.*\))?", re.IGNORECASE)
_NAMED = re.compile(rf"(?<!\w)(?:([{LETTERS}])|([1-9][0-9]{{0,8}}))(?!\w)").findall


@dataclass(frozen=True, slots=True)
class OneAnswer:
    """`ideas` are (kind, text). The choice is the place of one of them, from 1, or the number of a known idea. `covers`
    are numbers that stand for known ideas if there are such, `covers_places` are places. `base` is the candidate that
    is to be changed in place of the parent, if one is named."""

    ideas: tuple[tuple[str, str], ...]
    place: int | None
    number: int | None
    reasoning: str
    specification: str
    covers: tuple[int, ...] = ()
    covers_places: tuple[int, ...] = ()
    base: int | None = None

    @property
    def texts(self) -> list[str]:
        """The ideas as they are remembered, with their kinds."""
        return [f"({kind}) {text}" for kind, text in self.ideas]


def parse_one(text: str) -> OneAnswer:
    """See the module."""
    lines = text.split("\n")
    clean = [_bare(line.strip()) for line in lines]
    starts = [at for at, line in enumerate(clean) if (match := _IDEA.fullmatch(line)) and match[1].upper() == "A"]
    if not starts:
        raise _unparsed("expected 'Idea A (refine, combine or explore): ...'")
    ideas, fields, at = list[tuple[str, str]](), dict[str, str](), starts[-1]
    current: list[str] = []
    name = ""
    while at < len(clean):
        line, idea, field = clean[at], _IDEA.fullmatch(clean[at]), _field(clean[at], name)
        if idea is not None and not fields:
            ideas.append(_idea(idea, len(ideas)))
            current = [ideas[-1][1]]
        elif field is not None:
            name = field[1].capitalize()
            _refuse_out_of_order(name, fields)
            fields[name] = " ".join([fields.get(name, ""), field[2]]).strip()
            if name == "Specification":
                rest, below = _without_optional(lines[at + 1 :])
                fields[name] = "\n".join([fields[name], *rest])
                for optional, value in below:
                    fields[optional] = " ".join([fields.get(optional, ""), value]).strip()
                break
            current = [fields[name]]
        elif idea is not None or (_LIKE_IDEA.match(line) and ":" in line[:24]):
            raise _unparsed(f"{line[:40]!r} stands where it was not asked for")
        elif line and _says_something(line):
            current.append(lines[at].strip())
            if fields:
                fields[name] = " ".join(current).strip()
            else:
                ideas[-1] = ideas[-1][0], " ".join(current).strip()
        at += 1
    if "Specification" not in fields:
        raise _unparsed("expected 'Choice:', 'Reasoning:' and 'Specification:' after the ideas")
    while len(ideas) > 1 and _NOTHING.fullmatch(ideas[-1][1]):
        ideas.pop()  # the lines of a second and a third idea that there was none for
    place, number = _choice(fields["Choice"], len(ideas))
    covers, base = _covers(fields.get("Covers", ""), len(ideas)), _BASE.match(fields.get("Base", ""))
    for idea_text in (*(each for _, each in ideas), fields["Reasoning"]):
        _refuse_unreadable(idea_text, MAX_SENTENCE)
    return OneAnswer(
        tuple(ideas),
        place,
        number,
        fields["Reasoning"],
        _specification(fields["Specification"]),
        covers=tuple(number for _, number in covers if number is not None),
        covers_places=tuple(place for place, _ in covers if place is not None),
        base=int(base[1]) if base is not None else None,
    )


def _bare(line: str) -> str:
    """The line without marks of Markdown before a field's name, and without the end of bold type that begins there.
    Marks inside a text stay, because a product or a name may be written with them."""
    before = _BEFORE.match(line)
    assert before is not None
    rest, bold = line[before.end() :].strip(), before[1]
    return rest.removesuffix(bold).rstrip() if bold and rest.count(bold) % 2 else rest


def _idea(match: re.Match[str], known: int) -> tuple[str, str]:
    letter, kind = match[1].upper(), match[2].lower()
    if known >= len(LETTERS) or letter != LETTERS[known]:
        raise _unparsed(f"expected 'Idea {LETTERS[min(known, 2)]} (...)', got 'Idea {letter}'")
    if kind not in KINDS:
        raise _unparsed(f"an idea is refine, combine or explore, not {kind[:20]!r}")
    return kind, match[3].strip()


def _field(line: str, above: str) -> re.Match[str] | None:
    """The field that begins with this line, below the field `above`. A line `Base:` of other words is prose where prose
    may stand: in an idea, a reason or a specification."""
    match = _FIELD.fullmatch(line)
    if match is None or match[1].capitalize() != "Base" or above in ("Choice", "Base", "Covers"):
        return match
    return match if above and _BASE_ALONE.fullmatch(match[2].strip()) else None


def _refuse_out_of_order(name: str, fields: dict[str, str]) -> None:
    if name in OPTIONAL and "Choice" in fields:
        return
    order = ("Choice", "Reasoning", "Specification")
    expected = order[len(fields.keys() - OPTIONAL)]
    if expected != name:
        raise _unparsed(f"expected '{expected}: ...', got '{name}: ...'")


def _without_optional(lines: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The lines of a specification, and the optional fields among them with their texts, except those of code."""
    rest, fields, in_code = list[str](), list[tuple[str, str]](), False
    for line in lines:
        in_code ^= line.strip().startswith("```")
        field = None if in_code else _field(_bare(line.strip()), "Specification")
        if field is not None and field[1].capitalize() in OPTIONAL:
            fields.append((field[1].capitalize(), field[2]))
        else:
            rest.append(line)
    return rest, fields


def _covers(text: str, ideas: int) -> list[tuple[int | None, int | None]]:
    """The places and numbers that the line names. What else it says is passed over, and so is a letter without an idea:
    a remark must not cost the whole answer."""
    mentions = [(None, int(number)) if number else (LETTERS.index(letter) + 1, None) for letter, number in _NAMED(text)]
    return [(place, number) for place, number in mentions if place is None or place <= ideas]


def _choice(text: str, ideas: int) -> tuple[int | None, int | None]:
    match = _CHOICE.fullmatch(text)
    if match is None:
        raise _unparsed(
            f"the choice is the letter of an idea, {LETTERS[0]} to {LETTERS[-1]}, or a number, not {text[:40]!r}"
        )
    if match[2] is not None:
        return None, int(match[2])
    place = LETTERS.index(match[1].upper()) + 1
    if place > ideas:
        raise _unparsed(f"the choice is {match[1].upper()}, and there is no such idea")
    return place, None


def _specification(text: str) -> str:
    specification = "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
    lines = [line for line in specification.split("\n") if _says_something(line)]
    if not lines:
        raise _unparsed("the specification is empty")
    if len(lines) > MOST_LINES:
        raise _unparsed(f"the specification has {len(lines)} lines, of {MOST_LINES} allowed")
    _refuse_unreadable(specification, LONGEST_SPECIFICATION)
    return specification


def _refuse_unreadable(text: str, longest: int) -> None:
    if not text.strip():
        raise _unparsed("a field is empty")
    if len(text) > longest:
        raise _unparsed(f"a field is longer than {longest} characters")
    if not all(character.isprintable() or character in "\n\t" for character in text):
        raise _unparsed("the answer holds characters that cannot be printed")


def _says_something(line: str) -> bool:
    return any(character.isalnum() for character in line)


def _unparsed(reason: str) -> CandidateFault:
    return CandidateFault("unparsed", reason)
