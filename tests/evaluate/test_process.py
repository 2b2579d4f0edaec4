"""Programs of their own: built by a command, started by a command, one line of JSON in and one out."""

import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pace_async.config import EvaluationConfig
from pace_async.errors import UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, Limits
from pace_async.evaluate.builds import Builds
from pace_async.evaluate.local import LocalEvaluator
from pace_async.evaluate.sandbox import cgroup
from pace_async.evaluate.sandbox.converse import Answers, Job
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.evaluate.sandbox.toolchain import Toolchain
from pace_async.evaluate.sandbox.verdict import JobResult
from pace_async.events import Outcome
from pace_async.task import Task
from tests.doubles.evaluators import scored
from tests.support.process_tasks import DOUBLE_C, c_program, make_process_task, needs_gcc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


@asynccontextmanager
async def evaluating(task: Task) -> AsyncGenerator[LocalEvaluator]:
    tier = await pick_tier(False)
    async with open_evaluator(task, EvaluationConfig(), tier=tier, log=task.folder.with_suffix(".log")) as evaluator:
        yield evaluator


async def evaluate(task: Task, program: str) -> Evaluation:
    async with evaluating(task) as evaluator:
        return await scored(evaluator, program)


@needs_gcc
async def test_a_program_is_built_once_and_started_for_each_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_process_task(tmp_path / "sums")
    async with evaluating(task) as evaluator:
        runner, builds, runs = evaluator.parts.runner, list[Job](), list[Job]()
        really = runner.run

        async def counted(job: Job, limits: Limits) -> JobResult:
            assert job.process is not None
            (runs if job.process.most is None else builds).append(job)
            return await really(job, limits)

        monkeypatch.setattr(runner, "run", counted)
        broken = DOUBLE_C.replace("int x;", "int x")
        assert [(await scored(evaluator, DOUBLE_C, seed)).score for seed in (0, 5, 7)] == [6.0, 36.0, 48.0]
        assert (len(builds), len(runs)) == (1, 3)
        assert [(await scored(evaluator, broken, seed)).outcome for seed in (0, 5)] == ["candidate_error"] * 2
        assert (len(builds), len(runs)) == (2, 3)


FAULTS: dict[str, tuple[str, Outcome, str]] = {
    "a program that does not compile": (
        DOUBLE_C.replace("factor * x", "factr * x"),
        "candidate_error",
        "the build failed: initial.c:9:",
    ),
    "a crash": (c_program("abort();"), "candidate_error", "the program ended before its last answer (SIGABRT)"),
    "an exit code": (
        c_program('fprintf(stderr, "no luck\\n"); return 3;'),
        "candidate_error",
        "the program ended before its last answer (exit code 3): no luck",
    ),
    "no answer": (c_program("return 0;"), "candidate_error", "the program ended before its last answer (exit code 0)"),
    "half a line": (
        c_program('printf("1"); return 0;'),
        "candidate_error",
        "the program ended before its last answer in the middle of a line (exit code 0)",
    ),
    "a line that is not JSON": (
        c_program('for (int i = 0; i < 3; i++) { printf("one\\n"); fflush(stdout); scanf(" %*[^\\n]"); } return 0;'),
        "invalid_score",
        "the output is not JSON",
    ),
    "a line too early": (
        c_program('printf("1\\n2\\n"); fflush(stdout); sleep(60);'),
        "invalid_score",
        "it wrote a line before it was given an instance for it: one line is due for each",
    ),
    "a line too long": (
        c_program("for (;;) putchar('1');"),
        "output_overflow",
        "too much on standard output",
    ),
    "too much on standard error": (
        c_program('for (;;) fprintf(stderr, "a line\\n");'),
        "output_overflow",
        "too much on standard error",
    ),
}


@needs_gcc
async def test_each_fault_of_a_program_is_its_own_and_said_in_one_sentence(tmp_path: Path) -> None:
    task = make_process_task(tmp_path / "sums")
    async with evaluating(task) as evaluator:
        for what, (program, outcome, words) in FAULTS.items():
            found = await scored(evaluator, program)
            assert (found.outcome, found.score) == (outcome, None), (what, found)
            assert found.detail.startswith(words), (what, found)
            assert "\n" not in found.detail


