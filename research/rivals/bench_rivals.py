"""pace beside OpenEvolve and ShinkaEvolve: same implementer, same evaluator, as many evaluations.

    python research/rivals/bench_rivals.py --seeds 0-4  # resumable: finished runs are not run again
    python research/rivals/bench_rivals.py --task columnar --config configs/columnar.yaml --candidates 480
    python research/rivals/bench_rivals.py --seeds 0-4 --report-only

All use one local server as implementer (`catalogue_moves`). It changes the parent of a prompt by one edit of the task's
catalogue, drawn uniformly. So the scaffolds differ only in the choice of parents. The exceptions are `pace told` and
`pace untrained`: there the server carries out the advisor's experiment, which the other scaffolds do not have, and the
advisor of the second one does not learn. Every program is scored by
pace's sandboxed evaluator, at most --slots at once. Rivals keep their own defaults, with as many workers as pace has
threads. They are installed into a separate environment below --folder. The script prints for each run the best score,
the evaluations to 95 % of the way from the seed program to the best score of any run (the budget if it did not get
there), the number of evaluated programs, and seconds.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pace_async.configure import resolve
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import EvaluationId, EvaluationRequest, Evaluator, evaluate
from pace_async.implement.catalogue import load_catalogue
from pace_async.task import Task, load_task
from research.benchmarks.bench_runs import (
    NEAR,
    PACE,
    catalogue_task,
    connect,
    difference,
    finished,
    known_names,
    made_folder,
    positive,
    refuse,
    seeds_of,
    spread,
)
from research.benchmarks.run_traces import read
from research.rivals.catalogue_moves import move_answer
from research.rivals.local_implementer_server import LocalProvider

PEERS = ("openevolve==0.4.0", "shinka-evolve==0.0.7")
RIVALS = {"OpenEvolve": "rival_openevolve.py", "ShinkaEvolve": "rival_shinka.py"}
TOLD: Mapping[str, Sequence[str]] = {"pace told": (), "pace untrained": ("--objective", "none")}
"""The arms whose advisor is obeyed, with their own arguments."""
ARMS = ("pace", *TOLD, *RIVALS)
LONGEST_S = 3600.0


@dataclass(slots=True)
class Host:
    """The model and the evaluator as an HTTP service. `scores` are those of one run, in their order."""

    task: Task
    evaluator: Evaluator
    slots: anyio.CapacityLimiter
    provider: LocalProvider
    scores: list[float | None] = field(default_factory=list[float | None])
    asked: int = 0

    def app(self) -> Starlette:
        """The routes."""
        return Starlette(routes=[*self.provider.app().routes, Route("/evaluate", self._evaluate, methods=["POST"])])

    def begin(self, arm: str, seed: int) -> None:
        """Forget the last run."""
        self.scores.clear()
        catalogue, draw = load_catalogue(_catalogue_of(self.task)), random.Random(f"{arm}/{seed}")
        self.provider.author = None if arm in TOLD else lambda question: move_answer(question, catalogue, draw)

    async def _evaluate(self, request: Request) -> Response:
        program = (await request.body()).decode()
        async with self.slots:
            self.asked += 1
            asked = EvaluationRequest.of(self.task.spec, EvaluationId("rivals", self.asked), program, 0)
            found = await evaluate(self.evaluator, asked)
        self.scores.append(found.score)
        return JSONResponse({"score": found.score})


@dataclass(frozen=True, slots=True)
class Trace:
    """Scores in their order, without the seed program's. None for a program without a score."""

    scores: Sequence[float | None]
    seed_score: float
    seconds: float

    @property
    def best(self) -> float:
        return max((score for score in self.scores if score is not None), default=self.seed_score)

    def cut(self, candidates: int) -> "Trace":
        """Its first so many evaluations."""
        return Trace(self.scores[:candidates], self.seed_score, self.seconds)

    def evaluations_to(self, score: float) -> int:
        """The number of evaluations until that score, all if it was not reached."""
        reached = (n for n, found in enumerate(self.scores, start=1) if found is not None and found >= score)
        return next(reached, len(self.scores))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--task", default="circle_packing", help="one with a catalogue whose scores are to be maximised"
    )
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--config", type=Path, help="settings of pace's runs, as a file")
    parser.add_argument("--seeds", default="0-4", help="first-last")
    parser.add_argument("--candidates", type=positive, default=160)
    parser.add_argument("--threads", type=positive, default=8, help="of pace; workers of the others")
    parser.add_argument("--slots", type=positive, default=2, help="evaluations at once")
    parser.add_argument("--folder", type=Path, default=Path("runs/bench_rivals"))
    parser.add_argument("--peers", metavar="PYTHON", help="a Python that has the rivals already")
    parser.add_argument(
        "--stands-for",
        action="append",
        default=[],
        metavar="ARM=RUN",
        help="a finished run with the catalogue as implementer, which makes the edits that the server makes when told",
    )
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    seeds = seeds_of(chosen.seeds)
    arms = known_names(chosen.arms, ARMS, "arm")
    catalogue_task(chosen.task)
    if chosen.peers and shutil.which(chosen.peers) is None:
        refuse(f"--peers {chosen.peers} is not a Python that can be started")
    made_folder(chosen.folder)
    for given in chosen.stands_for:
        adopt(chosen, *given.partition("=")[::2])
    if not chosen.report_only:
        if not chosen.peers and set(arms) & set(RIVALS):
            chosen.peers = str(installed(chosen.folder / "peers"))
        anyio.run(run_all, chosen, arms, seeds)
    files = {
        arm: [file for seed in seeds if (file := folder_of(chosen, arm, seed) / "trace.json").exists()] for arm in arms
    }
    if not any(files.values()):
        refuse(f"there is no finished run in {chosen.folder}")
    traces = {arm: [Trace(**json.loads(file.read_text())) for file in found] for arm, found in files.items() if found}
    print(report({arm: [trace.cut(chosen.candidates) for trace in runs] for arm, runs in traces.items()}))
    return 0


