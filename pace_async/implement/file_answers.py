"""Makes a program of several files from a model's answer, or of what an agent left.

    FILE: src/moves.py          then SEARCH/REPLACE edits of this file, or one fenced block with all of its new text
    DELETE: src/old.py          the file is removed
    ```diff                     or, in place of all of these, one unified diff (`git_apply`)

Invariant: a file that the task does not let change has its parent's text, byte for byte, and so has what stands outside
the evolve block of a file that has one. Nothing is guessed: an answer applies whole, or it is a CandidateFault that
names the file. Beyond the kinds of `edits`:

    no_path, no_such_file, file_not_open, bad_path, diff_not_applied
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pace_async.errors import CandidateFault
from pace_async.implement.edits import (
    Edit,
    UselessProgram,
    apply_edits,
    fenced_blocks,
    refuse_too_long,
    take_edits,
)
from pace_async.implement.git_apply import applied
from pace_async.outside import sound
from pace_async.programs.compiled import LONGEST_PROGRAM, compiled, program_hash
from pace_async.programs.fileset import NotAProgram, Program, TooLong, changed_paths
from pace_async.programs.paths import is_chosen_by, shown_path, why_refused
from pace_async.programs.text import REPLACE, SEARCH, editable, is_marked
from pace_async.thinking import answer_proper

DIFF = ("diff", "patch", "udiff")
"""Languages of a fenced block that is a unified diff."""
_HEADING = re.compile(r"[ \t]*(?:#{1,6}[ \t]+|\*\*)?(FILE|DELETE):(?:\*\*)?[ \t]*[`\"']?(.+?)[`\"']?(?:\*\*)?[ \t]*")
_FENCE = re.compile(r"^(`{3,}|~{3,})")


@dataclass(slots=True)
class _Section:
    """The lines below a heading. `path` is empty before the first one."""

    path: str = ""
    removed: bool = False
    lines: list[str] = field(default_factory=list[str])


def program_of_answer(answer: str, parent: str, globs: str) -> str:
    """The text of the program that `answer` makes of `parent`. `globs` has the task's `change` and `hide` as JSON.
    Raises CandidateFault."""
    refuse_too_long(answer)
    proper = answer_proper(answer)
    if answer.strip() and not proper.strip():
        raise CandidateFault("empty_answer", "the answer holds reasoning only")
    before = Program.of(parent)
    first, *others = _sections(proper.replace("\r\n", "\n").split("\n"))
    diffs = [text for language, text in fenced_blocks(take_edits(first.lines)[1]) if language.lower() in DIFF]
    if diffs and (others or len(diffs) > 1):
        kind = "mixed_answer" if others else "several_code_blocks"
        raise CandidateFault(kind, "a diff stands alone: one block, and neither FILE nor DELETE lines")
    files = applied(diffs[0], before) if diffs else _of_sections(first, others, before)
    return checked(files, before, globs)


def program_of_folder(files: str, parent: str, globs: str) -> str:
    """The text of the program of an agent that changed `parent` and left these files, a JSON object of texts by path.
    Raises CandidateFault."""
    return checked(json.loads(files), Program.of(parent), globs)


def checked(files: dict[str, str], before: Program, globs: str) -> str:
    """The text of the program of these files, if it may be evaluated."""
    known = json.loads(globs)
    for path in sorted({*files, *before.files}):
        if files.get(path) != before.files.get(path):
            _refuse_change(path, files.get(path), before.files.get(path), known["change"], known["hide"])
    try:
        after = Program.of_files(files)
    except NotAProgram as error:
        raise CandidateFault("program_too_long" if isinstance(error, TooLong) else "bad_path", str(error)) from None
    program = after.text
    for path in changed_paths(before, after):
        if path.endswith(".py") and path in after.files and (fault := compiled(after.files[path]).fault):
            raise UselessProgram("syntax_error", f"{path}: {fault}", program)
    if program_hash(program) == program_hash(before.text):
        raise CandidateFault("unchanged", "the program does the same as its parent")
    return program


def globs_of(change: Sequence[str], hide: Sequence[str]) -> str:
    """What `program_of_answer` takes."""
    return json.dumps({"change": list(change), "hide": list(hide)})


def _refuse_change(path: str, text: str | None, old: str | None, change: Sequence[str], hide: Sequence[str]) -> None:
    """Raises CandidateFault for a file that may not become this text, or be removed (None)."""
    label = shown_path(path)
    if reason := why_refused(path):
        raise CandidateFault("bad_path", reason)
    if not is_chosen_by(path, change) or is_chosen_by(path, hide):
        raise CandidateFault("file_not_open", f"{label} may not change: the task opens {', '.join(change)}")
    if text is not None and len(text) > LONGEST_PROGRAM:
        raise CandidateFault("program_too_long", f"{label} has {len(text)} characters, of {LONGEST_PROGRAM} allowed")
    if old is None or not is_marked(old):
        return
    before, _, after = _block(old, path)
    try:
        parts = None if text is None else editable(text)
    except ValueError:
        parts = None
    if parts is None or parts[0] != before or parts[2].rstrip() != after.rstrip():
        raise CandidateFault("edit_leaves_block", f"{label} has changed outside its evolve block")


def _sections(lines: Sequence[str]) -> list[_Section]:
    """What stands before the first heading, then each section. A line inside an edit or a fence is no heading."""
    sections, fence, in_edit = [_Section()], "", False
    for line in lines:
        if in_edit:
            in_edit = line.rstrip() != REPLACE
        elif line.rstrip() == SEARCH:
            in_edit = True
        elif fence:
            fence = "" if fence in line and set(line.strip()) == {fence[0]} else fence
        elif opened := _FENCE.match(line):
            fence = opened[1]
        elif heading := _HEADING.fullmatch(line):
            sections.append(_Section(sound(heading[2]), heading[1] == "DELETE"))
            continue
        sections[-1].lines.append(line)
    return sections


def _of_sections(first: _Section, others: Sequence[_Section], before: Program) -> dict[str, str]:
    """The files after every section. Each is applied to the parent's file, so edits do not see one another."""
    if take_edits(first.lines)[0] or (others and fenced_blocks(first.lines)):
        raise CandidateFault("no_path", "an edit or a code block stands above the first FILE line: name its file")
    if not others:
        raise CandidateFault("no_code_block", "the answer has no FILE line, no DELETE line and no diff")
    files = dict(before.files)
    edits: dict[str, tuple[Edit, ...]] = {}
    whole: dict[str, str | None] = {}
    for section in others:
        path, label = section.path, shown_path(section.path)
        changes, rest = take_edits(section.lines)
        blocks = fenced_blocks(rest)
        if path in whole or (path in edits and (blocks or section.removed)):
            raise CandidateFault("mixed_answer", f"{label} is written twice")
        if section.removed or not changes:
            whole[path] = _whole(section, blocks, before)
        elif any(text.strip() for _, text in blocks):
            raise CandidateFault("mixed_answer", f"edits and a code block for {label}")
        else:
            edits[path] = (*edits.get(path, ()), *changes)
    for path, changes in edits.items():
        files[path] = _edited(path, changes, before)
    for path, text in whole.items():
        if text is None:
            del files[path]
        else:
            files[path] = sound(text)
    return files


