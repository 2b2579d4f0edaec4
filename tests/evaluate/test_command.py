"""Evaluators of the user's, each in one sandbox with the program that it evaluates."""

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from pace_async.errors import UsageError
from pace_async.evaluate.sandbox.selfcheck import PROBE, target_of
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.events import Outcome
from tests.doubles.evaluators import scored
from tests.evaluate.sandbox.cheats import OWN, run_corpus
from tests.evaluate.sandbox.tiers import TIERS, left_below
from tests.support.command_tasks import PROGRAM, SOURCED, make_command_task, make_python_task
from tests.support.evaluating import evaluating

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
each_tier = pytest.mark.parametrize("tier", TIERS)
GOOD = "echo '{\"combined_score\": 1}' > $RESULTS/metrics.json\n"


FAULTS: dict[str, tuple[str, Outcome, str]] = {
    "an exit code": ("echo first >&2; echo no luck >&2; exit 3", "candidate_error", "exit code 3: no luck"),
    "a crash": ("kill -SEGV $$", "candidate_error", "SIGSEGV"),
    "no file": ("echo nothing", "invalid_score", "the evaluator left no metrics.json"),
    "a file too long": (
        "head -c 200000 /dev/zero > $RESULTS/metrics.json",
        "invalid_score",
        "the evaluator's metrics.json is too long",
    ),
    "a link to another file": (
        "ln -s /etc/passwd $RESULTS/metrics.json",
        "invalid_score",
        "the evaluator left no metrics.json",
    ),
    "a folder": ("mkdir $RESULTS/metrics.json", "invalid_score", "the evaluator left no metrics.json"),
    "a pipe": ("mkfifo $RESULTS/metrics.json", "invalid_score", "the evaluator left no metrics.json"),
    "a pipe that a process holds": (
        "mkfifo $RESULTS/metrics.json; exec 9<> $RESULTS/metrics.json; sleep 100 &",
        "invalid_score",
        "the evaluator left no metrics.json",
    ),
    "no folder of results": ("rm -r $RESULTS", "invalid_score", "the evaluator left no metrics.json"),
    "too much output": (
        "yes more",
        "output_overflow",
        "too much on standard output: more than 16 MiB, which output_mb",
    ),
}


async def test_each_fault_is_distinguished_and_charged_to_the_program(tmp_path: Path) -> None:
    async with evaluating(make_command_task(tmp_path / "any", SOURCED, program=GOOD)) as evaluator:
        assert (await scored(evaluator, GOOD)).score == 1.0
        for what, (program, outcome, words) in FAULTS.items():
            found = await scored(evaluator, program)
            assert (found.outcome, found.score) == (outcome, None), (what, found)
            assert found.detail.removeprefix("the evaluator ended with ").startswith(words), (what, found)


async def test_an_evaluator_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    more = {"timeout_s": 5}  # the sandbox's start counts, and takes seconds on a busy machine
    async with evaluating(make_command_task(tmp_path / "any", SOURCED, program=GOOD, more=more)) as evaluator:
        found = await scored(evaluator, "sleep 100")
    assert (found.outcome, found.detail[:13]) == ("timeout", "stopped after")


PYTHON = """
    import dataclasses, subprocess, sys
    import numpy
    from shim import Result

    def evaluate_quickly(program):
        return {"runs": numpy.float64(0.75)}

    async def evaluate(program):
        with open(program) as stream:
            text = stream.read()
        said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
        return Result({"combined_score": numpy.int64(said), "share": 0.5}, {"log": b"it ran", "worst": [1, 2]})
"""
SHIM = """
class Result:
    def __init__(self, metrics, artifacts):
        self.metrics, self.artifacts = metrics, artifacts
"""


async def test_a_python_evaluator_has_its_packages_its_shims_its_stages_and_its_artifacts(tmp_path: Path) -> None:
    shims = tmp_path / "py" / "shims"
    shims.mkdir(parents=True)
    (shims / "shim.py").write_text(SHIM)
    cascade = [{"name": "quick", "function": "evaluate_quickly", "threshold": 0.5}]
    task = make_python_task(
        *(tmp_path / "py", PYTHON, "print(42)\n"),
        **{"score": ["combined_score", "mean"], "path": ["shims"], "cascade": cascade, "feedback": True},
    )
    async with evaluating(task) as evaluator:
        quick = await scored(evaluator, task.program, stage="quick")
        assert (quick.outcome, quick.score) == ("ok", 0.75), quick
        full = await scored(evaluator, task.program)
        assert (full.outcome, full.score, full.metrics["share"]) == ("ok", 42.0, 0.5), full
        assert full.feedback == "log:\nit ran\n\nworst:\n[1, 2]"
        failed = await scored(evaluator, "raise SystemExit('no luck')\n")
        assert failed.outcome == "candidate_error"
        assert "CalledProcessError" in failed.feedback


REWRITES = f"""
for file in evaluate.sh "$TASK/evaluate.sh"; do echo 'echo no metrics' > "$file"; done 2>/dev/null
chmod -R u+w "$TASK" 2>/dev/null; rm -rf "$TASK" 2>/dev/null
{GOOD}"""


