"""Compiling a text that others wrote, without holding up the event loop.

What is small, or known, is compiled at once and without a pause, so that what nobody has to wait for stays in order;
the rest by one of the processes of `apart`. A text that takes more work than a candidate may ask for has its stripped
lines for a digest and says so as its fault.
"""

from pace_async import programs
from pace_async.apart import TooMuchWork, apart, is_apart
from pace_async.programs import LONGEST_PROGRAM, MOST_CONSTANTS, Compiled, TooMuchHere


async def compiled(program: str) -> Compiled:
    """What `programs.compiled` says. Raises InfrastructureFault where no process can be had."""
    if (found := programs.known(program)) is not None:
        return found
    if not is_apart():
        return programs.compiled(program)
    if len(program) > LONGEST_PROGRAM:
        return await _given_up(program, f"the program is longer than {LONGEST_PROGRAM} characters")
    if programs.is_small(program):
        try:
            return programs.compiled(program, MOST_CONSTANTS)
        except TooMuchHere:
            pass
    try:
        return programs.remember(program, await apart(programs.examined, program))
    except TooMuchWork as work:
        return await _given_up(program, f"compiling it {work.detail}")


async def program_hash(program: str) -> str:
    """The digest of it."""
    return (await compiled(program)).digest


async def _given_up(program: str, fault: str) -> Compiled:
    try:
        digest = (await apart(programs.stripped, program))["digest"]
    except TooMuchWork:
        digest = programs.digest_as_it_is(program)
    return programs.remember(program, {"digest": digest, "fault": fault, "parts": [], "too_much": True})
