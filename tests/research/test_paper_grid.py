"""The paper's comparison: what is run, what goes on where, and that table and panels say what the runs' rows say."""

import argparse
import json
import shlex
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pace_async.configure import flat, resolve
from pace_async.report.diagnostics import quarters
from research.benchmarks import bench_runs
from research.benchmarks.bench_runs import difference, part_of
from research.benchmarks.paper_grid import CONFIGS, METHODS, OURS, ROWS, folder_of, main, wanted
from research.benchmarks.run_traces import read
from tests.support.command_line import Shell
from tests.support.finished_runs import make_run

TASK = "circle_packing"


def grid(*arguments: str, patch: pytest.MonkeyPatch) -> int:
    """The script as a person would start it."""
    patch.setattr(sys, "argv", ["paper_grid.py", *arguments])
    return main()


def chosen(folder: Path, scale: str = "small", **more: object) -> argparse.Namespace:
    """The parsed arguments."""
    return argparse.Namespace(
        **{
            **{"folder": folder, "scale": scale, "advisor": "4b", "candidates": None, "budget": None},
            **{"without_guards": False, **more},
        }
    )


def change(run: Path, statement: str, *values: object) -> None:
    """Rewrite rows of a run."""
    with sqlite3.connect(run / "population.db") as database:
        database.execute(statement, values)
    database.close()


def measured(folder: Path, method: str, seed: int, sparseness: float) -> Path:
    """A finished run whose best program has another metric, and every other program has another value of it."""
    run = make_run(folder / f"{TASK}-{method}-{seed}")
    change(run, "update candidates set metrics = ?", json.dumps({"sparseness": -1.0}))
    best = "select candidate from candidates where merit is not null order by merit desc, candidate limit 1"
    change(run, f"update candidates set metrics = ? where candidate = ({best})", json.dumps({"sparseness": sparseness}))
    figures = "entropy = 3.0 / (1 + group_number), grad_norm = 0.5 + 0.1 * (group_number % 3)"
    change(run, f"update groups set state = 'trained', {figures}")  # enough groups for spikes
    return run


def test_the_table_has_the_metrics_of_the_best_programs_and_the_panels_have_every_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, sparseness in enumerate((0.25, 0.75)):
        measured(tmp_path, OURS, seed, sparseness)
        if seed:  # its last update is a spike
            latest = "(select max(group_number) from groups where state = 'trained')"
            change(
                tmp_path / f"{TASK}-{OURS}-1",
                f"update groups set grad_norm = 9.0 where group_number = {latest}",
            )
        still = measured(tmp_path, "no_rl", seed, 0.5)
        change(still, "update groups set state = 'skipped', entropy = null, grad_norm = null")
    trace = read(tmp_path / f"{TASK}-{OURS}-0")
    assert grid("--tasks", TASK, "--report-only", "--folder", str(tmp_path), patch=monkeypatch) == 0
    table = capsys.readouterr().out
    assert (tmp_path / "table.md").read_text() == table
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ") for line in table.splitlines()}
    assert rows["method"][5] == "sparseness"
    assert rows["PACEvolve++"][1:3] == ["2", f"{trace.best[-1]:.3f} ± 0.000"]
    assert rows["PACEvolve++"][5] == "0.500 ± 0.354"
    assert rows["PACEvolve++"][7:9] == [f"{np.median(trace.grad_norm):.2f}", "9.00"]
    assert rows["no RL"][5:10] == ["0.500 ± 0.000", "–", "–", "–", "–"]
    assert rows["method"][9:11] == ["spikes: entropy, gradient norm", "spread of rewards, first → last quarter"]
    assert rows["PACEvolve++"][9] == "0.0, 0.5"
    first, last = quarters(list(trace.reward_spread)) or (0.0, 0.0)
    assert rows["PACEvolve++"][10] == rows["no RL"][10] == f"{first:.3f} → {last:.3f}"
    reached = int(np.argmax(trace.best >= trace.best[-1])) + 1
    assert rows["PACEvolve++ as no RL"][1] == f"{100 * reached / 40:.0f} % ({reached} of 40)"
    assert rows["PACEvolve++ − no RL"][1] == "+0.000 (none varies)"
    assert not {"Max@k", "ThetaEvolve"} & set(rows)
    drawn = (tmp_path / f"{TASK}.svg").read_text()
    assert all(f"<!-- {text} -->" in drawn for text in ("PACEvolve++", "no RL", "best reward so far", "gradient norm"))


