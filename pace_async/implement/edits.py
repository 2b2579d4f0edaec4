"""Makes a program from a model's answer: SEARCH/REPLACE edits, or one whole evolve block. Also checks the program that
an agent left.

Invariant: the text outside the evolve block equals the parent's, byte for byte, and nothing is guessed. An answer that
is not exactly in the format is a CandidateFault. Each way to be wrong has its own kind. An answer is never repaired
here, because that would credit the advisor with an effect that it did not cause. Pure.

    no_code_block, several_code_blocks, wrong_language, unclosed_code_block     of a whole block
    empty_answer                                                                reasoning without an answer
    malformed_edit, empty_search, search_not_found, search_ambiguous,
    edit_leaves_block, edits_overlap                                            of edits
    program_too_long, mixed_answer, markers_in_block, empty_block, answer_too_long,
    hidden_lines_lost, syntax_error, no_entry, unchanged                        of either

Where its author saw folded functions (`programs.folding`), edits apply to what was seen, or else to the whole block. A
folded line that the answer keeps is unfolded. A whole block has every folded line, or a new definition of its function,
but for those of names that nothing in the new program has any more.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from pace_async.errors import CandidateFault
from pace_async.programs.block_use import defines
from pace_async.programs.compiled import LONGEST_PROGRAM, compiled, program_hash
from pace_async.programs.fileset import is_fileset, is_manifest
from pace_async.programs.folding import is_folded, lost_names, unfolded
from pace_async.programs.languages import PYTHON, Language, language_of
from pace_async.programs.text import DIVIDER, END_MARK, REPLACE, SEARCH, START_MARK, editable
from pace_async.thinking import answer_proper

LONGEST_ANSWER = 256 * 1024
"""Characters. A block has a few kilobytes. A longer text is not an answer."""

_MOVED = f"{START_MARK} or {END_MARK} inside the evolve block"
_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`]*$")


class UselessProgram(CandidateFault):
    """An answer made `program`, which would fail before it is called, or lacks the edits `unapplied`."""

    def __init__(self, kind: str, detail: str, program: str, unapplied: str = "") -> None:
        super().__init__(kind, detail)
        self.program = program
        self.unapplied = unapplied


class PartlyApplied(CandidateFault):
    """Some edits of an answer were applied, which gave `block`. The edits `unapplied` were not."""

    def __init__(self, kind: str, detail: str, block: str, unapplied: str) -> None:
        super().__init__(kind, detail)
        self.block = block
        self.unapplied = unapplied


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the lines `search`, which occur exactly once in the block, with the lines `replace`."""

    search: tuple[str, ...]
    replace: tuple[str, ...]

    @property
    def text(self) -> str:
        """As it stands in an answer."""
        return "".join(f"{line}\n" for line in (SEARCH, *self.search, DIVIDER, *self.replace, REPLACE))


@dataclass(frozen=True, slots=True)
class WholeBlock:
    """The new content of the evolve block."""

    text: str


def program_of(answer: str, parent: str, language: str = PYTHON, entry: str = "", seen: str = "") -> str:
    """The program that `answer` makes of `parent`, whose whole text may change if it has no marks. `entry` is the
    function that it has to define, `seen` the parent as its author saw it, if functions were folded. Raises
    CandidateFault, or ValueError if the parent's marks are not a block."""
    before, block, after = editable(parent)
    parsed = parse(answer, language_of(language))
    try:
        if seen and seen != parent:
            new = _of_folded(parsed, seen, block, parent)
        else:
            new = parsed.text if isinstance(parsed, WholeBlock) else apply_edits(block, parsed, parent)
    except PartlyApplied as fault:
        program = before + fault.block + after
        _refuse_too_long_program(program)
        _refuse_markers(program, before, after)
        raise UselessProgram(fault.kind, fault.detail, program, fault.unapplied) from None
    return _with_block((before, new, after), parent, language, entry)


def _of_folded(parsed: WholeBlock | tuple[Edit, ...], view: str, block: str, parent: str) -> str:
    """The new block of an answer to a program with folded functions."""
    seen_block = editable(view)[1]
    if isinstance(parsed, WholeBlock):
        text = parsed.text
        if lost := lost_names(text, seen_block, parent.replace(block, unfolded(text, seen_block, parent))):
            raise CandidateFault("hidden_lines_lost", f"the block has neither the line of {lost[0]} nor a definition")
    else:
        try:
            text = apply_edits(seen_block, parsed, view)
        except CandidateFault as fault:
            if fault.kind != "search_not_found" and not isinstance(fault, PartlyApplied):
                raise
            text = _of_whole(parsed, seen_block, block, parent)
    text = unfolded(text, seen_block, parent)
    if any(is_folded(line) for line in text.splitlines()):
        raise CandidateFault("hidden_lines_lost", "a line that stands for hidden ones is changed")
    return text


