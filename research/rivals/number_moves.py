"""Answers of a local server for a task without a catalogue: one number of the program is changed. Not a model.

idea     what an advisor's idea says
answer   what an implementer makes of it

The idea names the number by its place in the evolve block and the factor. So a program follows from its experiment, as
with a catalogue. Pure.
"""

import re

from pace_async.programs.text import editable, is_marked

FACTORS = (0.5, 0.8, 0.9, 0.97, 1.03, 1.1, 1.25, 2.0)
PLACES = 40
"""Ideas name the first places only, counted round where a block has fewer numbers."""

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_COMMENT = re.compile(r"(?://|#).*$", re.MULTILINE)
_IDEA = re.compile(r"Multiply number (\d+) of the block by (\d+(?:\.\d+)?)")
_FENCED = re.compile(r"^(`{3,})([\w+-]+)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def idea(number: int) -> str:
    """Idea `number`, any integer from 0. Neighbours differ in place and factor."""
    return f"Multiply number {number * 7 % PLACES + 1} of the block by {FACTORS[number // 3 % len(FACTORS)]}."


def answer(question: str) -> str:
    """The whole new block for the last experiment in the question, or a sentence where there is nothing to change."""
    told = _IDEA.findall(question.rpartition("\nExperiment: ")[2])
    shown = [(fence, text) for _, fence, text in _FENCED.findall(question) if is_marked(text)]
    if not told or not shown:
        return "I see no number to change."
    fence, program = shown[0]
    _, block, _ = editable(program)
    place, factor = told[0]
    changed = scaled(block, int(place), float(factor))
    return f"```{fence}\n{changed}```\n" if changed != block else "There is no number in the block."


def scaled(block: str, place: int, factor: float) -> str:
    """The block with number `place` (from 1, counted round) multiplied. Numbers in comments do not count. A whole
    number stays whole and changes by at least 1."""
    comments = [range(*one.span()) for one in _COMMENT.finditer(block)]
    numbers = [one for one in _NUMBER.finditer(block) if not any(one.start() in comment for comment in comments)]
    if not numbers:
        return block
    chosen = numbers[(place - 1) % len(numbers)]
    return block[: chosen.start()] + _times(chosen[0], factor) + block[chosen.end() :]


def _times(number: str, factor: float) -> str:
    if not number.isdecimal():
        return f"{float(number) * factor:.12g}"
    whole = int(number)
    new = round(whole * factor)
    return str(new if new != whole else whole + 1 if factor > 1 or not whole else whole - 1)
