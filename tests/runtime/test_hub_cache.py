"""An advisor named by its id on the hub is read from the cache, and its commit is in the run's row."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from pace_async.errors import UsageError
from pace_async.runtime.children.advisor_folder import TINY
from pace_async.runtime.children.hub_cache import cached_folder
from tests.support.command_line import Shell
from tests.support.real_runs import rows

PACE = str(Path(sys.executable).with_name("pace"))
MODEL, COMMIT, NEWER = "acme/tiny-copy", "a" * 40, "b" * 40


def fetch(home: Path, commit: str) -> None:
    """Leave a model in a cache as `hf download` does: files as blobs, a snapshot of links, a branch that names it."""
    cache = home / "hub" / f"models--{MODEL.replace('/', '--')}"
    snapshot = cache / "snapshots" / commit
    for folder in (cache / "blobs", cache / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(sorted(TINY.iterdir())):
        if file.is_file():
            blob = cache / "blobs" / f"{commit[0]}{number:039}"
            shutil.copy(file, blob)
            (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    (cache / "refs" / "main").write_text(commit)


def pace(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With a hub that cannot be reached: a closed port, and no word that it is offline."""
    environment = {**os.environ, "HF_HOME": str(home), "HF_ENDPOINT": "http://127.0.0.1:9"}
    for name in ("HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        environment.pop(name, None)
    return subprocess.run(
        [PACE, *arguments], env=environment, cwd=home, capture_output=True, text=True, timeout=200, check=False
    )


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The same in this process, whose tests may not reach the hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("name", "command"),
    [(MODEL, MODEL), (f"{MODEL}@v2", f"{MODEL} --revision v2"), ("acme/a--b", "acme/a--b")],
)
def test_an_id_that_is_not_in_the_cache_is_refused_with_the_command_that_fetches_it(
    shell: Shell, name: str, command: str
) -> None:
    said = shell.pace("run", "circle_packing", "--advisor", name, "--run-dir", "run")
    assert said.code == 2
    assert f"`hf download {command}` fetches it" in said.err
    assert str(shell.folder / "hub") in said.err
    assert said.err.count("\n") == 1
    assert not (shell.folder / "run").exists()


@pytest.mark.parametrize("lost", ["config.json", "tokenizer.json", "model.safetensors", "a shard"])
def test_a_download_that_was_cut_off_is_refused_with_the_file_that_is_missing(
    shell: Shell, tmp_path: Path, lost: str
) -> None:
    fetch(tmp_path, COMMIT)
    snapshot = tmp_path / "hub" / f"models--{MODEL.replace('/', '--')}" / "snapshots" / COMMIT
    said = {"tokenizer.json": "a tokenizer", "model.safetensors": "weights (*.safetensors)"}.get(lost, lost)
    if lost == "a shard":
        said = "model-2.safetensors"
        index = {"weight_map": {"a": "model.safetensors", "b": said}}
        (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    elif lost == "model.safetensors":
        (snapshot / lost).resolve().unlink()  # leaves a link to nothing
    else:
        for file in snapshot.glob("tokenizer*" if lost == "tokenizer.json" else lost):
            file.unlink()
    refused = shell.pace("run", "circle_packing", "--advisor", MODEL, "--run-dir", "run")
    assert refused.code == 2
    assert f"where it lacks {said})" in refused.err
    assert f"`hf download {MODEL}" in refused.err
    assert refused.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_the_plan_names_the_commit_that_the_cache_has(shell: Shell, tmp_path: Path) -> None:
    fetch(tmp_path, COMMIT)
    done = shell.pace("run", "circle_packing", "--advisor", MODEL, "--dry-run", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["config"]["advisor"]["model"] == f"{MODEL}@{COMMIT}"
    assert said["plan"]["advisor"] == f"{MODEL}@{COMMIT}, served by embedded; it knows the catalogue"


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_a_run_reads_the_cache_and_a_resume_has_the_same_commit_after_a_newer_one_was_fetched(tmp_path: Path) -> None:
    fetch(tmp_path, COMMIT)
    sets = ("--objective", "none", "--threads", "2", "--display", "none", "--run-dir", "run")
    done = pace(tmp_path, "run", "circle_packing", "--advisor", MODEL, "--candidates", "4", *sets)
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "run", "select advisor from runs") == [(f"{MODEL}@{COMMIT}",)]
    fetch(tmp_path, NEWER)
    again = pace(tmp_path, "resume", "run", "--candidates", "6", "--display", "none")
    assert again.returncode == 0, again.stderr
    assert rows(tmp_path / "run", "select count(*) from candidates where candidate > 0") == [(6,)]
    assert rows(tmp_path / "run", "select advisor from runs") == [(f"{MODEL}@{COMMIT}",)]


def test_a_missing_folder_of_models_is_not_to_be_downloaded() -> None:
    with pytest.raises(UsageError) as refused:
        cached_folder("models/qwen3.5-4b")
    assert "hf download" not in str(refused.value)
    assert "make the folder models/qwen3.5-4b" in str(refused.value)