def _of_whole(edits: tuple[Edit, ...], seen_block: str, block: str, parent: str) -> str:
    """The new block of edits of the whole block, whose author saw `seen_block`."""
    try:
        return apply_edits(block, edits, parent)
    except PartlyApplied as fault:
        new = unfolded(fault.block, seen_block, parent)
        if any(is_folded(line) for line in new.splitlines()):
            raise CandidateFault(fault.kind, fault.detail) from None
        raise PartlyApplied(fault.kind, fault.detail, new, fault.unapplied) from None


def program_left(text: str, parent: str, language: str = PYTHON, entry: str = "") -> str:
    """The program of an agent that changed `parent` in place and left `text`. White space at the end of the file does
    not count, because editors add and remove it. Raises as `program_of`."""
    if not text.strip():
        raise CandidateFault("empty_answer", "the program's file is empty")
    _refuse_too_long_program(text)
    text = text if "\r" in parent else text.replace("\r\n", "\n")
    before, _, after = editable(parent)
    try:
        left = editable(text) if before or after else ("", text, "")
    except ValueError:
        raise CandidateFault("markers_in_block", _MOVED) from None
    if left[0] != before or left[2].rstrip() != after.rstrip():
        raise CandidateFault("edit_leaves_block", "the program has changed outside the evolve block")
    return _with_block((before, left[1], after), parent, language, entry)


def _with_block(parts: tuple[str, str, str], parent: str, language: str, entry: str) -> str:
    """The program of these parts, if it may be evaluated."""
    before, new, after = parts
    if not new.strip():
        raise CandidateFault("empty_block", "nothing would be left in the evolve block")
    program = before + new + after
    _refuse_too_long_program(program)
    _refuse_markers(program, before, after)
    if fault := compiled(program, language=language).fault:
        raise UselessProgram("syntax_error", fault, program)
    if entry and not defines(program, entry) and defines(parent, entry):
        raise UselessProgram("no_entry", f"the program defines no function {entry}", program)
    if program_hash(program, language) == program_hash(parent, language):
        raise CandidateFault("unchanged", "the program does the same as its parent")
    return program


def _refuse_too_long_program(program: str) -> None:
    if is_fileset(program) or is_manifest(program):
        raise CandidateFault("wrong_language", "a program may not begin with that line")
    if len(program) > LONGEST_PROGRAM:
        raise CandidateFault("program_too_long", f"{len(program)} characters, of {LONGEST_PROGRAM} allowed")


def refuse_too_long(answer: str) -> None:
    """Raises CandidateFault for an answer over LONGEST_ANSWER."""
    if len(answer) > LONGEST_ANSWER:
        raise CandidateFault("answer_too_long", f"{len(answer)} characters, of {LONGEST_ANSWER} allowed")


def parse(answer: str, language: Language | None = None) -> WholeBlock | tuple[Edit, ...]:
    """Read an answer. Reasoning before it is no part of it. Prose around code is allowed. Edits may be inside or
    outside fences. Raises CandidateFault."""
    refuse_too_long(answer)
    proper = answer_proper(answer)
    if answer.strip() and not proper.strip():
        raise CandidateFault("empty_answer", "the answer holds reasoning only")
    lines = proper.replace("\r\n", "\n").split("\n")
    edits, rest = take_edits(lines)
    if not edits:
        return _whole_block(lines, language or language_of(PYTHON))
    if any(text.strip() for _, text in fenced_blocks(rest)):
        raise CandidateFault("mixed_answer", "edits and a code block in one answer")
    return edits


