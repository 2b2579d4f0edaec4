"""The comparison of scaffolds: which runs stand for an arm, and what its table compares."""

import argparse
import json
from pathlib import Path

import pytest

from research.rivals.bench_rivals import Trace, adopt, folder_of, report
from tests.support.finished_runs import make_run


def chosen(folder: Path, candidates: int) -> argparse.Namespace:
    return argparse.Namespace(task="circle_packing", folder=folder, candidates=candidates)


def test_a_finished_run_stands_for_an_arm_whose_advisor_is_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, asked = make_run(tmp_path / "run"), chosen(tmp_path / "rivals", 4)
    adopt(asked, "pace untrained", str(run))
    [file] = (tmp_path / "rivals").glob("*/trace.json")
    trace = Trace(**json.loads(file.read_text()))
    assert file.parent == folder_of(asked, "pace untrained", 0)
    assert len(trace.scores) > len(trace.cut(4).scores) == 4
    assert trace.best >= trace.cut(4).best >= trace.seed_score
    for arm, candidates, sentence in (("OpenEvolve", 4, "no arm that a run"), ("pace told", 10**6, "no finished run")):
        with pytest.raises(SystemExit):
            adopt(chosen(tmp_path / "rivals", candidates), arm, str(run))
        assert sentence in capsys.readouterr().err


def test_learning_is_compared_with_advice_that_does_not_learn_and_with_each_other_scaffold() -> None:
    runs = {
        arm: [Trace([0.1, end, end + 0.1 * seed], 0.0, 9.0) for seed in range(3)]
        for arm, end in (("pace told", 0.8), ("pace untrained", 0.5), ("ShinkaEvolve", 0.3))
    }
    lines = [line.split("|")[1].strip() for line in report(runs).splitlines() if " − " in line]
    assert lines == ["pace told − pace untrained", "pace told − ShinkaEvolve", "pace untrained − ShinkaEvolve"]
