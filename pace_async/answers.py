"""Reads the advisor's answers: the lines that were asked for, or CandidateFault("unparsed").

No rule and no other model repairs an answer, because the advisor is rewarded for its own text. What a chat model adds
is tolerated only where the meaning stays certain:

- Capital letters of a heading, field name or verdict do not matter, nor do Markdown marks before it (`#`, `-`, `*`,
  `>`) or around it (`**`, `__`). A heading may end in a colon. `Idea N: a title` is a heading if a hypothesis follows.
- Blank lines, rules, and the first and last line of a code block do not count.
- A field whose own line is empty has its text on the next line.
- Other lines may stand before the first line that was asked for and after the last. Between verdicts, which are whole
  in one line, they may stand too. Between the lines of an idea or of a choice they may not: they could belong to it.
- Ideas 4 to MOST_IDEAS and verdicts on proposals that do not exist are left out. An answer with more ideas is
  unparsed.

A line that was asked for and stands twice, in another order or in another form makes the answer unparsed. Ideas are not
interpreted here: the implementer does that. What a thinking model writes before its last end-of-thinking mark is not
parsed. Pure.
"""

import re
from collections.abc import Sequence
from itertools import product

from pace_async.errors import CandidateFault

IDEAS_PER_PROPOSAL = 3
"""How many ideas a proposal is asked for."""
MAX_SENTENCE = 2000
"""Longest hypothesis, reasoning or experiment description, in characters."""
MOST_IDEAS = 2 * IDEAS_PER_PROPOSAL

_BEFORE = r"(?:[#>*+-]+ +)?(?P<mark>\*\*|__|\*|_|)"
_FLAGS = re.ASCII | re.IGNORECASE


def _field_pattern(name: str) -> re.Pattern[str]:
    """`name: value`, with marks around the name or around the name and the colon."""
    return re.compile(rf"{_BEFORE}{name}(?:(?P=mark) ?:|:(?P=mark))(?:\s+(?P<value>.*))?", _FLAGS)


_HEADING = re.compile(rf"{_BEFORE}Idea (?P<number>[1-9][0-9]{{0,8}}):?(?P=mark):?", _FLAGS)
_TITLED = re.compile(rf"{_BEFORE}Idea (?P<number>[1-9][0-9]{{0,8}}):.*", _FLAGS)
_HYPOTHESIS, _REASONING = _field_pattern("Hypothesis"), _field_pattern("Reasoning")
_VERDICT = re.compile(
    r"(?:[#>*+-]+ +)?Proposal (?P<number>[1-9][0-9]{0,8}): "
    r"(?:new|known (?:idea )?(?P<known>[1-9][0-9]{0,8}))\.?",
    _FLAGS,
)
"""Without its marks of emphasis: a verdict has no text in which they could mean something else."""
_LIKE_VERDICT = re.compile(r"(?:[#>*+-]+ +)?Proposal [0-9]", _FLAGS)
_CHOICE, _EXPERIMENT = _field_pattern("Idea ID"), _field_pattern("Experiment description")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_CHOSEN = re.compile(r"(?:idea )?#?(?P<number>[1-9][0-9]{0,8})\.?", _FLAGS)
_EXACT_IDEAS = re.compile(
    "\n".join(rf"Idea {n}\nHypothesis: (\S.*)\nReasoning: (\S.*)" for n in range(1, IDEAS_PER_PROPOSAL + 1)) + r"\n*"
)
_EXACT_CHOICE = re.compile(r"Idea ID: ([1-9][0-9]{0,8})\nExperiment description: (\S.*)\n*")
"""Answers in just the form that was asked for. Most are, and one pattern is faster than a look at each line."""


def after_thinking(text: str, mark: str) -> str:
    """What stands after the last end-of-thinking mark, the whole text without one."""
    return text.rpartition(mark)[2]


def parse_propose(text: str) -> tuple[tuple[str, str], ...]:
    """((hypothesis, reasoning), ...): one pair for each of the three requested ideas."""
    exact = _EXACT_IDEAS.fullmatch(text)
    if exact is not None and all(map(_is_sentence, values := [value.strip() for value in exact.groups()])):
        return tuple(zip(values[::2], values[1::2], strict=True))
    return proposed_by_lines(text)