@needs_gcc
async def test_an_answer_that_comes_too_late_does_not_count(tmp_path: Path) -> None:
    task = make_process_task(tmp_path / "sums", more="timeout_s: 3")
    found = await evaluate(task, c_program("for (;;) sleep(1);"))
    assert (found.outcome, found.detail[:13]) == ("timeout", "stopped after"), found


@needs_gcc
async def test_a_program_that_runs_on_after_its_last_answer_has_its_score(tmp_path: Path) -> None:
    program = DOUBLE_C.replace("    while (", "    int given = 0;\n    while (given++ < 3 && ").replace(
        "    }\n}", "    }\n    for (;;);\n}"
    )
    found = await evaluate(make_process_task(tmp_path / "sums"), program)
    assert (found.outcome, found.score) == ("ok", 6.0), found


BAD_BUILDS: dict[str, tuple[list[str], tuple[Outcome, ...], str]] = {
    "never ends": (["sh", "-c", "sleep 600"], ("timeout",), "the build failed: it took more than 3 s"),
    "writes 10 GB": (
        ["sh", "-c", "head -c 10G /dev/zero > a || head -c 10G /dev/zero > b"],
        ("candidate_error",),
        "the build failed: ",
    ),
    "leaves too much": (
        ["sh", "-c", "head -c 20M /dev/zero > a"],
        ("candidate_error",),
        "the build failed: it left more than 8 MiB",
    ),
    "forks": (["sh", "-c", "f() { f | f & }; f; sleep 600"], ("timeout", "candidate_error"), "the build failed: "),
    "fails": (["sh", "-c", "echo first; echo second >&2; exit 4"], ("candidate_error",), "the build failed: second"),
    "fails without a word": (["sh", "-c", "exit 4"], ("candidate_error",), "the build failed: exit code 4"),
    "makes nothing": (["true"], ("candidate_error",), "the command ./program is not there, or no program"),
}


@pytest.mark.parametrize("what", BAD_BUILDS)
async def test_a_build_that_misbehaves_is_ended_and_reported_in_one_sentence(tmp_path: Path, what: str) -> None:
    build, outcomes, words = BAD_BUILDS[what]
    seconds = 3 if "timeout" in outcomes else 60
    limits = f"timeout_s: 5\nbuild_timeout_s: {seconds}\nbuild_memory_mb: 1024\nbuild_mb: 8"
    task = make_process_task(tmp_path / "sums", build=build, more=limits)
    found = await evaluate(task, DOUBLE_C)
    assert found.outcome in outcomes, found
    assert found.detail.startswith(words), found


@pytest.mark.parametrize("field", ["build", "run"])
async def test_a_command_that_is_not_installed_is_the_machines_lack(tmp_path: Path, field: str) -> None:
    build, run = (["no-compiler"], ["./program"]) if field == "build" else ([], ["no-interpreter"])
    task = make_process_task(tmp_path / "sums", build=build, run=run)
    with pytest.raises(UsageError, match=r"with no-\w+, which is not on this machine: install it"):
        await evaluate(task, DOUBLE_C)


async def test_a_program_that_is_not_built_is_run_as_it_is(tmp_path: Path) -> None:
    program = "import json\nwhile True:\n    print(3 * json.loads(input())['x'], flush=True)\n"
    task = make_process_task(tmp_path / "sums", program, language="python", build=[], run=["python3", "initial.py"])
    found = await evaluate(task, program)
    assert (found.outcome, found.score) == ("ok", 9.0), found


