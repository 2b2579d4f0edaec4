"""The table of Galapagos' tasks goes on where it stopped, and their scores agree with ours."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from pace_async.runtime.start.task_check import Check
from research.benchmarks.galapagos_table import page, rows_of, verdict
from scripts.checks import galapagos_agreement

SCORED = "seed program scores"


@pytest.mark.parametrize(
    ("checks", "cause", "score"),
    [
        ([Check(SCORED, True, "0.25 in 1.50 s of 60 s"), Check("scores repeat", True, "")], "scored", 0.25),
        ([Check(SCORED, True, "-1e-05 in 1.50 s of 60 s; the evaluator reports it")], "scored", -1e-05),
        (
            [Check("modules are installed", False, "the evaluator imports mlx, not installed here")],
            "needs packages",
            None,
        ),
        ([Check("resources", False, "it needs a GPU for each evaluation")], "needs a GPU", None),
        ([Check(SCORED, False, "timeout: stopped after 60.0 s")], "too slow", None),
        ([Check(SCORED, False, "55 in 55.00 s of 60 s")], "too slow", 55.0),
        ([Check(SCORED, False, "candidate_error: exit code 1")], "failing", None),
        ([Check(SCORED, True, "2 in 1.00 s of 60 s"), Check("bounds fit", False, "score 2")], "failing", 2.0),
        ([Check("loads", False, "no task")], "failing", None),
    ],
)
def test_each_task_has_one_cause(checks: list[Check], cause: str, score: float | None) -> None:
    found = verdict(checks)
    assert (found["cause"], found["score"]) == (cause, score)


def test_the_page_counts_each_task_once_also_after_a_line_that_was_cut_short(tmp_path: Path) -> None:
    first = {"task": "a", "cause": "too slow", "score": None, "detail": "stopped | after", "limit_s": 60}
    second = {**first, "cause": "scored", "score": 0.5, "evaluation_s": 70.0, "own_packages": True, "limit_s": 600}
    lines = [json.dumps({**second, "at": 7.0}), '{"task": "c", "cau']
    (tmp_path / "rows-0.jsonl").write_text("\n".join(lines))
    (tmp_path / "rows-1.jsonl").write_text(
        f"{json.dumps({**first, 'task': 'b'})}\n{json.dumps({**first, 'at': 5.0})}\n"
    )
    rows = {row["task"]: row for row in rows_of(tmp_path)}
    assert set(rows) == {"a", "b"}
    text = page(list(rows.values()), 3)
    assert "| scored | 1 |" in text and "| too slow | 1 |" in text and "| not tried | 1 | |" in text
    assert "| b | too slow | stopped / after |" in text and "| a | 0.5 | 70 | yes |" in text
    assert "60 or 600 s" in text


@pytest.mark.skipif(find_spec("galapagos") is None, reason="pip install '.[galapagos]'")
def test_both_evaluators_give_the_same_score_for_twelve_bundled_seed_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    galapagos_agreement.main()
    rows = [line for line in capsys.readouterr().out.splitlines() if " by theirs, " in line]
    assert len(rows) == 12