def test_curves_begin_with_the_seed_program_and_never_fall(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    trace = read(run)
    with sqlite3.connect(run / "population.db") as database:
        rewards = [row[0] for row in database.execute("select reward from candidates order by at, candidate")]
        norms = [row[0] for row in database.execute("select grad_norm from groups where state = 'trained'")]
    database.close()
    assert len(trace.best) == len(trace.best_reward) == len(rewards) - 1
    assert (np.diff(trace.best) >= 0).all()
    assert (np.diff(trace.best_reward) >= 0).all()
    assert trace.best_reward[-1] == max(rewards)
    assert sorted(trace.grad_norm) == sorted(norms)


def test_finished_runs_are_kept_interrupted_ones_go_on_and_failed_ones_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(tmp_path, OURS, 0, 1.0)
    cut = make_run(tmp_path / f"{TASK}-maxk-0")
    change(cut, "delete from run_states")
    said = tmp_path / "said"
    pace = tmp_path / "pace"
    pace.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(said))}\nexit 6\n')
    pace.chmod(0o755)
    monkeypatch.setattr(bench_runs, "PACE", str(pace))
    arguments = ("--tasks", TASK, "--methods", "pace,maxk,no_rl", "--seeds", "0", "--jobs", "1")
    assert grid(*arguments, "--folder", str(tmp_path), patch=monkeypatch) == 1
    resumed, begun = said.read_text().splitlines()
    assert resumed.startswith(f"resume {cut}")
    assert begun.startswith(f"run {TASK} --config")
    told = capsys.readouterr()
    assert f"failed: {TASK}-maxk-0, {TASK}-no_rl-0;" in told.err
    assert "| PACEvolve++ | 1 |" in told.out


def test_the_interval_of_a_difference_is_welchs() -> None:
    ours, theirs = [1.0, 2.0, 4.0], [0.5, 0.75, 0.5, 1.0]
    interval: Any = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert difference(ours, theirs) == f"+1.646 [{interval.low:+.3f}, {interval.high:+.3f}]"
    assert difference([1.0, 1.0], theirs).startswith("+0.312 [")


def test_shards_together_are_all_runs_and_no_run_is_in_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = [wanted(chosen(tmp_path), TASK, method, seed) for seed in range(3) for method in METHODS]
    shards = [part_of(every, f"{part}/4") for part in range(1, 5)]
    assert sorted(run.folder for shard in shards for run in shard) == sorted(run.folder for run in every)
    for wrong in ("0/4", "5/4", "a"):
        with pytest.raises(SystemExit):
            part_of(every, wrong)
        assert "a shard is i/n with i from 1 to n" in capsys.readouterr().err


