"""Pieces of a classic BPF program that looks at one system call.

A piece tests arguments and either returns a verdict or falls through to the piece after it. A call that falls through
all of its pieces is allowed. Arguments are numbered from 0. An argument that the kernel takes as an int is compared by
its lower half alone, as the kernel does. `where_set` tests all 64 bits. Little-endian machines only.
"""

import errno
import struct
from collections.abc import Sequence

Instruction = tuple[int, int, int, int]
"""Operation, how many to skip where it holds, how many where it does not, operand."""
Code = list[Instruction]

_LOAD, _AND, _RETURN, _JUMP = 0x20, 0x54, 0x06, 0x05
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_OFFSET, _ARCH_OFFSET, _FIRST_ARGUMENT = 0, 4, 16
_X32_BIT = 0x40000000


def refuse(error: int = errno.EPERM) -> Code:
    """The call fails with this error."""
    return [(_RETURN, 0, 0, _ERRNO | error)]


def where(argument: int, value: int, then: Code, mask: int = 0xFFFFFFFF) -> Code:
    """`then`, if the masked argument equals this value."""
    return [_low(argument), (_AND, 0, 0, mask), (_EQUAL, 0, len(then), value), *then]


def where_any_bit(argument: int, mask: int, then: Code) -> Code:
    """`then`, if the argument has any of these bits."""
    return [_low(argument), (_ANY_BIT, 0, len(then), mask), *then]


def where_set(argument: int, then: Code) -> Code:
    """`then`, if the 64-bit argument is not 0."""
    high = (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * argument + 4)
    return [_low(argument), (_EQUAL, 0, 2, 0), high, (_EQUAL, len(then), 0, 0), *then]


def unless(argument: int, values: Sequence[int], then: Code, mask: int = 0xFFFFFFFF) -> Code:
    """`then`, unless the masked argument is one of these values."""
    after = [len(values) - 1 - at + len(then) for at in range(len(values))]
    tests = [(_EQUAL, skip, 0, value) for skip, value in zip(after, values, strict=True)]
    return [_low(argument), (_AND, 0, 0, mask), *tests, *then]


def assemble(arch: int, refuses_x32: bool, pieces: Sequence[tuple[int, Code]]) -> bytes:
    """The program as an array of `struct sock_filter`: a call of another architecture kills, one whose number is in
    `pieces` (sorted) goes through its pieces, every other is allowed."""
    code: Code = [(_LOAD, 0, 0, _ARCH_OFFSET), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL)]
    code.append((_LOAD, 0, 0, _NUMBER_OFFSET))
    if refuses_x32:
        code += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    code += _choose(pieces)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _choose(pieces: Sequence[tuple[int, Code]]) -> Code:
    """Binary search: when a filter is installed the kernel tries every number, and each step costs it time."""
    if len(pieces) == 1:
        number, code = pieces[0]
        return [(_EQUAL, 0, len(code), number), *code, (_RETURN, 0, 0, _ALLOW)]
    middle = len(pieces) // 2
    below, from_there = _choose(pieces[:middle]), _choose(pieces[middle:])
    return [(_AT_LEAST, 0, 1, pieces[middle][0]), (_JUMP, 0, 0, len(below)), *below, *from_there]


def _low(argument: int) -> Instruction:
    return (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * argument)
