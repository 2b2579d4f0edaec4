"""What a run refuses to begin with of an advisor that another run trained, and which version it takes."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pace_async.config import Config
from pace_async.configure import resolve
from pace_async.errors import UsageError
from pace_async.learn.rebuild import OPTIMIZER, given_optimizer
from pace_async.runtime.children.advisor_choice import with_advisor
from pace_async.runtime.children.advisor_folder import READER, TINY
from pace_async.runtime.children.catalogue_reading import run_folder
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start.resolved import resolve_run
from pace_async.runtime.start.trained_before import trained_before
from pace_async.task import load_task
from pace_async.weights import checkpoint_digests, record_digests, version_digest, write_atomically
from tests.support.finished_runs import make_run

TASK = load_task("circle_packing")


def keep_version(run: Path, version: int, model: Path = TINY) -> Path:
    """A version of the run, with the files of a model."""
    folder = run / "learner" / "versions" / f"{version:06d}"
    folder.parent.mkdir(parents=True, exist_ok=True)

    def write(target: Path) -> None:
        shutil.copytree(model, target, dirs_exist_ok=True)
        record_digests(target)

    write_atomically(folder, write)
    return folder


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A finished run that keeps its versions 6 and 7."""
    run = make_run(tmp_path / "before")
    keep_version(run, 6)
    keep_version(run, 7)
    return run


def asking(start_from: object, **settings: object) -> Config:
    given = {"advisor.start_from": str(start_from), "advisor.model": "tiny"}
    return resolve(None, {**given, **{name.replace("__", "."): value for name, value in settings.items()}})


def refusal(config: Config) -> str:
    with pytest.raises(UsageError) as refused:
        trained_before(config, TASK)
    return str(refused.value)


def set_config(run: Path, path: str, value: object) -> None:
    with closing(sqlite3.connect(run / "population.db")) as database, database:
        database.execute("update runs set config = json_set(config, ?, json(?))", (path, json.dumps(value)))


def test_by_default_it_is_the_newest_version_that_is_kept(before: Path) -> None:
    newest, named = trained_before(asking(before), TASK), trained_before(asking(f"{before}@6"), TASK)
    assert newest is not None and named is not None
    assert (newest.version, named.version) == (7, 6)
    assert newest.digest == version_digest(checkpoint_digests(TINY))
    assert trained_before(asking(newest.name), TASK) == newest
    shutil.rmtree(newest.folder)
    keep_version(before, 8)  # it is written, and no row has it yet
    assert trained_before(asking(before), TASK) == named
    assert trained_before(resolve(None, {}), TASK) is None


def test_nothing_is_written_before_and_the_settings_name_what_was_taken(before: Path, tmp_path: Path) -> None:
    run = resolve_run(asking(before), TASK, tmp_path / "after")
    assert run.before is not None and not (tmp_path / "after").exists()
    assert run.config.advisor.start_from == f"{before}@7#{run.before.digest}"
    assert f"with the weights of version 7 of run before (digest {run.before.digest[:12]})" in run.advisor
    run.before.copy(run.paths.advisor)
    shutil.rmtree(before)
    assert run_folder(run.config, run.paths, TASK) == run.paths.advisor
    assert version_digest(checkpoint_digests(run.paths.advisor)) == run.before.digest
    run.before.copy(run.paths.advisor)  # an attempt to begin was cut off after it


def test_what_is_there_already_is_neither_used_nor_removed(before: Path, tmp_path: Path) -> None:
    version, there = trained_before(asking(before), TASK), tmp_path / "after" / "advisor"
    assert version is not None
    shutil.copytree(keep_version(tmp_path, 1, READER), there)
    for _ in range(2):
        with pytest.raises(UsageError, match="advisor is there already, and has other weights than"):
            version.copy(there)
        (there / "COMPLETE").unlink(missing_ok=True)
    assert (there / "model.safetensors").read_bytes() == (READER / "model.safetensors").read_bytes()


