"""Makes a program from an answer, or from what an agent left, without blocking the event loop.

A helper process (`programs.helpers`) parses, applies and compiles the text, because its author can make each of these
steps slow.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pace_async.errors import CandidateFault
from pace_async.implement.edits import UselessProgram, program_left, program_of, refuse_too_long
from pace_async.implement.file_answers import program_of_answer, program_of_folder
from pace_async.programs.compiled import examined, remember
from pace_async.programs.fileset import is_fileset
from pace_async.programs.helpers import TooMuchWork, in_helper
from pace_async.programs.languages import PYTHON

_MAKERS: Mapping[str, Callable[..., str]] = {
    function.__name__: function for function in (program_of, program_left, program_of_answer, program_of_folder)
}


def make_program(maker: str, text: str, parent: str, language: str, *more: str) -> dict[str, Any]:
    """Runs in another process: the program that the maker of this name makes, or its fault. `language` is empty for a
    program of several files."""
    try:
        program = _MAKERS[maker](text, parent, *([language] if language else []), *more)
    except UselessProgram as fault:
        return {"kind": fault.kind, "detail": fault.detail, "program": fault.program, "unapplied": fault.unapplied}
    except CandidateFault as fault:
        return {"kind": fault.kind, "detail": fault.detail}
    return {"program": program, "examined": examined(program, language)}


async def made_of(
    answer: str, parent: str, language: str = PYTHON, entry: str = "", seen: str = "", globs: str = ""
) -> str:
    """The program that an answer makes of its parent, which has to define `entry`. `seen` is the parent as the author
    saw it, if functions were folded, and `globs` says what may change of a parent of several files. Raises
    CandidateFault, and InfrastructureFault if no process is available."""
    refuse_too_long(answer)
    if is_fileset(parent):
        return await _program_by(program_of_answer, answer, parent, "", globs)
    return await _program_by(program_of, answer, parent, language, entry, seen)


async def made_by_agent(text: str, parent: str, language: str = PYTHON, entry: str = "") -> str:
    """The program that an agent left as `text`, where `parent` stood before. Raises as `made_of`."""
    return await _program_by(program_left, text, parent, language, entry)


async def made_in_folder(files: Mapping[str, str], parent: str, globs: str) -> str:
    """The program of these files, which an agent left where `parent` stood before. Raises as `made_of`."""
    return await _program_by(program_of_folder, json.dumps(files), parent, "", globs)


async def _program_by(maker: Callable[..., str], text: str, parent: str, language: str, *more: str) -> str:
    result = await in_helper_or_fault(make_program, maker.__name__, text, parent, language, *more)
    if language in ("", PYTHON):
        remember(str(result["program"]), result["examined"])
    return str(result["program"])


async def in_helper_or_fault(work: Callable[..., dict[str, Any]], *texts: str) -> dict[str, Any]:
    """The result of `work` in a helper process. Raises the CandidateFault that it returns, and InfrastructureFault if
    no process is available."""
    try:
        result = await in_helper(work, *texts)
    except TooMuchWork as error:
        raise CandidateFault(error.kind, f"making a program of it {error.detail}") from None
    if "kind" not in result:
        return result
    if "program" in result:
        raise UselessProgram(*(str(result[part]) for part in ("kind", "detail", "program", "unapplied")))
    raise CandidateFault(str(result["kind"]), str(result["detail"]))