def adopt(chosen: argparse.Namespace, arm: str, run: str) -> None:
    """Take the scores of a finished run for an arm whose advisor is obeyed. Its seed is that of the run."""
    known_names(arm, tuple(TOLD), "arm that a run stands for")
    scores = _scores_of(Path(run))
    if len(scores) <= chosen.candidates:
        refuse(f"{run} is no finished run of {chosen.candidates} candidates")
    [text, task] = connect(Path(run)).execute("select config, task from runs").fetchone()
    if task != chosen.task:
        refuse(f"{run} is a run of {task}")
    folder = made_folder(folder_of(chosen, arm, json.loads(text)["seed"]))
    (first, *others) = scores
    (folder / "trace.json").write_text(
        json.dumps({"scores": others, "seed_score": first, "seconds": read(Path(run)).seconds})
    )


def installed(folder: Path) -> Path:
    """The Python of an environment with the rivals, created if missing."""
    python = folder / "bin" / "python"
    done = folder / ".done"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
        done.touch()
    return python


def folder_of(chosen: argparse.Namespace, arm: str, seed: int) -> Path:
    """The folder of one run."""
    return chosen.folder / f"{chosen.task}-{arm.replace(' ', '-')}-{seed}"


async def run_all(chosen: argparse.Namespace, arms: Sequence[str], seeds: Sequence[int]) -> None:
    """Run the unfinished runs, one after the other."""
    async with hosting(load_task(chosen.task), chosen.slots) as (host, url):
        for seed in seeds:
            for arm in arms:
                folder = folder_of(chosen, arm, seed)
                if not (folder / "trace.json").exists():
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir(parents=True)
                    trace = await run(chosen, host, url, arm, seed, folder.absolute())
                    (folder / "trace.json").write_text(json.dumps(trace))
                    sys.stderr.write(f"{folder.name}: {len(trace['scores'])} scores in {trace['seconds']:.0f} s\n")