TIMED = """
def instances(seed):
    return [{"x": i} for i in range(4)]

def score(instances, outputs, seconds, overhead):
    return {"score": sum(seconds), "least": min(seconds), "most": max(seconds)}
"""
LEAST_S = 0.01
SLEEP_S = 0.5
WORK = "double sum = 0; for (long i = 0; i < 60000000; i++) sum += i * 0.5;"
LOOP = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <pthread.h>
volatile double kept;
void *work(void *_) { %s kept = sum; return 0; }
int main(void) {
    int x;
    while (scanf(" {\\"x\\": %%d}", &x) == 1) {
        if (x == 2) { %s }
        printf("%%d\\n", x);
        fflush(stdout);
    }
}
"""


@needs_gcc
async def test_only_a_programs_own_processor_time_counts_and_sleeping_costs_nothing(tmp_path: Path) -> None:
    task = make_process_task(tmp_path / "timed", LOOP % (WORK, "work(0);"), evaluator=TIMED)
    async with evaluating(task) as evaluator:
        worked = await scored(evaluator, LOOP % (WORK, "work(0);"))
        slept = await scored(evaluator, LOOP % (WORK, f"usleep({SLEEP_S * 1e6:.0f});"))
    assert worked.outcome == slept.outcome == "ok", (worked, slept)
    assert worked.metrics["most"] > LEAST_S
    assert worked.metrics["least"] < worked.metrics["most"] / 2
    assert slept.metrics["most"] < SLEEP_S / 2


@needs_gcc
async def test_a_timed_program_gets_one_thread(tmp_path: Path) -> None:
    task = make_process_task(tmp_path / "timed", evaluator=TIMED)
    threads = "pthread_t one; if (pthread_create(&one, 0, work, 0)) abort();"
    found = await evaluate(task, LOOP % (WORK, threads))
    assert (found.outcome, found.detail) == (
        "candidate_error",
        "the program ended before its last answer (SIGABRT)",
    ), found


GO = """package main

import (
	"fmt"
	"syscall"
)

func used() int64 {
	var all syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &all)
	return all.Utime.Nano() + all.Stime.Nano()
}

func work(done chan float64) {
	sum := 0.0
	for i := 0; i < 50000000; i++ {
		sum += float64(i) * 0.5
	}
	done <- sum
}

func main() {
	var x int
	for {
		if _, err := fmt.Scanf("{\\"x\\": %d}\\n", &x); err != nil {
			return
		}
		began := used()
		if x == 2 {
			done := make(chan float64)
			go work(done)
			go work(done)
			<-done
			<-done
		}
		fmt.Println(float64(used()-began) / 1e9)
	}
}
"""
TIMED_GO = TIMED.replace('"least"', '"said": float(outputs[2]), "third": seconds[2], "least"')


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed (apt-get install golang-go)")
@pytest.mark.skipif(cgroup.find() is None, reason="no control group can be made")
async def test_the_time_of_a_program_with_threads_is_that_of_all_of_them(tmp_path: Path) -> None:
    build = ["go", "build", "-o", "program", "initial.go"]
    limits = "timeout_s: 60\nbuild_timeout_s: 300"
    task = make_process_task(tmp_path / "timed", GO, language="go", build=build, evaluator=TIMED_GO, more=limits)
    found = await evaluate(task, GO)
    assert found.outcome == "ok", found
    assert found.metrics["third"] == found.metrics["most"] > LEAST_S
    assert found.metrics["third"] > 0.8 * found.metrics["said"] > LEAST_S


async def test_a_timed_task_in_a_language_with_threads_needs_a_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_process_task(tmp_path / "timed", "package main\n", language="go", build=[], evaluator=TIMED)
    monkeypatch.setattr(cgroup, "find", lambda: None)
    with pytest.raises(
        UsageError, match="a Go program has threads or processes, whose time only a control group can count"
    ):
        await evaluate(task, "package main\n")


async def test_what_is_built_is_kept_as_long_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pace_async.evaluate.builds.KEPT_BYTES", 1500)
    task = make_process_task(tmp_path / "sums", build=["no-matter"])
    built: list[str] = []

    async def run(job: Job, _: Limits) -> JobResult:
        assert job.process is not None
        built.append(job.process.files.decode()[-1])
        answers = Answers("", 1, ready=True, loaded=True, outputs=[job.process.files[-1:] * 1000])
        return JobResult(answers, (), (), b"", b"", 0, False, False, False, None, False, False, 0.0)

    with Builds(task.spec, Toolchain((), "", "")) as builds:
        for program in ("a", "a", "b", "b", "a"):
            assert (await builds.process(program, run)).files == program.encode() * 1000
    assert built == ["a", "b", "a"]
