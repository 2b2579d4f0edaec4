"""A task's digest changes with whatever an evaluator may read, and with nothing else."""

from pathlib import Path

from pace_async.task import load_task
from tests.support.task_folders import TASK, write


def test_every_file_of_a_tasks_folder_is_in_its_digest(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    write(folder)
    seen = [load_task(str(folder)).digest]

    def changed() -> bool:
        seen.append(load_task(str(folder)).digest)
        return seen[-1] not in seen[:-1]

    (folder / "data").mkdir()
    (folder / "data" / "load.json").write_text("[1]")
    assert changed()
    (folder / "data" / "load.json").write_text("[2]")
    assert changed()
    (folder / "data" / "load.json").rename(folder / "data" / "other.json")
    assert changed()
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "big.bin").write_bytes(b"1" * 1000)
    (folder / "linked").symlink_to(tmp_path / "far")
    assert changed()
    (tmp_path / "far" / "big.bin").write_bytes(b"2" * 1000)
    assert changed()
    (tmp_path / "far" / "loop").symlink_to(folder)
    assert load_task(str(folder)).digest == seen[-1]


def test_caches_and_runs_are_not_in_a_tasks_digest(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    write(folder)
    before = load_task(str(folder)).digest
    for name in (
        "__pycache__/evaluator.cpython-312.pyc",
        ".cache/x",
        ".evaluator.py.swp",
        "runs/mine-1/population.db",
        "cheats/a.py",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "runs" / "mine-1" / "events.jsonl").write_text("x")
    assert load_task(str(folder)).digest == before


def test_the_group_of_a_task_is_not_in_its_digest(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    write(folder)
    before = load_task(str(folder)).digest
    write(folder, task__yaml="group: packing\n" + TASK)
    assert load_task(str(folder)).digest == before
    write(folder, task__yaml=TASK.replace("A sum.", ">-\n  A sum.\n  group: packing"))
    assert load_task(str(folder)).digest != before


def test_a_task_says_with_which_earlier_folders_its_scores_compare(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    write(folder)
    before = load_task(str(folder))
    write(folder, task__yaml=f"earlier_digests: [{before.digest}]\n" + TASK)
    after = load_task(str(folder))
    assert after.digest != before.digest
    assert after.scores_as(after.digest)
    assert after.scores_as(before.digest)
    assert not before.scores_as(after.digest)