def proposed_by_lines(text: str) -> tuple[tuple[str, str], ...]:
    """`parse_propose` for an answer in any form."""
    lines = _lines(text)
    headings = [(at, number) for at in range(len(lines)) if (number := _idea_at(lines, at)) is not None]
    starts = [at for at, _ in headings]
    if not starts:
        raise _unparsed(f"expected 'Idea 1', got {_short(lines[0]) if lines else 'nothing'}")
    if len(starts) > MOST_IDEAS:
        raise _unparsed(f"expected {IDEAS_PER_PROPOSAL} ideas, got {len(starts)}")
    _refuse_like(lines[: starts[0]], (_HYPOTHESIS, _REASONING))
    pairs: list[tuple[str, str]] = []
    for place, (start, number) in enumerate(headings):
        if number != place + 1:
            raise _unparsed(f"expected 'Idea {place + 1}', got {_short(lines[start])}")
        last = place == IDEAS_PER_PROPOSAL - 1
        end = starts[place + 1] if place + 1 < len(starts) else len(lines)
        if place < IDEAS_PER_PROPOSAL:
            pairs.append(_pair(lines[start + 1 : end], may_go_on=last))
    if len(pairs) != IDEAS_PER_PROPOSAL:
        raise _unparsed(f"expected {IDEAS_PER_PROPOSAL} ideas, got {len(pairs)}")
    return tuple(pairs)


def parse_only(text: str) -> tuple[str, str]:
    """The hypothesis and the experiment's description of an answer with one idea."""
    lines = _lines(text)
    start = next((at for at, line in enumerate(lines) if _HYPOTHESIS.fullmatch(line)), None)
    if start is None:
        raise _unparsed(f"expected 'Hypothesis: ...', got {_short(lines[0]) if lines else 'nothing'}")
    _refuse_like(lines[:start], (_EXPERIMENT,))
    hypothesis, rest = _field(lines[start:], _HYPOTHESIS, "Hypothesis")
    experiment, rest = _field(rest, _EXPERIMENT, "Experiment description")
    _refuse_like(rest, (_HYPOTHESIS, _EXPERIMENT))
    return hypothesis, experiment


def parse_first(text: str) -> str:
    """The hypothesis of the first of several ideas. The answer may be cut off after it."""
    lines = _lines(text)
    if not lines or _idea_at(lines, 0) != 1:
        raise _unparsed(f"expected 'Idea 1', got {_short(lines[0]) if lines else 'nothing'}")
    return _field(lines[1:], _HYPOTHESIS, "Hypothesis")[0]


def parse_assess(text: str, n: int, pool_size: int) -> tuple[int | None, ...]:
    """For each of n proposals: None if the answer calls it new, else the place (1 to `pool_size`) of the idea that it
    repeats."""
    verdicts: list[int | None] = []
    for line in (line.replace("**", "").replace("__", "") for line in _lines(text)):
        match = _VERDICT.fullmatch(line)
        if match is None:
            if _LIKE_VERDICT.match(line):
                raise _unparsed(f"expected a verdict on proposal {len(verdicts) + 1}, got {_short(line)}")
            continue
        if int(match["number"]) != len(verdicts) + 1:
            raise _unparsed(f"expected a verdict on proposal {len(verdicts) + 1}, got {_short(line)}")
        verdicts.append(int(match["known"]) if match["known"] else None)
    if len(verdicts) < n:
        raise _unparsed(f"expected {n} verdicts, got {len(verdicts)}")
    for known in verdicts[:n]:
        if known is not None and known > pool_size:
            raise _unparsed(f"there is no idea {known} in the pool")
    return tuple(verdicts[:n])


def parse_select(text: str, pool_size: int) -> tuple[int, str]:
    """The place of the chosen idea, from 1 to `pool_size`, and the description of the experiment."""
    exact = _EXACT_CHOICE.fullmatch(text)
    if exact is not None and int(exact[1]) <= pool_size and _is_sentence(value := exact[2].strip()):
        return int(exact[1]), value
    return selected_by_lines(text, pool_size)