@pytest.mark.fault("Programs as weapons", "an evaluator rewritten by the program beside it")
@each_tier
async def test_a_program_that_rewrites_its_evaluator_changes_no_later_evaluation(tier: Tier, tmp_path: Path) -> None:
    more = {"evaluate": ["sh", "evaluate.sh", "{program}", "{results}", "{task}"], "deterministic": False}
    task = make_command_task(tmp_path / "any", f"TASK=$3\n{SOURCED}", program=GOOD, more=more)
    before = (task.folder / "evaluate.sh").read_bytes()
    async with evaluating(task, tier) as evaluator:
        rewrites = await scored(evaluator, REWRITES)
        after = await scored(evaluator, 'test "$(head -c 4 evaluate.sh)" = TASK && ' + GOOD)
    assert (rewrites.outcome, after.outcome, after.score) == ("ok", "ok", 1.0), (rewrites, after)
    assert (task.folder / "evaluate.sh").read_bytes() == before


@each_tier
async def test_nothing_of_an_evaluation_is_left_when_it_ends(tier: Tier, tmp_path: Path) -> None:
    leaves = f"(trap '' TERM; sleep 100) &\nsleep 100 > /dev/null 2>&1 &\n{GOOD}"
    async with evaluating(make_command_task(tmp_path / "any", SOURCED, program=GOOD), tier) as evaluator:
        found = await scored(evaluator, leaves)
    assert (found.outcome, found.score) == ("ok", 1.0), found
    assert left_below() == []


ATTACKED = """
    import importlib.util, json, os

    def evaluate(program):
        spec = importlib.util.spec_from_file_location("attack", program)
        attack = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(attack)
        with open("target.json") as stream:
            target = json.load(stream)
        target["variables"] += ["PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "PYTHONUNBUFFERED"]
        return {"combined_score": 1, **attack.probe({**target, "variables": [*target["variables"], "PACE_RESULTS"]})}
"""


@pytest.mark.fault("Programs as weapons", "a program that attacks from its evaluator's own process")
@each_tier
async def test_a_program_gets_through_nothing_that_its_tier_claims_to_stop(tier: Tier, tmp_path: Path) -> None:
    """The self-check's attacks, in the evaluator's own process."""
    with target_of(256) as (target, _):
        (tmp_path / "any").mkdir()
        (tmp_path / "any" / "target.json").write_text(json.dumps(target))
        task = make_python_task(tmp_path / "any", ATTACKED, PROBE.read_text())
        async with evaluating(task, tier) as evaluator:
            found = await scored(evaluator, task.program)
    assert found.outcome == "ok", found
    stopped: dict[str, Any] = {**found.metrics, "group": left_below() == []}
    # It is dumpable, as what any program starts is. Its memory is bounded by the control group, not by addresses.
    claimed = set(tier.claims) - {"core", "memory"}
    assert [name for name in sorted(claimed) if not stopped[name]] == []


@pytest.mark.parametrize(
    ("command", "words"),
    [("no-such-evaluator", "which is not on this machine"), ("./no-such-file", "which is not a file of its folder")],
)
async def test_a_command_that_is_not_there_is_the_tasks_mistake(tmp_path: Path, command: str, words: str) -> None:
    task = make_command_task(tmp_path / "any", more={"evaluate": [command, "{program}"]})
    with pytest.raises(UsageError, match=words):
        async with evaluating(task):
            pass


@pytest.mark.fault("Programs as weapons", "a program or an evaluator that reads the source")
@pytest.mark.parametrize("language", ["python", "shell"])
async def test_an_evaluator_that_reads_the_source_scores_each_text(tmp_path: Path, language: str) -> None:
    if language == "python":
        reads = "def evaluate(path):\n    return {'combined_score': len(open(path).read())}\n"
        task = make_python_task(tmp_path / "any", reads, PROGRAM.replace("echo $((x * 7))", "y=7"))
    else:
        task = make_command_task(
            tmp_path / "any", 'echo "{\\"combined_score\\": $(wc -c < "$1")}" > "$2/metrics.json"\n'
        )
    texts = ("x=1\n", "x=1  # longer\n", "x=1\n\n\n")
    async with evaluating(task) as evaluator:
        found = [await scored(evaluator, text, 0) for text in (*texts, *texts)]
    assert [evaluation.score for evaluation in found] == [float(len(text)) for text in texts] * 2
    assert [evaluation.memoised for evaluation in found] == [False] * 3 + [True] * 3


async def test_the_rows_of_a_run_say_that_trust_is_shared_and_what_the_evaluator_said(tmp_path: Path) -> None:
    task = make_command_task(tmp_path / "numbers", more={"feedback": True, "valid": "correct"})
    programs = {
        "better": PROGRAM.replace("x=3", "x=5"),
        "fails": PROGRAM.replace("x=3", "exit 1"),
        "again": PROGRAM.replace("x=3", "x=5"),
    }
    rows = await run_corpus(task, tmp_path, programs)
    assert {name: (row["outcome"], row["score"], row["feedback"]) for name, row in rows.items()} == {
        OWN: ("ok", 21.0, "a larger x than in 21"),
        "better": ("ok", 35.0, "a larger x than in 35"),
        "fails": ("candidate_error", None, None),
        "again": ("ok", 35.0, "a larger x than in 35"),
    }
    assert rows["again"]["memoised"]
    with sqlite3.connect(tmp_path / "population.db") as connection:
        assert connection.execute("select trust from runs").fetchall() == [("shared",)]
        tries = "select claimed, outcome, score, held from fresh_scores"
        assert connection.execute(tries).fetchall() == [(35.0, "ok", 35.0, 1)]
