"""The seed program of an example as pace reads it: with one evolve block, or with none.

OpenEvolve and ShinkaEvolve accept marks in any comment, with words after them, and several blocks. A program of pace
has one block, whose marks stand alone in a line comment of its language, after one space. Pure.
"""

import re

from pace_async.programs.languages import language_of
from pace_async.programs.text import END_MARK, START_MARK, is_marked, marks, split_block

_LINE = re.compile(rf"^([ \t]*)[^\w\n]*({START_MARK}|{END_MARK})\b[^\n]*?(\r?)$", re.MULTILINE)


def with_one_block(text: str, language: str) -> tuple[str, str]:
    """(the program, what was changed in one sentence, or nothing)."""
    matches = list(_LINE.finditer(text))
    if not matches:
        return text, "no evolve block: the whole program may change"
    if len(matches) == 2 and _is_block(text):
        return text, ""
    comment = language_of(language).comment
    if not comment and not is_marked(text):
        return text, "its evolve marks are not line comments: the whole program may change"
    kinds = [match[2] for match in matches]
    start = next((place for place, kind in enumerate(kinds) if kind == START_MARK), None)
    ends = [place for place, kind in enumerate(kinds) if kind == END_MARK]
    if start is None or not ends or ends[-1] < start:
        return _rewritten(
            text, {}
        ), "its evolve marks form no block: they are left out, and the whole program may change"
    begin, end = marks(comment)
    change = "its evolve marks are written as pace reads them"
    if len(matches) > 2:
        change = "its several evolve blocks are one, from the first mark to the last, so what stands between may change"
    return _rewritten(text, {start: begin, ends[-1]: end}), change


def _is_block(text: str) -> bool:
    try:
        split_block(text)
    except ValueError:
        return False
    return True


def _rewritten(text: str, new_marks: dict[int, str]) -> str:
    """The text with these marks, by their number, and without the others."""
    number = -1

    def mark(match: re.Match[str]) -> str:
        nonlocal number
        number += 1
        return f"{match[1]}{new_marks[number]}{match[3]}" if number in new_marks else match[3]

    return _LINE.sub(mark, text)