def selected_by_lines(text: str, pool_size: int) -> tuple[int, str]:
    """`parse_select` for an answer in any form."""
    lines = _lines(text)
    start = next((at for at, line in enumerate(lines) if _CHOICE.fullmatch(line)), None)
    if start is None:
        raise _unparsed(f"expected an idea's number, got {_short(lines[0]) if lines else 'nothing'}")
    _refuse_like(lines[:start], (_EXPERIMENT,))
    number, rest = _field(lines[start:], _CHOICE, "Idea ID")
    chosen = _CHOSEN.fullmatch(number)
    if chosen is None:
        raise _unparsed(f"expected an idea's number, got {_short(number)}")
    if int(chosen["number"]) > pool_size:
        raise _unparsed(f"there is no idea {int(chosen['number'])} in the pool")
    experiment, rest = _field(rest, _EXPERIMENT, "Experiment description")
    _refuse_like(rest, (_CHOICE, _EXPERIMENT))
    return int(chosen["number"]), experiment


def _pair(lines: Sequence[str], may_go_on: bool) -> tuple[str, str]:
    """Hypothesis and reasoning of one idea, from the lines after its heading. `may_go_on`: other lines may follow."""
    hypothesis, rest = _field(lines, _HYPOTHESIS, "Hypothesis")
    reasoning, rest = _field(rest, _REASONING, "Reasoning")
    if rest and not may_go_on:
        raise _unparsed(f"expected the next idea, got {_short(rest[0])}")
    _refuse_like(rest, (_HYPOTHESIS, _REASONING))
    return hypothesis, reasoning


def _field(lines: Sequence[str], name: re.Pattern[str], label: str) -> tuple[str, Sequence[str]]:
    """The text of the field that the first line begins, and the lines after it."""
    match = name.fullmatch(lines[0]) if lines else None
    if match is None:
        raise _unparsed(f"expected '{label}: ...', got {_short(lines[0]) if lines else 'nothing'}")
    value, rest = (match["value"] or "").strip(), lines[1:]
    if not value and rest and not _asked_for(rest):
        value, rest = rest[0], rest[1:]
    if not value:
        raise _unparsed(f"expected '{label}: ...', got {_short(lines[0])}")
    if len(value) > MAX_SENTENCE:
        raise _unparsed(f"{label} is longer than {MAX_SENTENCE} characters")
    if not value.isprintable():
        raise _unparsed(f"{label} holds characters that cannot be printed")
    return value, rest


def _is_sentence(value: str) -> bool:
    """Whether `_field` takes a stripped value."""
    return 0 < len(value) <= MAX_SENTENCE and value.isprintable()


def _idea_at(lines: Sequence[str], at: int) -> int | None:
    """The number of the idea whose heading this line is."""
    line = lines[at]
    if "idea" not in line.lower():  # most lines, and faster than two patterns without regard to case
        return None
    match = _HEADING.fullmatch(line)
    if match is None and at + 1 < len(lines) and (titled := _TITLED.fullmatch(line)):
        match = titled if _HYPOTHESIS.fullmatch(lines[at + 1]) else None
    return int(match["number"]) if match else None


def _asked_for(lines: Sequence[str]) -> bool:
    """Whether the first of these lines begins a field or an idea."""
    fields = (_HYPOTHESIS, _REASONING, _CHOICE, _EXPERIMENT)
    return _idea_at(lines, 0) is not None or any(name.fullmatch(lines[0]) for name in fields)


def _refuse_like(lines: Sequence[str], names: Sequence[re.Pattern[str]]) -> None:
    """Raises CandidateFault if one of these fields stands where it was not asked for."""
    for line, name in product(lines, names):
        if name.fullmatch(line):
            raise _unparsed(f"{_short(line)} stands where it was not asked for")


def _lines(text: str) -> list[str]:
    """Lines that hold a letter or a digit, stripped, without those that begin or end a code block. Only a line feed
    ends a line."""
    return [line for raw in text.split("\n") if _says_something(line := raw.strip())]


def _says_something(line: str) -> bool:
    if line[:1].isalnum():  # most lines
        return True
    return not line.startswith("```") and _LETTER_OR_DIGIT.search(line) is not None


def _short(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:37] + "...")


def _unparsed(reason: str) -> CandidateFault:
    return CandidateFault("unparsed", reason)
