"""Compile a text that others wrote without holding up the event loop.

A small or known text is compiled at once, without a pause, so that work that waits for nothing stays in order. Other
texts are compiled by a process of `apart`. A text that takes more work than a candidate may ask for gets the digest of
its stripped lines, and the excess is its fault.
"""

from pace_async import programs
from pace_async.apart import TooMuchWork, apart, is_apart
from pace_async.programs import LONGEST_PROGRAM, MOST_CONSTANTS, Compiled, TooMuchHere


async def compiled(program: str) -> Compiled:
    """As `programs.compiled`. Raises InfrastructureFault where no process can be had."""
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
    """The program's digest. Raises as `compiled`."""
    return (await compiled(program)).digest


async def _given_up(program: str, fault: str) -> Compiled:
    try:
        digest = (await apart(programs.stripped, program))["digest"]
    except TooMuchWork:
        digest = programs.digest_as_it_is(program)
    return programs.remember(program, {"digest": digest, "fault": fault, "parts": [], "too_much": True})
