"""Texts that are slow to compile, to edit or to compare cost the event loop nothing, and end one process at most."""

import builtins
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pace_async.programs.helpers
from pace_async.children import kill_group
from pace_async.config import EvaluationConfig
from pace_async.errors import CandidateFault
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.implement.answers import made_of
from pace_async.implement.edits import LONGEST_ANSWER
from pace_async.programs import compiled as programs
from pace_async.programs import text as lines
from pace_async.programs.compiled import LONGEST_PROGRAM, SMALL, parts_of
from pace_async.programs.helpers import Pool, TooMuchWork, with_helpers
from pace_async.programs.text import BLOCK_END, BLOCK_START, split_block
from pace_async.task import load_task
from tests.doubles.evaluators import scored

SLOW = pytest.mark.fault("Programs as weapons", "a text that is slow to compile or to edit")


HOSTILE: dict[str, Callable[[int], str]] = {
    "keyword arguments": lambda size: f"f({','.join(f'a{i:x}=1' for i in range(size // 8))})\n",
    "nested lambdas": lambda size: f"x={'lambda:' * (size // 8)}1\n",
    "folded constants": lambda size: f"x={','.join(['(' + repr('a') + '*4096,)*256'] * (size // 18))}\n",
    "folded sets": lambda size: (
        f"1 in {{{','.join(f'({i},{chr(39)}a{chr(39)}*4096)*128' for i in range(size // 24))}}}\n"
    ),
    "attributes": lambda size: f"x=a{'.b' * (size // 2 - 4)}\n",
    "signs": lambda size: f"x={'-' * (size - 5)}1\n",
    "brackets": lambda size: f"x={'(' * (size // 2 - 4)}1{')' * (size // 2 - 4)}\n",
    "formats": lambda size: f"x=f'{'{a}' * (size // 3 - 4)}'\n",
    "powers": lambda size: f"x=2{'**2' * (size // 3 - 4)}\n",
    "functions": lambda size: "".join(f"def a{i}():0\n" for i in range(size // 16)),
    "empty lines": lambda size: "\n" * size,
}


@pytest.fixture
def compiled_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How much this process, in which the event loop runs, gives to the compiler."""
    sizes: list[int] = []
    whole: Callable[..., Any] = builtins.compile

    def counting(text: Any, *given: Any, **named: Any) -> Any:
        sizes.append(len(text))
        return whole(text, *given, **named)

    monkeypatch.setattr(programs, "compile", counting, raising=False)
    yield sizes


@asynccontextmanager
async def a_pool(processor_s: float = 0.2, memory_mb: int = 512) -> AsyncGenerator[Pool]:
    async with with_helpers(processor_s, memory_mb):
        pool = pace_async.programs.helpers._open
        assert pool is not None
        yield pool


@pytest.mark.long
@SLOW
@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_text_is_compiled_only_in_another_process(kind: str, compiled_here: list[int]) -> None:
    text = HOSTILE[kind](LONGEST_PROGRAM)
    assert SMALL < len(text) <= LONGEST_PROGRAM
    async with a_pool() as pool:
        found = await programs.compiled_off_loop(text)
        assert len(found.digest) == 32 and found == await programs.compiled_off_loop(text)
        assert pool.started > 0
        honest = await programs.compiled_off_loop("def f(x):\n    return x\n")
        assert honest.fault == "" and not honest.too_much
        parts_of(text)  # what is sent to a candidate
    assert sum(compiled_here) <= SMALL


@pytest.mark.long
@SLOW
@pytest.mark.parametrize("kind", ["folded constants", "folded sets"])
async def test_a_short_text_of_long_constants_is_left_to_another_process(kind: str, compiled_here: list[int]) -> None:
    text = HOSTILE[kind](SMALL - 100)
    assert programs.is_small(text)
    async with a_pool(5.0, 1024) as pool:
        await programs.compiled_off_loop(text)
        assert pool.started > 0
    assert sum(compiled_here) <= SMALL


@pytest.mark.long
@SLOW
async def test_too_much_processor_time_is_the_candidates_fault_and_ends_no_other_work() -> None:
    slow = "one = 1\n" + HOSTILE["keyword arguments"](LONGEST_PROGRAM - 100)
    async with a_pool(0.3) as pool:
        found = await programs.compiled_off_loop(slow)
        assert found.too_much and found.fault == "compiling it takes more than 0.3 s of processor time"
        assert found.digest == programs.stripped_digest(slow)
        again = await programs.compiled_off_loop(f"{slow}\n\n   \n")
        assert again.digest == found.digest
        started = pool.started
        honest = await programs.compiled_off_loop("".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(200)))
        assert honest.fault == "" and pool.started <= started + 1


@pytest.mark.long
@SLOW
async def test_too_much_memory_is_the_candidates_fault() -> None:
    async with a_pool(20.0, 160):
        found = await programs.compiled_off_loop(HOSTILE["folded constants"](20_000))
    assert found.fault == "MemoryError" or "memory" in found.fault


@SLOW
async def test_an_answer_is_read_and_applied_in_another_process(compiled_here: list[int]) -> None:
    parent = f"{BLOCK_START}\n{''.join(f'x{i}{chr(10)}' for i in range(20_000))}{BLOCK_END}\n"
    edit = "<<<<<<< SEARCH\nx{}\n=======\nw\n>>>>>>> REPLACE\n"
    async with a_pool(0.3):
        with pytest.raises(CandidateFault, match=r"too_much_work: making a program of it takes more than 0\.3 s"):
            await made_of("".join(edit.format(i) for i in range(0, 20_000, 10)), parent)
        with pytest.raises(CandidateFault, match="answer_too_long"):
            await made_of(edit * LONGEST_ANSWER, parent)
        with pytest.raises(CandidateFault, match="syntax_error"):
            await made_of("```python\nx = (\n```", f"{BLOCK_START}\ny = 1\n{BLOCK_END}\n")
        made = await made_of("```python\ny = 2\n```", f"{BLOCK_START}\ny = 1\n{BLOCK_END}\n")
        assert made == f"{BLOCK_START}\ny = 2\n{BLOCK_END}\n"
        assert programs.cached_result(made) is not None and len(parts_of(made)) == 1
        with pytest.raises(CandidateFault, match="program_too_long"):
            await made_of("```python\ny = 2\n```", f"{BLOCK_START}\ny = 1\n{BLOCK_END}\n{'#' * LONGEST_PROGRAM}\n")
    assert compiled_here == []


@SLOW
async def test_a_killed_helper_is_started_again_and_none_is_left() -> None:
    text = "".join(f"def f{i}(x):\n    return x - {i}\n" for i in range(300))
    async with a_pool() as pool:
        await pool.call(programs.stripped, ["a"])
        [worker] = pool._idle
        os.kill(worker._process.pid, signal.SIGKILL)
        found = await programs.compiled_off_loop(text)
        assert found.fault == "" and pool.started == 2
        [worker] = pool._alive
        pid = worker._process.pid
        with pytest.raises(TooMuchWork):
            await pool.call(programs.examined, [HOSTILE["keyword arguments"](LONGEST_PROGRAM)])
    kill_group(pid)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not pool._alive


@SLOW
async def test_a_program_that_is_slow_to_compile_is_refused_by_the_evaluator(tmp_path: Path) -> None:
    task, tier = load_task("circle_packing"), await pick_tier(False)
    async with (
        a_pool(0.3),
        open_evaluator(task, EvaluationConfig(warm=False), tier=tier, log=tmp_path / "log") as evaluator,
    ):
        found = await scored(evaluator, "two = 2\n" + HOSTILE["keyword arguments"](LONGEST_PROGRAM - 100), 0)
        assert (found.outcome, found.detail) == (
            "candidate_error",
            "compiling it takes more than 0.3 s of processor time",
        )
        found = await scored(evaluator, task.program, 0)
        assert found.outcome == "ok", found.detail


async def test_without_helper_processes_a_text_gives_the_same_result() -> None:
    text = "".join(f"def g{i}(x):\n    return x * {i}\n" for i in range(300))
    async with a_pool():
        elsewhere = await programs.compiled_off_loop(text)
        sent = parts_of(text)
    assert elsewhere == programs._compiled(text, None)
    assert sent == programs._parts_made(text) and len(sent) == 300


def test_the_cache_of_texts_is_bounded_by_its_size() -> None:
    memo: programs._Memo[int] = programs._Memo(100)
    for number in range(50):
        memo.put(f"{number:010}", number, 10)
    assert [memo.get(f"{number:010}") for number in range(44, 50)] == [None, 45, 46, 47, 48, 49]
    memo.put("x" * 200, 1, 0)
    assert memo.get("x" * 200) is None and memo._size == 0


MARKED = st.lists(
    st.sampled_from([BLOCK_START, BLOCK_END, " ", "\t", "\n", "\r\n", "\r", "\x0c", "\u2028", "x", "\x1f", "\xa0"]),
    max_size=12,
).map("".join)


@given(MARKED)
def test_the_block_lies_between_the_only_two_marker_lines(text: str) -> None:
    rows = text.splitlines(keepends=True)
    starts = [i for i, row in enumerate(rows) if row.strip() == BLOCK_START]
    ends = [i for i, row in enumerate(rows) if row.strip() == BLOCK_END]
    if len(starts) == len(ends) == 1 and starts < ends:
        start, end = starts[0] + 1, ends[0]
        assert split_block(text) == ("".join(rows[:start]), "".join(rows[start:end]), "".join(rows[end:]))
    else:
        with pytest.raises(ValueError, match="exactly one"):
            split_block(text)


LINES = st.lists(st.sampled_from("abc"), max_size=12)


@given(LINES, LINES, st.sampled_from([0, 5, 10_000]))
def test_changes_turn_one_text_into_the_other_at_any_limit(a: list[str], b: list[str], most: int) -> None:
    made: list[str] = []
    at = (0, 0)
    for kind, begin, end, first, last in lines.changes(a, b, most):
        assert (begin, first) == at and (begin < end or first < last)
        assert (kind == "equal") == (a[begin:end] == b[first:last])
        at = (end, last)
        made += b[first:last]
    assert made == b and at == (len(a), len(b))


@pytest.mark.fault("Programs as weapons", "texts that are slow to compare")
def test_texts_that_are_slow_to_compare_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("compared line by line")

    monkeypatch.setattr(lines, "SequenceMatcher", refuse)
    first, second = ["x"] * 20_000 + ["y"], ["z"] + ["x"] * 20_001
    assert lines.changes(first, second, 300_000) == [("replace", 0, 20_001, 0, 20_002)]
    with pytest.raises(AssertionError, match="compared"):
        lines.changes(first[-5:], second[:5], 300_000)
