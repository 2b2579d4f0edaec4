"""The files with which a run on a cluster begins: their commands have flags and settings that exist.

What starts the nodes, Slurm and KubeRay, is not here. A stand-in for `srun` writes down the command that it is given.
"""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from pace_async.cli.main import app
from tests.support.command_line import Shell

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "cluster"
SCRIPT, JOB = FOLDER / "slurm.sh", FOLDER / "kubernetes_job.yml"
NODES = "2"
SLURM = {"SLURM_JOB_NODELIST": "first,second", "SLURM_JOB_NUM_NODES": NODES, "SLURM_CPUS_PER_TASK": "4"}
STANDS_IN = {"scontrol": 'printf "first\\nsecond\\n"', "srun": 'printf "%s\\0" "$@" >"$GIVEN"'}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return Shell(tmp_path, monkeypatch, capsys)


def given_to_srun(folder: Path, run: Path) -> list[str]:
    """The words after `srun` in a job whose run has this folder."""
    programs = folder / "programs"
    programs.mkdir()
    for name, line in STANDS_IN.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    given = folder / "given"
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "GIVEN": str(given), "RUN": str(run)}
    subprocess.run(["bash", str(SCRIPT)], cwd=ROOT, env=SLURM | variables, check=True, timeout=60)
    return given.read_text().split("\0")[:-1]


def planned(shell: Shell, words: list[str], settings: Path) -> str:
    """The plan of a command `pace run`, whose settings are in this file."""
    assert words[:2] == ["pace", "run"]
    at = words.index("--config") + 1
    assert Path(words[at]).name == settings.name
    said = shell.pace(*words[1:at], str(settings), *words[at + 1 :], "--dry-run", "--verbose")
    assert said.code == 0, said.err
    return said.out


def test_bash_reads_the_whole_script_of_slurm() -> None:
    done = subprocess.run(["bash", "-n", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^#SBATCH --signal=B:TERM@\d+$", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_first_job_of_slurm_begins_a_run_by_the_settings_beside_the_script(shell: Shell) -> None:
    words = given_to_srun(shell.folder, shell.folder / "run")
    assert words[:4] == [f"--nodes={NODES}", f"--ntasks={NODES}", "ray", "symmetric-run"]
    at = words.index("pace")
    assert words[at - 2 : at] == ["env", "RAY_ADDRESS=first:6379"]
    assert "evaluators: ray" in planned(shell, words[at:], FOLDER / "slurm.yaml")
    assert not (shell.folder / "run").exists()


def test_the_next_job_of_slurm_resumes_the_run(shell: Shell) -> None:
    run = shell.folder / "run"
    run.mkdir()
    words = given_to_srun(shell.folder, run)
    program, name, *arguments = words[words.index("pace") :]
    assert (program, name) == ("pace", "resume")
    command: Any = typer.main.get_command(app)
    above = typer.Context(command, **command.context_settings)
    flags = command.commands[name].make_context(name, arguments, above).params  # an unknown flag raises an error
    assert (flags["run"], flags["display"]) == (str(run), "plain")


def test_the_job_of_kubernetes_begins_a_run_by_the_settings_that_it_mounts(shell: Shell) -> None:
    job: Any = yaml.safe_load(JOB.read_text(encoding="utf-8"))
    words = shlex.split(job["spec"]["entrypoint"])
    assert "evaluators: ray" in planned(shell, words, FOLDER / "kubernetes.yaml")
    cluster = job["spec"]["rayClusterSpec"]
    assert f"ray=={cluster['rayVersion']}" in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    mounts = {mount["mountPath"] for mount in head["volumeMounts"]}
    for flag in ("--config", "--run-dir"):
        assert str(Path(words[words.index(flag) + 1]).parent) in mounts
