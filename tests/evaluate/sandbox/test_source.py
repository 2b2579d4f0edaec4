"""A program's source can be asked for in every sandbox, as it can be for a file: inspect, torch.jit, Triton and others
read it."""

import importlib.util
import json
import sys

import pytest

from pace_async.evaluate.sandbox.converse import Job
from pace_async.evaluate.sandbox.launch import launch
from pace_async.evaluate.sandbox.tiers import Limits
from pace_async.evaluate.sandbox.verdict import judge
from pace_async.programs.compiled import compiled, parts_of
from tests.evaluate.sandbox.tiers import LIMITS, SANDBOXES, Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
each_sandbox = pytest.mark.parametrize("sandbox", SANDBOXES)

PROGRAM = '''\
import inspect
import linecache
import sys
import traceback

class Point:
    """A class."""

    def far(self):
        return 2

def wrap(made):
    return made

@wrap
def near(x):
    # a comment
    return [each for each in range(x)]

def f(x):
    def inner():
        return 3

    linecache.checkcache()
    try:
        near("no number")
    except TypeError:
        shown = traceback.format_exc()
    asked = [near, Point, Point.far, inner, lambda: 4]
    return {
        "sources": [inspect.getsource(each) for each in asked],
        "module": inspect.getsource(sys.modules["program"]),
        "line": inspect.getsourcelines(near)[1],
        "shown": "return [each for each in range(x)]" in shown,
    }
'''


async def outcome_of(sandbox: Sandbox, program: str, limits: Limits = LIMITS) -> tuple[str, object]:
    """The outcome, and the output or the detail."""
    work = Job(program, "f", ["1"])
    verdict = judge(await launch(sandbox.tier, work, limits, (), await sandbox.parent()))
    return verdict.outcome, verdict.outputs[0] if verdict.outcome == "ok" else verdict.detail


@each_sandbox
@pytest.mark.parametrize("in_parts", [False, True], ids=["as text", "as compiled parts"])
async def test_inspect_finds_the_source_of_what_a_program_defines(sandbox: Sandbox, in_parts: bool) -> None:
    program = PROGRAM if in_parts else PROGRAM + '\nPAGE = "one\x0ctwo\x85three"\n'
    compiled(program)
    assert bool(parts_of(program)) == in_parts
    outcome, output = await outcome_of(sandbox, program)
    assert outcome == "ok", output
    assert isinstance(output, bytes)
    found = json.loads(output)
    near, point, far, inner, made = found["sources"]
    assert near == "@wrap\ndef near(x):\n    # a comment\n    return [each for each in range(x)]\n"
    assert point.startswith("class Point:") and far == "    def far(self):\n        return 2\n"
    assert inner == "    def inner():\n        return 3\n"
    assert made == "    asked = [near, Point, Point.far, inner, lambda: 4]\n"
    assert found["module"] == program
    assert (found["line"], found["shown"]) == (program[: program.index("@wrap")].count("\n") + 1, True)


@each_sandbox
async def test_inspect_finds_the_source_of_a_program_with_another_line_end(sandbox: Sandbox) -> None:
    program = "import inspect\r\ndef g():\r\n    return 1\r\ndef f(x):\r\n    return inspect.getsource(g)"
    assert await outcome_of(sandbox, program) == ("ok", b'"def g():\\n    return 1\\n"')


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@each_sandbox
async def test_torch_compiles_a_function_of_a_program_to_torchscript(sandbox: Sandbox) -> None:
    program = (
        "import torch\n\n@torch.jit.script\ndef twice(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n\n"
        "def f(x):\n    return float(twice(torch.tensor(float(x))))\n"
    )
    limits = Limits(seconds=180.0, memory_mb=4096, output_bytes=1 << 20)
    assert await outcome_of(sandbox, program, limits) == ("ok", b"2.0")