def _whole(section: _Section, blocks: Sequence[tuple[str, str]], before: Program) -> str | None:
    """The new text of a file, None if it is removed."""
    label = shown_path(section.path)
    if section.removed:
        if section.path not in before.files:
            raise CandidateFault("no_such_file", f"{label} cannot be removed: the program has no such file")
        return None
    if len(blocks) != 1:
        kind = "several_code_blocks" if blocks else "no_code_block"
        problem = f"{len(blocks)} code blocks where one belongs" if blocks else "neither an edit nor a code block"
        raise CandidateFault(kind, f"below the FILE line of {label}: {problem}")
    return blocks[0][1]


def _edited(path: str, edits: tuple[Edit, ...], before: Program) -> str:
    """The parent's file after its edits."""
    text = before.files.get(path)
    if text is None:
        raise CandidateFault("no_such_file", f"{shown_path(path)} is no file of the program: write a new file whole")
    if has_returns := "\n" in text and text.count("\r\n") == text.count("\n"):
        text = text.replace("\r\n", "\n")
    head, block, tail = _block(text, path)
    try:
        new = apply_edits(block, edits, text)
    except CandidateFault as fault:
        raise CandidateFault(fault.kind, f"{path}: {fault.detail}") from None
    ended = head + sound(new if block.endswith("\n") or not block else new.removesuffix("\n")) + tail
    return ended.replace("\n", "\r\n") if has_returns else ended


def _block(text: str, path: str) -> tuple[str, str, str]:
    try:
        return editable(text)
    except ValueError:
        raise CandidateFault("file_not_open", f"{shown_path(path)} has marks that are no evolve block") from None