def test_a_copy_that_is_gone_is_missed_in_one_sentence(before: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is gone, which holds version 0 of the run"):
        run_folder(asking(before), RunPaths(tmp_path / "after"), TASK)


def test_a_version_that_is_not_there_is_refused(before: Path) -> None:
    assert "version 3 of run before is not kept any more: there is 6, 7." in refusal(asking(f"{before}@3"))
    assert "version 99 of run before was never made: there is 6, 7." in refusal(asking(f"{before}@99"))
    assert "version 7 has the digest" in refusal(asking(f"{before}@7#{'0' * 32}"))
    (before / "learner/versions/000007/tokenizer_config.json").write_text("{}")
    assert "tokenizer_config.json is not what was written; name another version." in refusal(asking(before))
    shutil.rmtree(before / "learner")
    assert "no version of run before is in" in refusal(asking(before))
    with closing(sqlite3.connect(before / "population.db")) as database, database:
        database.execute("delete from versions where version > 0")
    assert "run before has made no version yet" in refusal(asking(before))


def test_what_has_no_weights_here_is_refused(before: Path, tmp_path: Path) -> None:
    assert "a database holds no weights" in refusal(asking("postgresql://host/runs"))
    shutil.copy(before / "population.db", tmp_path / "rows.db")
    assert "a database holds no weights" in refusal(asking(tmp_path / "rows.db"))
    assert "There is no run 'nowhere'" in refusal(asking("nowhere@4"))
    assert "--advisor bandit has no model" in refusal(asking(before, advisor__model="bandit"))
    set_config(before, "$.learner.objective", "none")
    assert "run before trained no advisor (--objective none)" in refusal(asking(before))


def test_another_advisor_is_refused(before: Path) -> None:
    other = with_advisor(asking(before, advisor__model="reader"), TASK)
    assert "run before trained --advisor tiny, and this run has --advisor reader" in refusal(other)
    tokenizer = before / "learner/versions/000007/tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + "\n")
    assert "version 7 has another tokenizer than --advisor tiny has now" in refusal(asking(before))
    shutil.rmtree(tokenizer.parent)
    shutil.copy(TINY / "tokenizer.json", keep_version(before, 7, READER))
    assert "version 7 has other tensors than --advisor tiny has now" in refusal(asking(before))


def test_the_words_of_another_catalogue_are_refused(before: Path) -> None:
    set_config(before, "$.advisor.model", "reader")
    shutil.rmtree(before / "learner")
    keep_version(before, 7, READER)
    said = refusal(asking(before, advisor__model="reader"))
    assert "version 7 has learned the words of another catalogue, that of task 'circle_packing'" in said


def test_weights_that_are_adapters_or_with_a_service_are_refused(before: Path) -> None:
    set_config(before, "$.advisor.engine", "vllm")
    set_config(before, "$.learner.lora_rank", 8)
    assert "trained adapters (learner.lora_rank), and a run begins with whole weights" in refusal(asking(before))
    elsewhere = asking(before, advisor__model=str(TINY), learner__trainer="tinker")
    assert "learner.trainer tinker takes no weights from here: leave it out" in refusal(elsewhere)


def test_the_optimizer_is_kept_where_its_checkpoint_is(before: Path, tmp_path: Path) -> None:
    kept = asking(before, advisor__start_optimizer="kept")
    assert "no optimizer of version 7 is kept (there is none): name such a version, or leave " in refusal(kept)
    folder = before / "learner" / "checkpoints" / "000006"
    folder.parent.mkdir()

    def write(target: Path) -> None:
        shutil.copy(TINY / "model.safetensors", target / OPTIMIZER)
        record_digests(target)

    write_atomically(folder, write)
    assert "(there is one of 6)" in refusal(kept)
    named = asking(f"{before}@6", advisor__start_optimizer="kept")
    run = resolve_run(named, TASK, tmp_path / "after")
    assert run.before is not None and run.before.in_words().endswith(" and its optimizer")
    run.before.copy(run.paths.advisor)
    with pytest.raises(UsageError, match=r"learner/given is gone, which holds the optimizer of version 0"):
        run_folder(run.config, run.paths, TASK)
    run.before.copy_optimizer(run.paths.learner)
    assert run_folder(run.config, run.paths, TASK) == run.paths.advisor
    assert (given_optimizer(run.paths.learner) / OPTIMIZER).read_bytes() == (folder / OPTIMIZER).read_bytes()
    (folder / OPTIMIZER).write_bytes(b"x")
    assert "name another version, or leave advisor.start_optimizer out" in refusal(named)
    alone = resolve(None, {"advisor.start_optimizer": "kept"})
    assert "is for a run with --advisor-from: leave it out" in refusal(alone)
