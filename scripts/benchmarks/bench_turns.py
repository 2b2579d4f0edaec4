"""Measures the longest turns of a run's event loop with large groups, long prompts and hostile answers.

    python scripts/benchmarks/bench_turns.py  # 64 rollouts a group, prompts of 16,000 tokens; exit code 1 over 50 ms
    python scripts/benchmarks/bench_turns.py --answers 1000000  # an implementer that answers a megabyte made to be slow

The runtime, its database, its group files and the reading of answers are those of a real run. The engine, the learner
and the evaluator are simulated and take no time. The script prints the gauge of `pace status --json`. With --slowest it
also prints where the tasks of the slowest turns stood afterwards, and the duration of each turn.
"""

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.evaluate.base import Evaluation, EvaluationRequest, Evaluator, evaluate
from pace_async.evaluate.identities import InTaskEvaluator
from pace_async.implement.answers import made_of
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.learn.base import Step
from pace_async.population.reading.reader import open_readonly
from pace_async.population.store import Store
from pace_async.programs.compiled import compiled_off_loop
from pace_async.programs.helpers import with_helpers
from pace_async.runtime.run.clock import RealClock
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.loop_turns import TimedLoop, turns_here
from pace_async.runtime.start.supervisor import drive
from pace_async.search.state import Member
from pace_async.simulate.runs import FAULTLESS, SimulatedRun, header_of, seed_program
from pace_async.simulate.stages import WEIGHTS, World
from pace_async.task import Task, load_task

LIMIT_MS = 50.0
THREADS = GROUP = 64


