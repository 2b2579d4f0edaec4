"""The child process that counts several steps."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from pace_async.plan import counted as counting
from pace_async.plan.count import count
from pace_async.plan.counted import NotCounted, count_step, one_child
from pace_async.plan.step import StepBytes, StepShape
from scripts.benchmarks.toys import write_llama

ANSWER = StepBytes(parameters=1, trained=2, weights=3, reference=4, gradient=5, moments=6, peak=7)
ENDS_ONCE = """
import os, sys
for line in sys.stdin:
    if not os.path.exists(sys.argv[1]):
        open(sys.argv[1], "w").close()
        sys.exit("out of something")
    print(sys.argv[2], flush=True)
"""


def runs_instead(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    def given(_: str) -> list[str]:
        return command

    monkeypatch.setattr(counting, "python_module", given)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.nightly
def test_one_child_counts_what_each_of_several_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = write_llama(tmp_path / "model", vocab=500, width=64, layers=4)
    started = list[bool]()
    start = counting._Child._started

    def seen(child: counting._Child) -> object:
        started.append(True)
        return start(child)

    monkeypatch.setattr(counting._Child, "_started", seen)
    shapes = [StepShape(str(toy), 1, tokens, 10, lora_rank=rank) for tokens in (64, 4096) for rank in (None, 4)]
    with one_child():
        found = [count_step(shape) for shape in shapes]
    assert found == [count(shape) for shape in shapes]
    assert len(started) == 1


def test_a_child_that_ends_is_reported_by_its_last_line_and_another_one_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", ENDS_ONCE, str(tmp_path / "mark"), json.dumps(asdict(ANSWER))]
    runs_instead(monkeypatch, command)
    shape = StepShape("model", 1, 64, 10)
    with one_child():
        with pytest.raises(NotCounted, match="The memory of model could not be counted: out of something"):
            count_step(shape)
        assert [count_step(shape), count_step(shape)] == [ANSWER, ANSWER]


def test_a_child_that_says_nothing_is_ended_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    runs_instead(monkeypatch, [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(counting, "DEADLINE_S", 0.2)
    with one_child(), pytest.raises(NotCounted, match="The memory of model was not counted after 0 s"):
        count_step(StepShape("model", 1, 64, 10))