def apply_edits(block: str, edits: tuple[Edit, ...], parent: str) -> str:
    """`block` with every edit applied to its original lines: edits do not see one another. `parent` is the whole
    program, to distinguish an edit outside the block from one that matches nothing. Raises CandidateFault, and
    PartlyApplied if at least one edit could be applied and another could not. That program is never evaluated: its
    author corrects it."""
    lines = block.split("\n")
    if lines[-1] == "":
        lines.pop()
    located: list[tuple[int, Edit]] = []
    faults: list[tuple[CandidateFault, Edit]] = []
    for number, edit in enumerate(edits, start=1):
        places = _places(lines, edit.search)
        if len(places) == 1:
            located.append((places[0], edit))
        else:
            faults.append((_not_applied(number, edit, len(places), parent), edit))
    if faults and not located:
        raise faults[0][0]
    located.sort(key=lambda pair: pair[0])
    for (first, edit), (second, _) in pairwise(located):
        if first + len(edit.search) > second:
            raise CandidateFault("edits_overlap", "two edits change the same lines")
    for place, edit in reversed(located):
        lines[place : place + len(edit.search)] = edit.replace
    new = "".join(f"{line}\n" for line in lines)
    if faults:
        details = "; ".join(fault.detail for fault, _ in faults)
        raise PartlyApplied(faults[0][0].kind, details, new, "".join(edit.text for _, edit in faults))
    return new


def _not_applied(number: int, edit: Edit, places: int, parent: str) -> CandidateFault:
    """Why the edit of this number cannot be applied, whose SEARCH stands at so many places of the block."""
    if places:
        return CandidateFault("search_ambiguous", f"the SEARCH of edit {number} stands {places} times")
    if _places(parent.split("\n"), edit.search):
        return CandidateFault("edit_leaves_block", f"edit {number} changes what stands outside the evolve block")
    return CandidateFault("search_not_found", f"the SEARCH of edit {number} stands nowhere in the program")


def _places(lines: list[str], search: tuple[str, ...]) -> list[int]:
    size = len(search)
    return [i for i in range(len(lines) - size + 1) if tuple(lines[i : i + size]) == search]


def take_edits(lines: list[str]) -> tuple[tuple[Edit, ...], list[str]]:
    """The edits, and the lines that belong to no edit."""
    edits: list[Edit] = []
    rest: list[str] = []
    search: list[str] | None = None
    replace: list[str] | None = None
    for line in lines:
        mark = line.rstrip()
        if mark == SEARCH:
            if search is not None:
                raise CandidateFault("malformed_edit", f"{SEARCH} inside an edit")
            search = []
        elif mark == DIVIDER and search is not None and replace is None:
            replace = []
        elif mark == DIVIDER and search is not None:
            raise CandidateFault(
                "malformed_edit", f"an edit holds several lines {DIVIDER}: answer with the whole block instead"
            )
        elif mark == REPLACE:
            if search is None or replace is None:
                raise CandidateFault("malformed_edit", f"{REPLACE} without {SEARCH} and {DIVIDER} before it")
            if not any(part.strip() for part in search):
                raise CandidateFault("empty_search", "a SEARCH without text")
            edits.append(Edit(tuple(search), tuple(replace)))
            search = replace = None
        elif search is None:
            rest.append(line)
        else:
            (search if replace is None else replace).append(line)
    if search is not None:
        raise CandidateFault("malformed_edit", f"an edit is not closed by {REPLACE}")
    return tuple(edits), rest


def _whole_block(lines: list[str], expected: Language) -> WholeBlock:
    blocks = fenced_blocks(lines)
    if not blocks:
        raise CandidateFault("no_code_block", "the answer holds neither a code block nor an edit")
    if len(blocks) > 1:
        raise CandidateFault("several_code_blocks", f"{len(blocks)} code blocks where one belongs")
    language, text = blocks[0]
    if language and language.lower() not in expected.fences:
        raise CandidateFault("wrong_language", f"the code block is marked {language[:20]}, not {expected.name}")
    return WholeBlock(text)


def fenced_blocks(lines: list[str]) -> list[tuple[str, str]]:
    """(language, text) of each fenced block. A closing fence has the same character, is at least as long, and stands
    alone on its line."""
    blocks: list[tuple[str, str]] = []
    fence, language, body = "", "", list[str]()
    for line in lines:
        if fence:
            if fence in line and set(line.strip()) == {fence[0]}:
                blocks.append((language, "".join(f"{body_line}\n" for body_line in body)))
                fence = ""
            else:
                body.append(line)
        elif match := _FENCE.match(line):
            fence, language, body = match[1], match[2], []
    if fence:
        raise CandidateFault("unclosed_code_block", "the code block is not closed")
    return blocks


def _refuse_markers(program: str, before: str, after: str) -> None:
    """The new content of the block must not move the block's borders."""
    try:
        parts = editable(program)
    except ValueError:
        parts = None
    if parts is None or parts[0] != before or parts[2] != after:
        raise CandidateFault("markers_in_block", _MOVED)