@pytest.mark.parametrize("method", [method for method in METHODS if method != "end_to_end"])
def test_every_run_of_the_small_scale_can_begin(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    run = wanted(chosen(tmp_path / "grid", candidates=40), "eplb", method, 7)
    said = shell.pace("run", *run.arguments, "--run-dir", str(run.folder), "--dry-run")
    assert said.code == 0, said.err
    assert f"{folder_of(chosen(tmp_path / 'grid'), 'eplb', method, 7)}/" in said.out
    assert "at 40 candidates" in said.out
    assert "learning     none" in said.out if method == "no_rl" else "behind a barrier (sync)" in said.out


def test_the_advisor_of_the_small_scale_writes_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    run = wanted(chosen(tmp_path / "grid"), "eplb", "end_to_end", 7)
    said = shell.pace("run", *run.arguments, "--run-dir", str(run.folder), "--dry-run")
    assert said.code == 2 and "the advisor writes code, and no advisor of the package does" in said.err


def test_a_model_that_writes_the_code_is_a_method_at_the_papers_scale_and_no_row_of_the_paper(tmp_path: Path) -> None:
    run = wanted(chosen(tmp_path, "paper"), "eplb", "end_to_end", 0)
    files = [Path(value) for flag, value in zip(run.arguments, run.arguments[1:], strict=False) if flag == "--config"]
    assert [file.stem for file in files] == ["eplb", "end_to_end"]
    config = resolve(files, environment={})
    assert config.advisor.writes_code and config.learner.objective == "pace"
    assert "end_to_end" not in ROWS


def test_without_guards_the_small_scale_differs_in_them_alone_and_a_method_keeps_its_own(tmp_path: Path) -> None:
    def settings(without_guards: bool) -> dict[str, object]:
        run = wanted(chosen(tmp_path, without_guards=without_guards), "eplb", "ttt_discover", 7)
        files = [Path(file) for flag, file in zip(run.arguments, run.arguments[1:], strict=False) if flag == "--config"]
        return flat(resolve(files, environment={}).model_dump(mode="json"))

    below, above = settings(False), settings(True)
    assert {key: value for key, value in above.items() if value != below[key]} == {
        "learner.warmup": 0,
        "learner.max_move": None,
        "learner.min_move_ess": None,
        "learner.max_sure_move": None,
        "learner.rollback": False,
    }
    assert above["learner.objective"] == "entropic"


def test_a_task_with_a_file_of_its_own_at_the_small_scale_gets_it_below_the_method_s(tmp_path: Path) -> None:
    run = wanted(chosen(tmp_path, without_guards=True), "multi_evolve", "maxk", 0)
    files = [Path(file) for flag, file in zip(run.arguments, run.arguments[1:], strict=False) if flag == "--config"]
    assert [file.stem for file in files] == ["small", "small_multi_evolve", "without_guards", "maxk"]
    published = resolve([CONFIGS / "multi_evolve.yaml"], environment={}).reward
    assert resolve(files, environment={}).reward == published


def test_at_the_papers_scale_the_files_of_advisor_and_method_override_the_tasks(tmp_path: Path) -> None:
    run = wanted(chosen(tmp_path, "paper", advisor="8b"), "eplb", "maxk", 0)
    files = [Path(value) for flag, value in zip(run.arguments, run.arguments[1:], strict=False) if flag == "--config"]
    assert [file.stem for file in files] == ["eplb", "deepseek_8b", "maxk"]
    assert all(file.is_file() for file in files)


def test_a_budget_is_that_of_each_run(tmp_path: Path) -> None:
    assert "--budget" not in wanted(chosen(tmp_path, "paper"), "eplb", "maxk", 0).arguments
    limited = wanted(chosen(tmp_path, "paper", budget=450.0), "eplb", "maxk", 0)
    assert limited.arguments[-2:] == ["--budget", "450"]


def test_an_unknown_method_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        grid("--methods", "pace,ppo", "--folder", str(tmp_path / "grid"), patch=monkeypatch)
    assert end.value.code == 2
    assert "there is no method ppo: pace, thetaevolve" in capsys.readouterr().err
    assert not (tmp_path / "grid").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seeds", "3-1"), "--seeds is first-last, as in 0-4, or a single one, not '3-1'"),
        (("--seeds", "a"), "--seeds is first-last"),
        (("--tasks", "nonsense"), "There is no task 'nonsense'"),
        (("--folder", "/proc/nope"), "cannot write to /proc/nope: "),
    ],
)
def test_invalid_arguments_are_one_sentence(
    arguments: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        grid("--tasks", TASK, "--folder", str(tmp_path / "grid"), *arguments, patch=monkeypatch)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_folder_with_runs_of_other_settings_is_not_taken_for_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pace = tmp_path / "pace"
    pace.write_text("#!/bin/sh\nexit 3\n")
    pace.chmod(0o755)
    monkeypatch.setattr(bench_runs, "PACE", str(pace))
    asked = ("--tasks", TASK, "--methods", "pace", "--seeds", "0", "--folder", str(tmp_path / "grid"))
    for otherwise in ((), (), ("--candidates", "32")):  # what was refused and left no run may be asked for otherwise
        assert grid(*asked, *otherwise, patch=monkeypatch) == 1
        said = capsys.readouterr().err
        assert f"1/1 {TASK}-pace-0 begins" in said
        assert "no run has finished yet" in said
    (tmp_path / "grid" / f"{TASK}-pace-0.arguments").write_text("as a run that is there was asked for")
    with pytest.raises(SystemExit) as end:
        grid(*asked, "--candidates", "32", patch=monkeypatch)
    assert end.value.code == 2
    assert "is a run with other settings" in capsys.readouterr().err
