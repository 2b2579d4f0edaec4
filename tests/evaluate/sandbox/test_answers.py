"""What every sandbox tier takes for an answer, and what for a failure or a forgery of one."""

import sys

import pytest

from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.tiers import Limits
from pace_async.evaluate.sandbox.verdict import judge
from tests.evaluate.sandbox.tiers import (
    LIMITS,
    SANDBOXES,
    Sandbox,
    run_program,
    value_of,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
each_sandbox = pytest.mark.parametrize("sandbox", SANDBOXES)
OF_NUL = SyntaxError if sys.version_info >= (3, 11, 4) else ValueError
"""What Python raises for a program with a NUL."""


@each_sandbox
async def test_a_result_comes_back_with_numpy_values_as_plain_json(sandbox: Sandbox) -> None:
    program = """
    import numpy as np
    def f(x):
        return {"array": np.arange(3), "number": np.float64(x), "whole": np.int64(2)}
    """
    assert await value_of(sandbox, program, argument=1.5) == {"array": [0, 1, 2], "number": 1.5, "whole": 2}


@pytest.mark.fault("Sandbox", "sys.exit(0)", only="exit")
@pytest.mark.fault("Sandbox", "os._exit(0)", only="os_exit")
@pytest.mark.fault("Sandbox", "segmentation fault", only="segfault")
@each_sandbox
@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("def f(x):\n    return 1 / 0", "ZeroDivisionError: division by zero (line 2)"),
        ("def f(x:\n    return 1", "SyntaxError: '(' was never closed (line 1)"),
        ("import sys\ndef f(x):\n    sys.exit(0)", "SystemExit: 0 (line 3)"),
        ("import os\ndef f(x):\n    os._exit(0)", "ended without a result (exit code 0)"),
        ("import ctypes\ndef f(x):\n    ctypes.string_at(0)", "ended without a result (SIGSEGV)"),
        ("def g(x):\n    return 1", "the program defines no function f"),
        ("def f(x):\n    return f(x)", "RecursionError: maximum recursion depth exceeded"),
        ("class E(Exception):\n    def __str__(self): raise self\ndef f(x):\n    raise E", "E: (its message"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (line 1)"),
        ("\ud800", "UnicodeEncodeError"),
        ("x = '\0'", f"{OF_NUL.__name__}: source code string cannot contain null byte"),
    ],
    ids=[
        *("exception", "syntax", "exit", "os_exit", "segfault", "no_entry", "recursion", "hostile_message"),
        *("interrupt", "surrogate", "nul"),
    ],
)
async def test_a_program_that_fails_is_a_candidate_error_with_its_last_line(
    sandbox: Sandbox, program: str, detail: str
) -> None:
    ended = await launch(sandbox.tier, Job(program, "f", ["0"]), LIMITS, (), await sandbox.parent())
    verdict = judge(ended)
    assert (verdict.outcome, verdict.detail[: len(detail)]) == ("candidate_error", detail)


@pytest.mark.fault("Sandbox", "NaN, infinity and 1e999")
@each_sandbox
@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "{1, 2}", "{(1, 2): 3}", "b'bytes'", "lambda: 1"])
async def test_an_output_that_is_not_json_is_no_result(sandbox: Sandbox, value: str) -> None:
    verdict, _ = await run_program(sandbox, f"def f(x):\n    return {value}")
    assert verdict.outcome == "invalid_score"
    assert verdict.detail.startswith("f returned no JSON value")


@pytest.mark.fault("Sandbox", "forged result on stdout")
@each_sandbox
async def test_a_forged_result_on_stdout_is_ignored(sandbox: Sandbox) -> None:
    program = """
    def f(x):
        print('pace 00 result 4\\n[99]')
        return 1
    """
    assert await value_of(sandbox, program) == 1


@pytest.mark.fault("Sandbox", "forged result on every descriptor")
@each_sandbox
async def test_bytes_written_to_every_descriptor_are_suspicious(sandbox: Sandbox) -> None:
    program = """
    import contextlib, os
    def f(x):
        for descriptor in range(3, 4096):
            with contextlib.suppress(OSError):
                os.write(descriptor, b"pace 00000000000000000000000000000000 result 4\\n[99]")
        return 1
    """
    verdict, _ = await run_program(sandbox, program)
    assert verdict.outcome == "suspicious"


@pytest.mark.fault("Sandbox", "a second result")
@each_sandbox
async def test_a_second_answer_with_the_right_nonce_is_suspicious(sandbox: Sandbox) -> None:
    program = """
    import os, sys
    def f(x):
        frame = sys._getframe()
        while "nonce" not in frame.f_locals:
            frame = frame.f_back
        answer = f"pace {frame.f_locals['nonce']} result 4\\n[99]".encode()
        os.write(frame.f_locals["result"], answer)
        return 1
    """
    verdict, _ = await run_program(sandbox, program)
    assert (verdict.outcome, verdict.detail) == ("suspicious", "the result pipe carried more than one answer")


@each_sandbox
async def test_twenty_megabytes_of_instances_reach_the_program(sandbox: Sandbox) -> None:
    limits = Limits(seconds=60.0, memory_mb=1024, output_bytes=1 << 20)
    verdict, _ = await run_program(sandbox, "def f(x):\n    return len(x)", argument="x" * 20_000_000, limits=limits)
    assert (verdict.outcome, verdict.outputs) == ("ok", (b"20000000",))
