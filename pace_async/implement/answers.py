"""An answer made into a program without holding up the event loop: read, applied and compiled in one of the processes
of `apart`, because every step can be made slow by who wrote the answer."""

from typing import Any

from pace_async.apart import TooMuchWork, apart
from pace_async.errors import CandidateFault
from pace_async.implement.edits import NotCompiling, program_of, refuse_too_long
from pace_async.programs import examined, remember


def answered(answer: str, parent: str) -> dict[str, Any]:
    """For another process: what `program_of` makes of it, or the fault."""
    try:
        program = program_of(answer, parent)
    except NotCompiling as fault:
        return {"kind": fault.kind, "detail": fault.detail, "program": fault.program}
    except CandidateFault as fault:
        return {"kind": fault.kind, "detail": fault.detail}
    return {"program": program, "examined": examined(program)}


async def made_of(answer: str, parent: str) -> str:
    """The program that an answer makes of its parent. Raises CandidateFault, and InfrastructureFault where no process
    can be had."""
    refuse_too_long(answer)
    try:
        said = await apart(answered, answer, parent)
    except TooMuchWork as work:
        raise CandidateFault(work.kind, f"making a program of it {work.detail}") from None
    if "examined" in said:
        remember(str(said["program"]), said["examined"])
        return str(said["program"])
    if "program" in said:
        raise NotCompiling(str(said["detail"]), str(said["program"]))
    raise CandidateFault(str(said["kind"]), str(said["detail"]))