@asynccontextmanager
async def hosting(task: Task, slots: int) -> AsyncGenerator[tuple[Host, str]]:
    """The host on loopback, and its URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with open_evaluator(task, resolve(None, environment={}).evaluation) as evaluator:
            host = Host(task, evaluator, anyio.CapacityLimiter(slots), LocalProvider(task))
            server = uvicorn.Server(
                uvicorn.Config(host.app(), log_config=None, ws="none", lifespan="off", timeout_keep_alive=3600)
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve, [listening])
                try:
                    yield host, url
                finally:
                    server.should_exit = server.force_exit = True


async def run(chosen: argparse.Namespace, host: Host, url: str, arm: str, seed: int, folder: Path) -> Mapping[str, Any]:
    """One run, as the fields of a Trace. Raises SystemExit if it fails."""
    host.begin(arm, seed)
    if arm in RIVALS:
        (folder / "initial.py").write_text(host.task.program)
        script = str(Path(__file__).with_name(RIVALS[arm]))
        command = [chosen.peers, script, str(folder), url, str(chosen.candidates), str(chosen.threads), str(seed)]
    else:
        command = _pace_command(chosen, url, arm, seed, folder)
    environment = {**os.environ, "HOSTED_VLLM_API_KEY": "any key will do", "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    with anyio.fail_after(LONGEST_S):
        done = await anyio.run_process(command, check=False, env=environment, cwd=folder)
    seconds = time.monotonic() - began
    scores = list(host.scores) if arm in RIVALS else _scores_of(folder / "run")
    if done.returncode != 0 or len(scores) < 2:
        raise SystemExit(f"{folder.name} failed (exit {done.returncode}): {done.stderr.decode()[-2000:]}")
    (seed_score, *scores) = scores
    return {"scores": scores[: chosen.candidates], "seed_score": seed_score, "seconds": seconds}


def _pace_command(chosen: argparse.Namespace, url: str, arm: str, seed: int, folder: Path) -> Sequence[str]:
    command = [PACE, "run", chosen.task, "--async", "--max-staleness", "2", "--run-dir", str(folder / "run")]
    command += [*TOLD.get(arm, ()), *(("--config", str(chosen.config.absolute())) if chosen.config else ())]
    command += ["--seed", str(seed), "--candidates", str(chosen.candidates), "--threads", str(chosen.threads)]
    command += ["--display", "none", "--implementer", "hosted_vllm/local"]
    return [*command, "--set", f"implementer.api_base={url}/v1", "--set", f"evaluation.slots={chosen.slots}"]


def _scores_of(folder: Path) -> list[float | None]:
    if not finished(folder):
        return []
    rows = connect(folder).execute("select score from candidates order by lease is not null, at, candidate")
    return [score for (score,) in rows]


def _catalogue_of(task: Task) -> Path:
    if task.catalogue_path is None:
        raise SystemExit(f"{task.name} has no catalogue.")
    return task.catalogue_path


def report(traces: Mapping[str, Sequence[Trace]]) -> str:
    """The table."""
    best = max(trace.best for runs in traces.values() for trace in runs)
    start = min(trace.seed_score for runs in traces.values() for trace in runs)
    near = start + NEAR * (best - start)
    lines = [
        "| scaffold | runs | best | evaluations to 95 % | evaluated | valid | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    columns = {
        arm: ([trace.best for trace in runs], [float(trace.evaluations_to(near)) for trace in runs])
        for arm, runs in traces.items()
    }
    for arm, runs in traces.items():
        valid = [sum(score is not None for score in trace.scores) / len(trace.scores) for trace in runs]
        cells = [*columns[arm], [float(len(trace.scores)) for trace in runs], valid, [trace.seconds for trace in runs]]
        lines.append(f"| {arm} | {len(runs)} | {' | '.join(spread(cell) for cell in cells)} |")
    lines += ["", "| difference (95 % interval, Welch) | best | evaluations to 95 % |", "|---|---|---|"]
    for ours in (arm for arm in ARMS if arm not in RIVALS):
        for theirs in ("pace untrained", *RIVALS):
            if ours != theirs and all(len(traces.get(arm, ())) > 1 for arm in (ours, theirs)):
                pairs = zip(columns[ours], columns[theirs], strict=True)
                lines.append(f"| {ours} − {theirs} | {' | '.join(difference(a, b) for a, b in pairs)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
