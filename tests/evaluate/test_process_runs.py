"""A run whose programs are compiled: the real build, sandbox, scorer, fresh instances and database."""

import sys
from pathlib import Path

import pytest

from tests.evaluate.sandbox.cheats import OWN, run_corpus
from tests.support.evaluate_tasks import EVALUATOR
from tests.support.process_tasks import DOUBLE_C, c_program, make_process_task, needs_gcc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


@needs_gcc
async def test_the_rows_of_a_run_hold_the_result_of_each_compiled_program(tmp_path: Path) -> None:
    task = make_process_task(tmp_path / "sums", evaluator=EVALUATOR.replace("seed + i", "i"))
    programs = {
        "better": DOUBLE_C.replace("factor = 2", "factor = 5"),
        "broken": DOUBLE_C.replace("factor = 2", "factor = two"),
        "crashes": c_program("abort();"),
        "again": DOUBLE_C.replace("factor = 2", "factor = 5"),
    }
    rows = await run_corpus(task, tmp_path, programs)
    told = {name: (row["outcome"], row["score"]) for name, row in rows.items()}
    assert told == {
        OWN: ("ok", 6.0),
        "better": ("ok", 15.0),
        "broken": ("candidate_error", None),
        "crashes": ("candidate_error", None),
        "again": ("ok", 15.0),
    }
    assert rows["broken"]["detail"].startswith("the build failed: initial.c:4:")
    assert rows["crashes"]["detail"] == "the program ended before its last answer (SIGABRT)"
    assert rows["better"]["program_hash"] == rows["again"]["program_hash"] != rows[OWN]["program_hash"]
    assert rows["again"]["memoised"]
    assert rows["broken"]["reward"] == rows["crashes"]["reward"] == -1.0