class Padded:
    """A token is a byte. Shorter texts are padded to `tokens` tokens."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    def encode(self, text: str) -> tuple[int, ...]:
        ids = tuple(text.encode())
        return ids + (0,) * (self._tokens - len(ids)) if len(ids) > 400 else ids

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return bytes(token_ids).rstrip(b"\0").decode(errors="replace")


HOSTILE: tuple[Callable[[int], str], ...] = (
    lambda size: "```python\nf(" + ",".join(f"a{n}=1" for n in range(size // 9)) + ")\n```",
    lambda size: "```python\n" + "x = [" * 3000 + "]" * 3000 + "\n" + "#" * size + "\n```",
    lambda size: "<<<<<<< SEARCH\n" * (size // 15),
    lambda size: "```python\n" + "`" * size + "\n```",
    lambda size: "```python\nx = " + "-" * size + "1\n```",
)


@dataclass(slots=True)
class Answering:
    """An implementer whose answers are a line that makes each program distinct, or every other time one of `texts`, if
    there are any."""

    texts: Sequence[str]

    async def implement(self, task: Task, parent: Member, experiment: Experiment) -> ImplementedProgram:
        hostile = self.texts and experiment.lease % 2
        which = experiment.lease // 2 % len(HOSTILE)
        answer = self.texts[which] if hostile else f"```python\nadded_{experiment.lease} = 1\n```"
        return ImplementedProgram(await made_of(answer, parent.program), mechanism="add")


@dataclass
class Evaluating(InTaskEvaluator):
    """An evaluator for which a program without that line fails."""

    evaluator: Evaluator

    async def run(self, request: EvaluationRequest) -> Evaluation:
        if (fault := (await compiled_off_loop(request.program)).fault) or "\nadded_" not in request.program:
            return Evaluation("candidate_error", None, 0.1, fault)
        return await evaluate(self.evaluator, request)


@dataclass(slots=True)
class Learning:
    """A learner that makes a version of every group without reading it. A real one reads it in its own process."""

    core: Core
    folder: Path

    async def train(self, group: Path) -> Step:
        update = self.core.state.learner
        weights = self.folder / "versions" / f"{update + 1:06d}"
        weights.mkdir(parents=True)
        (weights / WEIGHTS).write_text(str(update))
        return Step(update, update + 1, group.stem, weights, "", {}, 0.0)


def configuration(candidates: int) -> Config:
    """Groups of 64 and as many threads."""
    return resolve(
        None,
        {
            "search.threads": THREADS,
            "learner.group_size": GROUP,
            "stop.candidates": candidates,
            "advisor.max_tokens": 2000,
        },
        environment={},
    )


@contextmanager
def steps_recorded(shortest_ms: float, found: list[str]) -> Generator[None]:
    """While the body runs, describe each step of a task that takes at least so much of the thread's processor time."""
    run = asyncio.Handle._run  # pyright: ignore[reportPrivateUsage]
    collecting = [0.0]

    def recorded(handle: asyncio.Handle) -> None:
        began, collected = time.thread_time(), collecting[0]
        run(handle)
        spent = 1000 * (time.thread_time() - began)
        if spent > shortest_ms:
            found.append(f"{spent:7.1f} ms, {1000 * (collecting[0] - collected):.1f} of garbage: {_stood_at(handle)}")

    since = [0.0]

    def collects(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            since[0] = time.thread_time()
        else:
            collecting[0] += time.thread_time() - since[0]

    asyncio.Handle._run = recorded  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    gc.callbacks.append(collects)
    try:
        yield
    finally:
        asyncio.Handle._run = run  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        gc.callbacks.remove(collects)


def _stood_at(handle: asyncio.Handle) -> str:
    task: Any = getattr(getattr(handle, "_callback", None), "__self__", None)
    if not hasattr(task, "get_coro"):
        return repr(handle)[:200]
    names: list[str] = []
    waiting: Any = task.get_coro()
    while waiting is not None and hasattr(waiting, "cr_code"):
        names.append(f"{waiting.cr_code.co_qualname}:{waiting.cr_frame.f_lineno if waiting.cr_frame else 'ended'}")
        waiting = waiting.cr_await
    return " > ".join(names)


async def run(folder: Path, candidates: int, tokens: int, answers: Sequence[str]) -> None:
    """Drive one run to its end."""
    config, task = configuration(candidates), load_task("circle_packing")
    (folder / "groups").mkdir()
    async with Store.open(folder / "population.db") as store:
        await store.create_run(header_of(config, task))
        await store.commit(seed_program(task))
        record, world = await store.load("simulated"), World()
        world.serve(0, None)
        codec = Padded(tokens)
        core = SimulatedRun(config, task, RealClock(), world, folder, FAULTLESS, codec).core(record, store)
        core.stages = replace(
            core.stages,
            implementer=Answering(answers),
            evaluator=Evaluating(core.stages.evaluator),
            learner=Learning(core, folder),
        )
        core.threads, core.turns = True, turns_here()
        async with with_helpers():
            await drive(core)


def main() -> int:
    """Print the gauge. Returns 1 if a turn exceeded the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--candidates", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=16_000)
    parser.add_argument("--answers", type=int, default=0, help="characters of a hostile answer")
    parser.add_argument("--slowest", action="store_true")
    asked = parser.parse_args()
    answers = [text(asked.answers) for text in HOSTILE] if asked.answers else []
    found: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="pace-turns-") as name,
        steps_recorded(10.0 if asked.slowest else 1e9, found),
    ):
        folder = Path(name)
        began = time.process_time()
        anyio.run(
            *(run, folder, asked.candidates, asked.tokens, answers),
            backend_options={"loop_factory": TimedLoop},
        )
        spent = time.process_time() - began
        with open_readonly(folder / "population.db") as reader:
            status = reader.status()
            rows = reader.query("select outcome, count(*) as amount from candidates group by outcome")
        outcomes = {row["outcome"]: row["amount"] for row in rows}
    print(*sorted(found, reverse=True)[:30], sep="\n")
    said = {name: round(status[name], 1) for name in ("longest_turn_cpu_ms", "longest_stall_ms")}
    print(json.dumps({"candidates": asked.candidates, "outcomes": outcomes, **said, "processor_s": round(spent, 1)}))
    return int(status["longest_turn_cpu_ms"] > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
