"""Answers of a local server that acts as the same implementer for every scaffold: catalogue moves.

For every scaffold the answer changes the parent in the prompt by one edit of the task's catalogue, drawn uniformly
among those that change something. Its form follows the request in the prompt. So scaffolds differ in what they select
and show, not in the implementer. Pure except for the draw.
"""

import random
import re

from pace_async.errors import CandidateFault
from pace_async.implement.catalogue import Catalogue, apply_edit
from pace_async.programs.text import DIVIDER, REPLACE, SEARCH
from pace_async.task import BLOCK_START, split_block

_HEADING = re.compile(r"^#+ current program[ \t]*$", re.MULTILINE | re.IGNORECASE)
_FENCED = re.compile(r"^(`{3,})python\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def shown_parent(question: str) -> str:
    """The program that a prompt asks to improve: the first that follows its heading "Current program", or the first at
    all where there is no such heading. Others are shown beside it. Raises ValueError where none is shown."""
    headings = list(_HEADING.finditer(question))
    programs = _FENCED.findall(question, headings[-1].end() if headings else 0)
    for _, program in programs:
        if BLOCK_START in program:
            return program
    raise ValueError("the prompt shows no program with an evolve block")


def moves(block: str, catalogue: Catalogue) -> list[str]:
    """The blocks that one edit makes of `block`, each once and none equal to it."""
    found: dict[str, None] = {}
    for edit in catalogue.edits():
        try:
            found[apply_edit(block, edit)] = None
        except CandidateFault:
            continue  # the block does not assign it
    found.pop(block, None)
    return list(found)


def move_answer(question: str, catalogue: Catalogue, draw: random.Random) -> str:
    """The answer to a prompt. Raises ValueError if it shows no program, or one that no edit changes."""
    before, block, after = split_block(shown_parent(question))
    possible = moves(block, catalogue)
    if not possible:
        raise ValueError("no edit of the catalogue changes the program that is shown")
    new = draw.choice(possible)
    edits = "\n".join(
        f"{SEARCH}\n{old}\n{DIVIDER}\n{line}\n{REPLACE}"
        for old, line in zip(block.split("\n"), new.split("\n"), strict=True)
        if old != line
    )
    if "<DIFF>" in question:
        return f"{_NAMED}<DIFF>\n{edits}\n</DIFF>"
    if "<CODE>" in question:
        return f"{_NAMED}<CODE>\n```python\n{before}{new}{after}\n```\n</CODE>"
    if SEARCH in question:
        return edits
    return f"```python\n{before}{new}{after}\n```"


_NAMED = "<NAME>\ncatalogue_move\n</NAME>\n<DESCRIPTION>\nOne assignment is changed.\n</DESCRIPTION>\n"
