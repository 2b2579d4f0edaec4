"""Makes a program from an answer without blocking the event loop.

A helper process (`programs.helpers`) parses, applies and compiles the answer, because its author can make each of these
steps slow.
"""

from typing import Any

from pace_async.errors import CandidateFault
from pace_async.implement.edits import NotCompiling, program_of, refuse_too_long
from pace_async.programs.compiled import examined, remember
from pace_async.programs.helpers import TooMuchWork, in_helper
from pace_async.programs.languages import PYTHON


def answered(answer: str, parent: str, language: str = PYTHON) -> dict[str, Any]:
    """Runs in another process: the result of `program_of`, or its fault."""
    try:
        program = program_of(answer, parent, language)
    except NotCompiling as fault:
        return {"kind": fault.kind, "detail": fault.detail, "program": fault.program}
    except CandidateFault as fault:
        return {"kind": fault.kind, "detail": fault.detail}
    return {"program": program, "examined": examined(program, language)}


async def made_of(answer: str, parent: str, language: str = PYTHON) -> str:
    """The program that an answer makes of its parent. Raises CandidateFault, and InfrastructureFault if no process is
    available."""
    refuse_too_long(answer)
    try:
        result = await in_helper(answered, answer, parent, language)
    except TooMuchWork as work:
        raise CandidateFault(work.kind, f"making a program of it {work.detail}") from None
    if "examined" in result:
        if language == PYTHON:
            remember(str(result["program"]), result["examined"])
        return str(result["program"])
    if "program" in result:
        raise NotCompiling(str(result["detail"]), str(result["program"]))
    raise CandidateFault(str(result["kind"]), str(result["detail"]))
